"""Additional checks for logs of this suite, beyond mlperf-logging's rules.

A log of this suite contains the settings of the run, and the measurements of each block of steps.
The checks compare the log with the rules of its round, and with the files next to the log. They
also check that the log is consistent. docs/explanation/open_and_closed_division.md lists the
violations that no check of a log can find.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from suite.compliance import (
    log_clock,
    log_division,
    log_figures,
    log_origin,
    log_schedule,
    recorded_run,
)
from suite.compliance.complaints import Complaint
from suite.compliance.log_origin import NEVER_EDIT
from suite.compliance.logged_workload import (
    NotVerifiableError,
    build_workload,
    read_run_file,
    recorded_parts,
)
from suite.results.logs.events import Event, Problem, ProblemKind
from suite.results.logs.record import RunRecord
from suite.results.text import clean

_LOGGED_ONCE = frozenset(
    {
        *(
            "submission_benchmark",
            "submission_org",
            "submission_division",
            "submission_status",
            "submission_platform",
        ),
        *("cache_clear", "seed", "global_batch_size", "train_samples", "eval_samples"),
    }
)


@dataclass
class Findings:
    """Complaints about a log of this suite, and reasons why some checks were skipped."""

    complaints: list[Complaint] = field(default_factory=list)
    unverified: list[str] = field(default_factory=list)
    """Reasons why some checks were skipped. The list is empty if all checks were possible."""


def find_complaints(
    record: RunRecord,
    events: Sequence[Event],
    problems: Iterable[Problem],
    is_early_version: bool = False,
    is_readable: bool = True,
) -> Findings:
    """Check a log of this suite.

    For logs of other programs, the function returns no findings. Invalid content of the log never
    raises an error.

    Args:
        record: The run.
        events: All records of the log in the order of the file.
        problems: Problems that the log reader found, except problems of single lines.
        is_early_version: True for a log whose epochs start at 1 although the epochs of its round
            start at 0.
        is_readable: False if a line could not be read. The log then fails the check, and some
            records may be missing because of the unreadable line.
    """
    findings = Findings()
    findings.complaints += log_origin.find_origin_complaints(record, events)
    if not record.settings.profile or findings.complaints or not is_readable:
        return findings
    findings.complaints += _reader_complaints(problems)
    try:
        for complaint in _complaints_about_run(
            record, events, is_early_version, findings.unverified
        ):
            findings.complaints.append(complaint)
    except Exception as error:  # the settings are impossible in a run
        problem = (
            f"settings that no run can have ({type(error).__name__}: {clean(str(error), 120)})"
        )
        line = next((event.line for event in events if event.key == "suite_run"), 0)
        findings.complaints.append(
            Complaint("suite_run", line, problem, "valid settings", NEVER_EDIT)
        )
    return findings


def _complaints_about_run(
    record: RunRecord, events: Sequence[Event], is_early_version: bool, unverified: list[str]
) -> Iterator[Complaint]:
    run_file = read_run_file(record)
    parts = recorded_parts(events, run_file)
    yield from recorded_run.find_status_complaints(record)
    yield from recorded_run.find_run_file_complaints(record, events, run_file)
    yield from recorded_run.find_metrics_complaints(record, events)
    yield from _batch_complaints(record, events)
    yield from _repeated_key_complaints(events)
    yield from _stop_complaints(events)
    yield from log_clock.find_clock_complaints(record, events)
    if log_division.is_logged_closed(events):
        yield from log_division.find_division_complaints(record, events, parts)
        unverified += recorded_run.list_unverified(record, run_file)
    if not _came_to_its_end(record, events):
        return
    yield from log_figures.find_figure_complaints(record, events)
    if parts is None:
        unverified.append(
            "suite_run has no hyperparameters, so steps and evaluations have no schedule to compare"
            " with"
        )
        return
    try:
        logged = build_workload(record, events, run_file, parts)
        first_epoch = logged.workload.round.first_epoch + is_early_version
        yield from log_schedule.find_schedule_complaints(record, events, logged, first_epoch)
    except NotVerifiableError as error:
        unverified.append(f"steps, samples and evaluations: {error}")


def _reader_complaints(problems: Iterable[Problem]) -> Iterator[Complaint]:
    for problem in problems:
        if problem.code.kind is ProblemKind.DEFECT:
            yield Complaint(
                "", problem.line, problem.text, "a log as the suite writes it", NEVER_EDIT
            )


def _batch_complaints(record: RunRecord, events: Sequence[Event]) -> Iterator[Complaint]:
    """Compare the record `global_batch_size` with the batch size in `suite_run`."""
    size = record.settings.global_batch_size
    for event in events:
        if event.key == "global_batch_size" and event.value != size:
            found = clean(str(event.value), 40)
            yield Complaint(
                "global_batch_size", event.line, found, f"{size}, as in suite_run", NEVER_EDIT
            )


def _repeated_key_complaints(events: Sequence[Event]) -> Iterator[Complaint]:
    """Yield a complaint about each key that must be logged once but occurs twice.

    If a key occurs twice, different log readers may read different values.
    """
    seen: set[str] = set()
    for event in events:
        if event.key in seen:
            yield Complaint(event.key, event.line, "logged again", "exactly once", NEVER_EDIT)
        if event.key in _LOGGED_ONCE:
            seen.add(event.key)


def _stop_complaints(events: Sequence[Event]) -> Iterator[Complaint]:
    """Yield a complaint about a `run_stop` that has the status success and also a reason.

    Only a run that ended with an error has a reason.
    """
    for event in events:
        reason = event.metadata.get("reason") if event.key == "run_stop" else None
        if reason and event.metadata.get("status") == "success":
            found = f"success, and the reason {clean(str(reason), 80)}"
            yield Complaint(
                "run_stop", event.line, found, "success without a reason, or a failure", NEVER_EDIT
            )


def _came_to_its_end(record: RunRecord, events: Sequence[Event]) -> bool:
    """Return True if the run reached its target or its last step.

    Returns False if the run ended with an error.
    """
    stops = [event for event in events if event.key == "run_stop"]
    return record.finished or any("reason" not in event.metadata for event in stops)
