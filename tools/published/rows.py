"""Rows of `results.csv` and `runs.csv` from the logs of a results repository."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from suite.common.run_end import EndStatus
from suite.results.directions import improves_as_it_falls, meets
from suite.results.entry import Entry, is_submission_log, read_entry
from suite.results.logs.events import Event, number
from suite.results.logs.lines import read_file
from suite.results.logs.reader import interpret
from suite.results.logs.record import RunRecord
from suite.results.names import workload_name
from suite.results.scoring_rules import ScoringRule, find_scoring_rule
from suite.results.targets import (
    TOKENS_PER_SAMPLE,
    epoch_unit,
    metric_title,
    published_targets,
)

Row = dict[str, str]
EntryName = tuple[str, str, str, str]
"""Round, submitter, system, and benchmark."""


@dataclass(frozen=True)
class LoggedRun:
    """A run of an entry, as its log describes it."""

    file: str
    status: str
    seconds: float | None
    epochs: float | None
    """Epochs, samples, or tokens to target (`epoch_unit`); None if the target was not reached."""
    quality: Mapping[str, float]
    batch: int | None
    start_seconds: float | None
    """`run_start`, seconds since 1970."""
    training_rate: float | None
    """Samples (or tokens) to target per second without evaluation; None if the log does not hold
    them.
    """
    labels_are_early: bool = False
    """Evaluations are labeled with the samples before the last step."""

    @property
    def number(self) -> str:
        """Number in the name of the log."""
        digits = re.search(r"\d+", self.file)
        return digits[0] if digits else ""


@dataclass
class EarlierRuns:
    """Entries by the start and the length of their runs, to recognize logs submitted again."""

    entries: dict[tuple[str, int, int], str] = field(default_factory=dict)

    def add(self, benchmark: str, start: float | None, seconds: float | None, entry: str) -> None:
        """Add a run. The first entry with a run is kept."""
        if start:
            self.entries.setdefault(_run_key(benchmark, start, seconds), entry)

    def find(self, benchmark: str, runs: Iterable[LoggedRun]) -> list[str]:
        """Return the earlier entry of each run that was submitted before."""
        found = (
            self.entries.get(_run_key(benchmark, run.start_seconds, run.seconds))
            for run in runs
            if run.start_seconds
        )
        return [entry for entry in found if entry is not None]


def _run_key(benchmark: str, start: float, seconds: float | None) -> tuple[str, int, int]:
    return workload_name(benchmark), round(start * 1000), round((seconds or 0.0) * 100)


def entry_folders(repository: Path) -> list[Path]:
    """Return the folders below a work tree that hold the logs of an entry, in order of path."""
    logs = (path for path in repository.rglob("result_*.txt*") if is_submission_log(path.name))
    return sorted({path.parent for path in logs})


def rows_of_entry(
    folder: Path, repository: Path, round_name: str, source: str, earlier: EarlierRuns
) -> tuple[Row, list[Row]]:
    """Return the row of an entry for `results.csv`, and the rows of its runs for `runs.csv`.

    Args:
        folder: Folder with the logs.
        repository: Work tree that contains the folder.
        round_name: Round of the entry, such as `v5.1`.
        source: Name of the repository in the column `source`.
        earlier: Runs of earlier entries. The runs of this entry are added.

    Raises:
        ValueError: The entry has no score by the rules, or its folder has an unknown layout.
    """
    entry = read_entry(folder)
    if not entry.is_submission:
        raise ValueError("the folders do not have the layout SUBMITTER/results/SYSTEM/BENCHMARK")
    names = sorted(path.name for path in folder.iterdir() if is_submission_log(path.name))
    records = [_read_record(folder / name) for name in names]
    benchmark = _benchmark(entry, records)
    targets = published_targets(benchmark)
    runs = [_logged_run(record, events, benchmark, targets) for record, events in records]
    rule = find_scoring_rule(benchmark, round_name)
    if rule is None:
        raise ValueError(f"no scoring rule for the benchmark {benchmark}")
    used, rule_text = score(runs, rule)
    copies = earlier.find(benchmark, runs)
    for run in runs:
        name = f"{round_name} {entry.submitter}/{entry.system}"
        earlier.add(benchmark, run.start_seconds, run.seconds, name)
    first_entry = copies[0] if len(copies) == len(runs) and len(set(copies)) == 1 else ""
    description = entry.description
    devices, nodes = description.devices or 0, description.nodes or 1
    seconds = round(statistics.fmean(run.seconds or 0.0 for run in used), 4)
    rate = _median(run.training_rate for run in runs if run.status == "success")
    unit = "tokens" if benchmark in TOKENS_PER_SAMPLE else "samples"
    if rate is not None and unit != epoch_unit(benchmark):
        rate *= TOKENS_PER_SAMPLE[benchmark]
    epochs = [run.epochs for run in runs if run.epochs is not None and run.status == "success"]
    used_epochs = [run.epochs for run in used if run.epochs is not None]
    metrics = list(targets)
    result = {
        "round": round_name,
        "submitter": entry.submitter,
        "system": entry.system,
        "system_description": f"{nodes} node{'s' if nodes > 1 else ''}, {devices}x"
        f" {description.accelerator}",
        "accelerator": description.accelerator,
        "chips": str(devices),
        "nodes": str(nodes),
        "framework": description.framework,
        "benchmark": benchmark,
        "division": entry.division,
        "availability": description.availability,
        "minutes": figure(seconds / 60, 6),
        "seconds": figure(seconds, 4),
        "runs": str(len(runs)),
        "runs_successful": str(sum(run.status == "success" for run in runs)),
        "runs_used": str(len(used)),
        "epochs": figure(statistics.fmean(used_epochs), 4) if used_epochs else "",
        "epochs_minimum": figure(min(epochs), 4) if epochs else "",
        "epochs_maximum": figure(max(epochs), 4) if epochs else "",
        "batch": _common([run.batch for run in runs]),
        "batch_unit": "samples",
        "target": figure(targets[metrics[0]], 10) if metrics else "",
        "target_mask": figure(targets[metrics[1]], 10) if len(metrics) > 1 else "",
        "quality_metric": "; ".join(_metric_text(metric, benchmark) for metric in metrics),
        "throughput": f"{rate:.6g}" if rate else "",
        "throughput_per_chip": figure(rate / devices, 4) if rate and devices else "",
        "throughput_unit": f"{unit}/s" if rate else "",
        "scaling_factor": figure(entry.scaling_factor, 10) if entry.scaling_factor else "",
        "rule": rule_text,
        "note": "; ".join(_notes(runs, rule, copies)),
        "first_entry": first_entry,
        "source": f"{source}:{folder.relative_to(repository).as_posix()}",
    }
    return result, [_run_row(run, result, metrics) for run in runs]


def _read_record(path: Path) -> tuple[RunRecord, list[Event]]:
    """Return the record of a log, and the events that describe its evaluations."""
    log = read_file(path)
    kept = [event for event in log.events if event.key.startswith(("eval_", "run_"))]
    return interpret(path, log.events, log.problems, log.digest), kept


def _benchmark(entry: Entry, records: Sequence[tuple[RunRecord, list[Event]]]) -> str:
    """Return the suite's name of the benchmark. The folder `ssd` of v2.0 and later is RetinaNet."""
    logged = {record.settings.workload for record, _ in records if record.settings.workload}
    return workload_name(logged.pop() if len(logged) == 1 else entry.benchmark)


