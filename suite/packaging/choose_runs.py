"""Choose the runs of a submission package.

All runs of a result must have the same settings and be valid for submission. The runs with the
earliest start times are chosen.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.catalog.rounds import files, find_round, is_user_defined
from suite.common.job_name import is_in_name, named
from suite.common.labels import LabelKind
from suite.common.paths import real_path
from suite.common.run_folder import safe_name
from suite.compliance.check_log import check_file
from suite.compliance.complaints import ComplaintKind
from suite.compliance.rulesets import DEFAULT, OPEN_RULES, first_ruleset, has_rules
from suite.packaging.layout import failed_allowed, runs_required, validated_benchmark
from suite.packaging.recorded_overrides import recorded_machine, recorded_overrides
from suite.packaging.same_setup import difference, find_copy, find_foreign_overlap, find_overlap
from suite.results.logs.record import RunRecord
from suite.results.names import workload_name
from suite.results.text import clean
from workloads.api import Round


@dataclass(frozen=True)
class ChosenRuns:
    """The chosen runs of a benchmark."""

    benchmark: str
    records: tuple[RunRecord, ...]
    """Records of the chosen runs in order of start time. The rules determine the number of runs."""
    notes: tuple[str, ...]
    """Descriptions of the runs that were not chosen, with the reason for each run."""


def choose_runs(runs: Sequence[RunRecord], explanation: str = "") -> list[ChosenRuns]:
    """Choose the runs of each benchmark.

    Args:
        runs: Records of all runs.
        explanation: The user's reason why runs of a job are missing, which is written into the
            package. If empty, missing runs are an error.

    Raises:
        ValueError: A run cannot be submitted. The message is a single line about the first problem.
    """
    notes = [
        f"left out: {clean(run.name)} has no log in which the clock started"
        f" ({clean(run.status, 40)})"
        for run in runs
        if _never_started(run)
    ]
    records = [_submittable_record(run) for run in runs if not _never_started(run)]
    notes += _explained(_missing(runs), explanation)
    benchmarks: dict[str, list[RunRecord]] = {}
    for record in records:
        benchmarks.setdefault(validated_benchmark(record.benchmark), []).append(record)
    for name, found in benchmarks.items():
        rounds = {
            record.settings.rules: find_round(record.settings.rules)
            for record in found
            if record.settings.profile
        }
        unsupported = sorted(
            rules
            for rules, of_round in rounds.items()
            if of_round is None or not _has_package_checker(of_round, name)
        )
        if name != "ncf" and unsupported:
            raise ValueError(
                f"{name}: runs of rules={clean(unsupported[0], 40)} cannot be packaged, because the"
                f" package checker of ruleset {first_ruleset(name)} has different targets and a"
                " different clock. To check their logs, run: suite check LOGS. For runs that can be"
                f" packaged, set {_rounds_text(name)}"
            )
        if name in OPEN_RULES and any(record.division == "open" for record in found):
            raise ValueError(
                f"{name}: open runs cannot be packaged, because the open rules of mlperf-logging"
                " require an eval_accuracy below 1.0, which no run reaches. To check their logs,"
                " run: suite check LOGS. Package closed runs"
            )
    if not benchmarks:
        raise ValueError("no run is left to package: none has a log in which the clock started")
    chosen = [_choose_runs(name, of_benchmark) for name, of_benchmark in sorted(benchmarks.items())]
    if names := find_overlap([record for item in chosen for record in item.records]):
        raise ValueError(
            f"{names} overlap in time on one machine, so neither run had the machine to itself."
            " Give runs that ran one after another, or set system.name=NAME for each machine and"
            " package each system separately"
        )
    for item in chosen:
        if names := find_foreign_overlap(item.records):
            notes.append(
                f"{item.benchmark}: {names} overlap in time. Such runs need different machines"
            )
    return [ChosenRuns(item.benchmark, item.records, (*notes, *item.notes)) for item in chosen]


def _has_package_checker(of_round: Round, benchmark: str) -> bool:
    """Return True if mlperf-logging can check a package of a round with this benchmark.

    Rounds with ruleset 0.7.0 can be checked. Other rounds can be checked if they are shipped with
    the suite and their ruleset has the benchmark.
    """
    if of_round.ruleset == DEFAULT:
        return True
    return not is_user_defined(of_round.name) and has_rules(of_round.ruleset, benchmark)


def _rounds_text(benchmark: str) -> str:
    """Return the overrides of the rounds whose runs of a benchmark can be packaged."""
    with_checker = (
        name
        for name in files()
        if (of_round := find_round(name)) is not None
        and has_rules(of_round.ruleset, benchmark)
        and _has_package_checker(of_round, benchmark)
    )
    return " or ".join(f"rules={name}" for name in with_checker)


def _never_started(run: RunRecord) -> bool:
    """Check whether a run of this suite ended before the clock of the run started.

    Such a run does not count as an attempt.
    """
    if run.running or run.status == "unreadable":
        return False
    return not run.has_log or (run.start_ms is None and bool(run.settings.profile))


def _missing(runs: Sequence[RunRecord]) -> dict[str, list[int]]:
    """Map the name of each job to the indices of its missing runs.

    A run is missing if its folder was deleted or is not below the paths that the user gave. Only
    indices below the highest index of the job's runs are checked.
    """
    indices: dict[Path, set[int]] = {}
    for run in runs:
        folder = run.path if not run.has_log and run.path.is_dir() else run.path.parent
        settings = run.settings if run.has_log else None
        named = re.fullmatch(r"run_(\d{1,6})", folder.name)
        index = (
            settings.run_index
            if settings is not None and settings.profile
            else int(named[1])
            if named
            else None
        )
        if index is not None:
            indices.setdefault(real_path(folder).parent, set()).add(index)
    jobs = {
        job.name: sorted(set(range(max(present))) - present) for job, present in indices.items()
    }
    return {job: missing for job, missing in jobs.items() if missing}


def _explained(missing: Mapping[str, Sequence[int]], explanation: str) -> list[str]:
    """Return a note about each job with missing runs.

    Raises ValueError if runs are missing without an explanation, or if the user gave an explanation
    although no run is missing.
    """
    if explanation and not missing:
        raise ValueError(
            "--explain: no run is missing between the first and the last run. Leave --explain out"
        )
    texts = [
        f"{clean(job, 120)}: {'runs' if len(indices) > 1 else 'run'}"
        f" {clean(', '.join(map(str, indices)), 120)} missing"
        for job, indices in missing.items()
    ]
    if texts and not explanation:
        raise ValueError(
            f"{'; '.join(texts[:5])}: every run that was started counts. Give their logs too, or"
            ' explain with --explain "…", which is written into the package, why they are missing'
        )
    return [f"{text}: {clean(explanation, 400)}" for text in texts]


def _submittable_record(run: RunRecord) -> RunRecord:
    """Return the run's record if the run can be submitted.

    Raises ValueError, with a remedy in the message, if the run cannot be submitted.
    """
    name = clean(str(run.path), 300)
    if run.running:
        raise ValueError(f"{name} is still being written. Wait until the run has ended")
    if not run.has_log:
        raise ValueError(f"{name}: {clean(run.reason)}. Give logs that can be read")
    record, problems, settings = run, run.problems, run.settings
    if settings.has_label(LabelKind.NULL_DEVICE):
        raise ValueError(
            f"{name} is of the {LabelKind.NULL_DEVICE.value}, which does not compute. Run it on"
            " GPUs"
        )
    if settings.profile not in ("", "reference"):
        raise ValueError(
            f"{name} is of profile {clean(settings.profile, 40)}, but only reference runs can be"
            " submitted. Set profile=reference and run again"
        )
    # conf/profile/demo.yaml and synthetic.yaml set this organization
    if "not an MLPerf result" in record.org:
        raise ValueError(
            f"{name} has the organization {clean(record.org, 60)}. Such runs cannot be"
            " submitted. Set profile=reference and run again"
        )
    if record.format != "MLLOG":
        content = (
            f"contains :::{record.format} lines"
            if record.format
            else f"is not a log ({clean(run.reason or record.reason)})"
        )
        raise ValueError(f"{name} {content}. A package needs :::MLLOG logs (round v0.7 or later)")
    if record.status == "truncated":
        raise ValueError(
            f"{name} was cut off ({clean(run.reason)}), but a package needs complete logs. Run it"
            " again with resume=true, or give only the other logs and explain in the submission why"
            " this log is missing"
        )
    if problems:
        raise ValueError(
            f"{name}: {clean(str(problems[0]))}. A log with such lines cannot be submitted, and it"
            " must not be edited"
        )
    if not settings.to_target:
        raise ValueError(
            f"{name} has {clean(settings.stop, 40)}, {clean(settings.mode, 40)}: only runs to the"
            " target count"
        )
    if record.start_ms is None:
        raise ValueError(f"{name} has no run_start. Give logs of complete runs")
    return record


def _choose_runs(benchmark: str, records: list[RunRecord]) -> ChosenRuns:
    """Check that all runs belong to the same result, and return the earliest runs."""
    if text := difference(records):
        raise ValueError(
            f"{benchmark}: runs of a result must be equal except for the seed, but {text}."
            " Package them separately"
        )
    if text := find_copy(records):
        raise ValueError(
            f"{benchmark}: {text}, so they are copies of the same run. Give each run once"
        )
    required = runs_required(benchmark)
    if len(records) < required:
        raise ValueError(
            f"{benchmark}: {len(records)} of {required} runs, {required - len(records)} are"
            " missing. " + _command_for_missing_runs(records[0])
        )
    ordered = sorted(records, key=lambda record: record.start_ms or 0.0)
    taken, rest = ordered[:required], ordered[required:]
    notes = (
        [
            f"{benchmark}: {required} of {len(records)} runs were taken, in order of start and not"
            " by speed"
        ]
        if rest
        else []
    )
    if rest:
        named = ", ".join(clean("/".join(record.path.parts[-2:]), 120) for record in rest[:10])
        notes.append(f"left out: {named}{f' and {len(rest) - 10} more' if len(rest) > 10 else ''}")
    _check_logs(benchmark, taken)
    return ChosenRuns(benchmark, tuple(taken), tuple(notes))


def _command_for_missing_runs(record: RunRecord) -> str:
    """Return a command that adds the missing runs of a job to the job's folder.

    The command contains the settings in the name of the folder. If the folder was renamed or was
    not created by the suite, the command contains all recorded settings and creates a new folder.
    """
    settings = record.settings
    if not settings.profile:
        return "Give all logs of the result"
    job = record.path.parent.parent
    overrides = recorded_overrides(settings, recorded_machine(record))
    kinds = (
        workload_name(settings.workload),
        settings.framework,
        settings.profile,
        settings.devices or 1,
    )
    in_name = {
        key: word
        for key, word in overrides.items()
        if not is_in_name(key) or safe_name(f"-{word}") in safe_name(job.name)
    }
    for device in ("auto", settings.device):
        if named(*kinds, device, list(in_name.values())) == job.name:
            overrides = {
                key: word for key, word in in_name.items() if key != "device" or device != "auto"
            }
    arguments = shlex.join([*overrides.values(), clean(f"output={job.parent}", 300), "resume=true"])
    return f"Run: python run_suite.py {arguments}"


def _check_logs(benchmark: str, records: Sequence[RunRecord]) -> None:
    """Check each log against the rules, and check how many runs missed the target."""
    missed: list[RunRecord] = []
    for record in records:
        verdict = check_file(record.path)
        if verdict.missed_target or (verdict.passed and record.status != "success"):
            missed.append(record)
        elif not verdict.passed:
            wrong = [item for item in verdict.complaints if not item.warning]
            first = next((item for item in wrong if item.kind is ComplaintKind.RULE), None)
            first = first or (wrong[0] if wrong else None)
            problem = (
                f"{first.key}: {first.found}, needed: {first.needed}. To fix it: {first.do}"
                if first
                else verdict.text
            )
            raise ValueError(
                f"{clean(str(record.path), 300)} fails the rules ({verdict.text})."
                f" {clean(problem, 500)}"
            )
    allowed = failed_allowed(benchmark)
    if len(missed) > allowed:
        raise ValueError(
            f"{benchmark}: {len(missed)} of the first {len(records)} runs missed the target, but"
            f" only {allowed} may. Run the set again (the first: {clean(str(missed[0].path), 300)}:"
            f" {clean(missed[0].reason, 100)})"
        )
