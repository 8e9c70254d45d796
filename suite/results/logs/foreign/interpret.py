"""Interpret the records of a log that another program wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from suite.common.run_end import SUCCESS, EndCode, EndStatus, RunEnd
from suite.results.logs import quality, values
from suite.results.logs.events import Event, Problem, ProblemCode, Remarks, whole_number
from suite.results.logs.foreign import attempts, qualities
from suite.results.logs.foreign.infer_epochs import epochs_at, epochs_at_stop
from suite.results.logs.foreign.run_clock import find_clock
from suite.results.logs.limits import first_odd_value, odd_value
from suite.results.logs.record import RunRecord, RunSettings, Throughput
from suite.results.names import UNKNOWN_ROUND, round_like, workload_name
from suite.results.targets import LABELED_IN_SAMPLES
from workloads.api import Json

_RULES_BY_FORMAT = {"MLPv0.5.0": "v0.5", "MLL": "v0.6", "MLPerf": "v0.6", "MLLOG": UNKNOWN_ROUND}
_LATE_MS = 10.0
"""Maximum time in ms by which the last evaluation record may follow `run_stop`.

HugeCTR rounds its time stamps to 10 ms, so an evaluation record may have a later time stamp than
`run_stop`.
"""


def interpret(
    path: Path, events: Sequence[Event], problems: Iterable[Problem], digest: str
) -> RunRecord:
    """Return the record of a log that another program wrote.

    New problems are appended to the given problems.

    Args:
        path: Path of the log.
        events: Records of the log, without repeated records.
        problems: Problems of the file and its lines.
        digest: Hash of all records.
    """
    problems, remarks = list(problems), Remarks()
    if not events:
        reason = problems[0].text if problems else "the file holds no record"
        end = RunEnd(EndStatus.UNREADABLE, EndCode.NO_RECORD, reason)
        return RunRecord(
            path=path, settings=_settings({}, "", "", problems), end=end, problems=tuple(problems)
        )
    log_format = events[0].format
    events = _records_of_attempt(events, log_format, problems)
    first = values.first_of_each_key(events)
    logged = {key: event.value for key, event in first.items()}
    record = values.described_run(path, log_format, first, digest, events[0].benchmark)
    workload = "retinanet" if qualities.is_retinanet(record.benchmark, logged) else record.benchmark
    settings = _settings(first, workload, log_format, problems)
    batch, basis = _batch(settings, logged)
    record = replace(record, settings=settings, batch_logged=batch, batch_basis=basis)
    record = _with_result(record, first.get("quality_target"), events, problems, remarks)
    seed = values.read_seed(first.get("seed", first.get("run_set_random_seed")), problems)
    return replace(record, seed=seed, problems=(*problems, *remarks.problems()))


def _with_result(
    record: RunRecord,
    target: Event | None,
    events: Sequence[Event],
    problems: list[Problem],
    remarks: Remarks,
) -> RunRecord:
    """Add the targets, time, evaluations, end, and epochs of the run to the record."""
    settings, benchmark = record.settings, record.benchmark
    targets, source = qualities.find_targets(settings.workload, record.format, target, remarks)
    clock = find_clock(events, benchmark, record.format, problems)
    relevant = [event for event in events if event.key in ("epoch_start", "eval_accuracy")]
    events = [event for event in events if event.key != "eval_accuracy"]
    found = _evaluations(relevant, clock, targets, benchmark, remarks)
    targets = qualities.bleu_targets_in_log_scale(targets, source, found.used, remarks)
    found = replace(found, reached=quality.first_that_meets(targets, found.used, benchmark))
    throughput = values.throughput_blocks(events, clock.start)
    end = _end(clock, settings, bool(targets), found, throughput, benchmark, problems)
    record = values.with_result(record, clock, end, found, throughput)
    record = replace(record, targets=targets, targets_source=source)
    if end.status is not EndStatus.SUCCESS or found.reached is None:
        return record
    quality.report_rounding(found, targets, benchmark, remarks)
    if source == "rules" and settings.workload in LABELED_IN_SAMPLES:
        return record
    by_rules = record.format != "MLPerf" and settings.first_epoch == 1
    epochs, trained = _epochs(found, by_rules, events, clock, remarks)
    return replace(record, epochs_to_target=epochs, epochs_trained=trained)


def _records_of_attempt(
    events: Sequence[Event], log_format: str, problems: list[Problem]
) -> Sequence[Event]:
    """Return the records of the chosen attempt.

    A file with several attempts or several line formats adds a problem.
    """
    found = attempts.find_attempts(events)
    if len(found) > 1:
        chosen = attempts.choose_attempt(found)
        text = attempts.attempts_text(found, chosen)
        problems.append(Problem(found[chosen].lines[0], ProblemCode.RESTARTED, text))
        events = attempts.events_with_identity(found, chosen)
    for event in events:
        if event.format != log_format:
            text = f"a {event.format} record in a {log_format} log"
            problems.append(Problem(event.line, ProblemCode.OTHER_FORMAT, text))
            break
    return events


def _settings(
    first: Mapping[str, Event], workload: str, log_format: str, problems: list[Problem]
) -> RunSettings:
    """Return the settings in the log keys that the MLPerf rules define."""
    logged = first.get("global_batch_size")
    batch = whole_number(logged.value) if logged else None
    odd = odd_value("global_batch_size", batch, logged.line) if logged else None
    if odd is not None:
        problems.append(odd)
        batch = None
    rules = _RULES_BY_FORMAT.get(log_format, "")
    like = round_like(rules)
    system = (
        values.text_or_empty(first["submission_platform"].value)
        if "submission_platform" in first
        else ""
    )
    return RunSettings(
        workload=workload,
        system=system,
        global_batch_size=batch,
        rules=rules,
        first_epoch=like.first_epoch,
        clock=like.clock,
    )


def _batch(settings: RunSettings, logged: Mapping[str, Json]) -> tuple[int | None, str]:
    """Return the logged batch size, and a note on which devices the batch size covers.

    The note is `global` if the batch size covers all devices. Otherwise the note warns that the log
    does not state whether the batch size is global.
    """
    if settings.global_batch_size is not None:
        return settings.global_batch_size, "global"
    batch = whole_number(logged.get("input_batch_size"))
    return batch, "" if batch is None else "of one device or of all: the log does not say"


def _evaluations(
    relevant: list[Event],
    clock: quality.RunClock,
    targets: Mapping[str, float],
    benchmark: str,
    remarks: Remarks,
) -> quality.Evaluations:
    def read_quality(event: Event) -> Mapping[str, float]:
        return qualities.read_quality(event, targets, benchmark, remarks)

    return quality.read_evaluations(relevant, clock, read_quality, remarks, _LATE_MS)


def _end(
    clock: quality.RunClock,
    settings: RunSettings,
    has_targets: bool,
    evaluations: quality.Evaluations,
    throughput: Sequence[Throughput],
    benchmark: str,
    problems: list[Problem],
) -> RunEnd:
    """Return how the run ended.

    A run with an implausible value counts as failed.
    """
    if clock.start is not None and clock.end is not None and clock.end.key == "eval_result":
        end = _end_by_result(evaluations)
    else:
        end = quality.claimed_end(clock, settings.to_target, has_targets, evaluations, problems)
    problems += first_odd_value(clock, evaluations.used, throughput, workload_name(benchmark))
    odd = next((problem for problem in problems if problem.code is ProblemCode.NOT_PLAUSIBLE), None)
    return end if odd is None else RunEnd(EndStatus.FAILED, EndCode.NOT_PLAUSIBLE, odd.text)


def _end_by_result(evaluations: quality.Evaluations) -> RunEnd:
    """Return the end of a run whose time is recorded in `eval_result`."""
    if evaluations.reached is not None:
        return SUCCESS
    return RunEnd(
        EndStatus.FAILED,
        EndCode.TARGET_MISSED,
        "no evaluation up to eval_result reaches the target",
    )


def _epochs(
    found: quality.Evaluations,
    by_rules: bool,
    events: Sequence[Event],
    clock: quality.RunClock,
    remarks: Remarks,
) -> tuple[float | None, float | None]:
    """Return the number of epochs until the target, and until the end of the run."""
    assert found.reached is not None
    evaluations = found.used
    epochs = epochs_at(found.reached, by_rules, events, evaluations, remarks)
    if epochs is None or clock.end is None:
        return epochs, epochs
    trained = epochs_at_stop(
        epochs, found.reached, by_rules, events, evaluations, clock.end.time_ms
    )
    if trained > epochs:
        text = f"the run continued after the target, from epoch {epochs:g} to {trained:g}"
        text += ": the time counts to run_stop, the epochs to the target"
        remarks.add(evaluations[found.reached].line, ProblemCode.CONTINUED_AFTER_TARGET, text)
    return epochs, trained