def _logged_run(
    record: RunRecord, events: Sequence[Event], benchmark: str, targets: Mapping[str, float]
) -> LoggedRun:
    evaluations = _evaluations(events, list(targets))
    reached = next((item for item in evaluations if _reaches(item, targets, benchmark)), None)
    status = record.end.status
    if status is EndStatus.SUCCESS and targets and reached is None:
        status = EndStatus.FAILED
    in_epochs = epoch_unit(benchmark) == "epochs"
    if in_epochs:
        count, is_early = record.epochs_to_target, False
    else:
        count, is_early = _samples_at(reached, events)
    last = reached or (evaluations[-1] if evaluations else None)
    quality = last.quality if last is not None else {}
    return LoggedRun(
        file=record.path.name,
        status=status.value,
        seconds=record.seconds,
        epochs=count if status is EndStatus.SUCCESS else None,
        quality=quality if not in_epochs or not record.quality else dict(record.quality),
        batch=record.settings.global_batch_size,
        start_seconds=None if record.start_ms is None else record.start_ms / 1000,
        training_rate=None if in_epochs else _training_rate(count, record.seconds, events),
        labels_are_early=is_early,
    )


@dataclass
class _Evaluation:
    """An evaluation: its label in samples (or tokens), its time, and its metrics."""

    label: float | None
    time_ms: float
    quality: dict[str, float]


def _evaluations(events: Sequence[Event], metrics: Sequence[str]) -> list[_Evaluation]:
    """Return the evaluations in order of their labels.

    Programs that log each metric in a record of its own name the metric in the metadata
    (Stable Diffusion). Its models are evaluated after training, so that the times of evaluations
    may lie after `run_stop`.
    """
    found: list[_Evaluation] = []
    by_label: dict[float, _Evaluation] = {}
    for event in events:
        value = number(event.value)
        if event.key != "eval_accuracy" or value is None:
            continue
        label = number(event.metadata.get("samples_count", event.metadata.get("epoch_num")))
        name = event.metadata.get("metric")
        metric = name if isinstance(name, str) and name in metrics else next(iter(metrics), "")
        if len(metrics) > 1 and label is not None and label in by_label:
            by_label[label].quality.setdefault(metric, value)
            continue
        evaluation = _Evaluation(label, event.time_ms, {metric: value})
        found.append(evaluation)
        if label is not None:
            by_label[label] = evaluation
    return sorted(found, key=lambda evaluation: (evaluation.label or 0.0, evaluation.time_ms))


def _reaches(evaluation: _Evaluation, targets: Mapping[str, float], benchmark: str) -> bool:
    return bool(targets) and all(
        metric in evaluation.quality
        and meets(evaluation.quality[metric], target, improves_as_it_falls(metric, benchmark))
        for metric, target in targets.items()
    )


def _samples_at(
    evaluation: _Evaluation | None, events: Sequence[Event]
) -> tuple[float | None, bool]:
    """Return the samples before an evaluation, and whether its label is a step too small.

    AMD's programs label `eval_accuracy` with the samples before the last step, and `eval_start`
    with those after it.
    """
    if evaluation is None or evaluation.label is None:
        return None, False
    starts = [
        label
        for event in events
        if event.key == "eval_start" and event.time_ms <= evaluation.time_ms
        if (label := number(event.metadata.get("samples_count"))) is not None
    ]
    batch_is_missing = bool(starts) and 0 < starts[-1] - evaluation.label <= starts[-1] / 4
    return (starts[-1], True) if batch_is_missing else (evaluation.label, False)


def _training_rate(
    samples: float | None, seconds: float | None, events: Sequence[Event]
) -> float | None:
    """Return the samples per second between `run_start` and `run_stop` without evaluations.

    None if the log does not hold the start and the stop of each evaluation.
    """
    start, stop = (
        next((event.time_ms for event in events if event.key == key), None)
        for key in ("run_start", "run_stop")
    )
    if not samples or not seconds or start is None or stop is None:
        return None
    starts, stops = (
        [event.time_ms for event in events if event.key == key and start <= event.time_ms <= stop]
        for key in ("eval_start", "eval_stop")
    )
    if not starts or len(starts) != len(stops):
        return None
    evaluation_seconds = math.fsum(stops) / 1000 - math.fsum(starts) / 1000
    training_seconds = seconds - evaluation_seconds
    return samples / training_seconds if 0 < training_seconds <= seconds else None


def score(runs: Sequence[LoggedRun], rule: ScoringRule) -> tuple[list[LoggedRun], str]:
    """Return the runs whose mean is the score, and the rule in words.

    Raises:
        ValueError: More runs failed than the rule allows, or no run remains.
    """
    successes = sorted(
        (run for run in runs if run.status == "success" and run.seconds),
        key=lambda run: run.seconds or 0.0,
    )
    failed = len(runs) - len(successes)
    if failed > rule.allowed_failures:
        raise ValueError(f"{failed} of {len(runs)} runs did not succeed, so there is no score")
    used = successes[rule.dropped_runs : len(runs) - rule.dropped_runs]
    if len(runs) < rule.runs_required or not used:
        raise ValueError(f"{len(runs)} runs, but the rules require {rule.runs_required}")
    if rule.dropped_runs > 1:
        dropped = f"the {rule.dropped_runs} fastest and slowest dropped"
        text = f"{dropped}; mean of the remaining {len(used)}"
    elif failed:
        text = (
            "one run did not finish: it counts as the slowest and is dropped, the fastest is"
            f" dropped too; mean of the remaining {len(used)}"
        )
    else:
        text = f"fastest and slowest dropped; mean of the remaining {len(used)}"
    return used, text


def _notes(runs: Sequence[LoggedRun], rule: ScoringRule, copies: Sequence[str]) -> Iterator[str]:
    for run in runs:
        if run.status != "success":
            yield f"run {run.number} {run.status}"
    if any(run.labels_are_early for run in runs):
        yield "eval_accuracy labels its samples one batch early"
    if len({run.batch for run in runs}) > 1:
        yield "the runs differ in global batch size"
    if len(runs) > rule.runs_required:
        yield f"{len(runs)} runs, the rules require {rule.runs_required}"
    for entry in dict.fromkeys(copies):
        count = copies.count(entry)
        shown = f"all {count}" if count == len(runs) else f"{count} of {len(runs)}"
        yield f"{shown} logs stand already under {entry}"


def _run_row(run: LoggedRun, result: Row, metrics: Sequence[str]) -> Row:
    values = [run.quality.get(metric) for metric in metrics]
    if metrics and values[0] is None and len(run.quality) == 1:
        values[0] = next(iter(run.quality.values()))
    texts = ["" if value is None else repr(value) for value in values]
    return {
        **{name: result[name] for name in ("round", "submitter", "system", "benchmark")},
        "run": run.number,
        "seconds": "" if run.seconds is None else figure(run.seconds, 6),
        "epochs": "" if run.epochs is None else figure(run.epochs, 6),
        "quality": texts[0] if texts else "",
        "quality_mask": texts[1] if len(texts) > 1 else "",
        "status": run.status,
        "batch": "" if run.batch is None else str(run.batch),
        "run_start_unix_seconds": "" if run.start_seconds is None else repr(run.start_seconds),
        "file": run.file,
    }


def figure(value: float, digits: int) -> str:
    """Return a number with at most this many digits after the point, without trailing zeros."""
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _common(values: Sequence[int | None]) -> str:
    counts = [value for value in values if value is not None]
    return str(statistics.mode(counts)) if counts else ""


def _median(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return statistics.median(numbers) if numbers else None


def _metric_text(metric: str, benchmark: str) -> str:
    falls = improves_as_it_falls(metric, benchmark)
    return f"{metric_title(metric)}{' (lower is better)' if falls else ''}"
