"""Read logs of this suite, and report every deviation from the log format.

Each record must have the position and the format that docs/reference/log_format.md defines.

A log of this suite contains its settings, targets, and first epoch in `suite_run`, so the reader
does not infer them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from suite.common.run_end import EndCode, EndStatus, RunEnd
from suite.results.logs import quality, values
from suite.results.logs.all_reduce import all_reduce, gradient_all_reduce_info
from suite.results.logs.blocks import block_times
from suite.results.logs.events import LATIN_1, Event, Problem, ProblemCode, Remarks, number
from suite.results.logs.fields import run_settings, with_open_reasons
from suite.results.logs.limits import first_odd_value
from suite.results.logs.record import Condition, Evaluation, RunRecord, RunSettings, Throughput
from suite.results.names import round_like, workload_name
from workloads.api import Json

FORMAT = "MLLOG"
_MEASUREMENTS = frozenset(
    {
        "suite_condition",
        "suite_step_times",
        "suite_all_reduce",
        "suite_gradients",
        "suite_staleness",
    }
)


def is_suite_log(events: Sequence[Event]) -> bool:
    """Check whether a log contains a `suite_run` record in this suite's format."""
    return any(event.key == "suite_run" and _is_strict(event) for event in events)


def _is_strict(event: Event) -> bool:
    """Check whether a record has the exact format that this suite writes.

    The character encoding of strings is not checked.
    """
    return event.format == FORMAT and (not event.remarks or event.remarks == (LATIN_1,))


def interpret(
    path: Path, events: Sequence[Event], problems: Iterable[Problem], digest: str
) -> RunRecord:
    """Return the record of a log that this suite wrote.

    New problems are appended to the given problems.

    Args:
        path: Path of the log.
        events: Records of the log, without repeated records.
        problems: Problems of the file and its lines.
        digest: Hash of all records.
    """
    problems, remarks = list(problems), Remarks()
    events = _written_records(events, problems, remarks)
    first = values.first_of_each_key(events)
    record = values.described_run(path, FORMAT, first, digest)
    settings = _settings(first["suite_run"], first.get("suite_open"), problems)
    record = replace(
        record,
        settings=settings,
        targets=settings.targets,
        targets_source="log" if settings.targets else "",
        batch_logged=settings.global_batch_size,
        batch_basis="" if settings.global_batch_size is None else "global",
    )
    record = _with_result(record, events, problems, remarks)
    record = _with_interruptions(record, first, events)
    record = _with_measurements(record, first)
    seed = values.read_seed(first.get("seed"), problems)
    return replace(record, seed=seed, problems=(*problems, *remarks.problems()))


def _with_result(
    record: RunRecord, events: Sequence[Event], problems: list[Problem], remarks: Remarks
) -> RunRecord:
    """Add the time, evaluations, end, and epochs of the run to the record."""
    settings, benchmark = record.settings, record.benchmark
    clock = _clock(events, problems)
    relevant = [event for event in events if event.key in ("epoch_start", "eval_accuracy")]
    events = [event for event in events if event.key != "eval_accuracy"]
    evaluations = _evaluations(relevant, clock, settings, benchmark, remarks)
    throughput = values.throughput_blocks(events, clock.start)
    end = _end(clock, settings, evaluations, throughput, benchmark, problems)
    record = values.with_result(record, clock, end, evaluations, throughput)
    record = replace(record, block_times=block_times(events, clock.start, clock.end))
    if end.status is not EndStatus.SUCCESS or evaluations.reached is None:
        return record
    epochs = _count_epochs(events, clock, settings, evaluations, remarks)
    quality.report_rounding(
        evaluations, settings.targets, benchmark, remarks, settings.falling_metrics
    )
    return replace(record, epochs_to_target=epochs.to_target, epochs_trained=epochs.trained)


def _with_interruptions(
    record: RunRecord, first: Mapping[str, Event], events: Sequence[Event]
) -> RunRecord:
    """Add resumptions and checkpoints to the record.

    Resumed runs and runs with a `suite_open` record belong to the open division.
    """
    if not {"suite_continued", "suite_checkpoint", "suite_open"} & first.keys():
        return record
    resumptions = sum(event.key == "suite_continued" for event in events)
    return replace(
        record,
        division="open" if resumptions or "suite_open" in first else record.division,
        resumptions=resumptions,
        interrupted_seconds=_interrupted_seconds(events),
        checkpoint_seconds=_checkpoint_seconds(events),
    )


def _with_measurements(record: RunRecord, first: Mapping[str, Event]) -> RunRecord:
    """Add the measurements that only this suite logs to the record."""
    if not _MEASUREMENTS & first.keys():
        return record
    step_times = values.object_or_empty(_value(first, "suite_step_times"))
    return replace(
        record,
        condition=_condition(_value(first, "suite_condition")),
        step_times=values.named_numbers(step_times),
        step_times_by=values.text_or_empty(step_times.get("how"))[:100],
        all_reduce=all_reduce(_value(first, "suite_all_reduce")),
        gradients=gradient_all_reduce_info(_value(first, "suite_gradients")),
        staleness=values.named_numbers(_value(first, "suite_staleness")),
    )


def _value(first: Mapping[str, Event], key: str) -> Json:
    return first[key].value if key in first else None


def _written_records(
    events: Sequence[Event], problems: list[Problem], remarks: Remarks
) -> Sequence[Event]:
    """Return the records in the format that this suite writes.

    All other records are skipped and reported as problems.
    """
    if any(event.remarks or event.format != FORMAT for event in events):
        for event in events:
            if not _is_strict(event):
                text = (
                    f"a record in a form that the suite does not write is skipped ({event.format})"
                )
                remarks.add(event.line, ProblemCode.SKIPPED_RECORD, text)
        events = [event for event in events if _is_strict(event)]
    runs = [index for index, event in enumerate(events) if event.key == "suite_run"]
    if len(runs) == 1:
        return events
    text = (
        f"{len(runs)} suite_run lines, but a log of this suite holds a single run: the first is"
        " read"
    )
    problems.append(Problem(events[runs[1]].line, ProblemCode.RESTARTED, text))
    return events[: runs[1]]


def _settings(suite_run: Event, suite_open: Event | None, problems: list[Problem]) -> RunSettings:
    """Return the settings in `suite_run`, with the deviations from `suite_open`.

    The controller writes `suite_open` after the run.
    """
    settings = run_settings(suite_run, problems)
    if settings.first_epoch is None:
        settings = replace(settings, first_epoch=round_like(settings.rules).first_epoch)
    return settings if suite_open is None else with_open_reasons(settings, suite_open.value)


def _clock(events: Sequence[Event], problems: list[Problem]) -> quality.RunClock:
    """Return the first `run_start`, and the first `run_stop` after it.

    Missing or repeated `run_start` and `run_stop` records are problems.
    """
    starts = [event for event in events if event.key == "run_start"]
    start = starts[0] if starts else None
    stops = [event for event in events if event.key == "run_stop"]
    later = [event for event in stops if start is None or event.time_ms >= start.time_ms]
    stop = later[0] if later else None
    for repeated in (starts, stops):
        if len(repeated) > 1:
            text = f"{len(repeated)} different {repeated[0].key}, of which the first is used"
            problems.append(Problem(repeated[1].line, ProblemCode.REPEATED_RECORD, text))
    if start is None:
        problems.append(Problem(0, ProblemCode.NO_START, "no run_start"))
    if stop is None:
        late = " after run_start" if stops else ""
        text = f"the log ends here: no run_stop{late}, the run was cut off"
        problems.append(Problem(events[-1].line, ProblemCode.NO_STOP, text))
    seconds = (
        (stop.time_ms - start.time_ms) / 1000.0 if start is not None and stop is not None else None
    )
    status = stop.metadata.get("status") if stop is not None else None
    return quality.RunClock(start, stop, seconds, status if isinstance(status, str) else None)


def _evaluations(
    relevant: list[Event],
    clock: quality.RunClock,
    settings: RunSettings,
    benchmark: str,
    remarks: Remarks,
) -> quality.Evaluations:
    name = next(iter(settings.targets)) if len(settings.targets) == 1 else "quality"
    found = quality.read_evaluations(
        relevant, clock, lambda event: _quality(event.value, name), remarks
    )
    reached = quality.first_that_meets(
        settings.targets, found.used, benchmark, settings.falling_metrics
    )
    return replace(found, reached=reached)


def _quality(value: Json, name: str) -> dict[str, float]:
    """Return the metrics in a value as a mapping from name to number.

    The value is a number or an object of numbers. Null represents NaN or infinity.
    """
    items = value if isinstance(value, dict) else {name: value}
    numbers = {metric: math.nan if item is None else item for metric, item in items.items()}
    return {str(metric): float(item) for metric, item in numbers.items() if _is_float(item)}


def _is_float(value: Json) -> bool:
    """Check whether a value is a number in the range of a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return isinstance(value, float) or number(value) is not None


def _end(
    clock: quality.RunClock,
    settings: RunSettings,
    evaluations: quality.Evaluations,
    throughput: Sequence[Throughput],
    benchmark: str,
    problems: list[Problem],
) -> RunEnd:
    """Return how the run ended, according to `run_stop` and to the limits of values."""
    end = quality.claimed_end(
        clock, settings.to_target, bool(settings.targets), evaluations, problems
    )
    if end.status is EndStatus.SUCCESS and clock.end is not None and clock.claimed is None:
        problems.append(Problem(clock.end.line, ProblemCode.NO_STATUS, "run_stop has no status"))
    problems += first_odd_value(clock, evaluations.used, throughput, workload_name(benchmark))
    outside = next(
        (problem for problem in problems if problem.code is ProblemCode.NOT_PLAUSIBLE), None
    )
    return end if outside is None else RunEnd(EndStatus.FAILED, EndCode.NOT_PLAUSIBLE, outside.text)


# --- epochs
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Epochs:
    """Number of epochs or samples until the target was reached, and until `run_stop`.

    Both numbers are None if the log contains no epoch labels or sample counts.
    """

    to_target: float | None
    trained: float | None


def _count_epochs(
    events: Sequence[Event],
    clock: quality.RunClock,
    settings: RunSettings,
    evaluations: quality.Evaluations,
    remarks: Remarks,
) -> _Epochs:
    """Return the number of epochs of a run that reached its target.

    The epoch labels of the evaluations and of the `epoch_stop` records determine the number. If the
    log counts training in samples, the function returns the sample counts of the evaluations
    instead.
    """
    assert evaluations.reached is not None
    assert clock.end is not None
    reached = evaluations.used[evaluations.reached]
    if settings.epoch_unit == "samples":
        return _count_samples(reached, evaluations.used[-1], remarks)
    first = _first_label(events, settings)
    if (
        reached.epoch is None
        or reached.epoch < first
        or not _is_epoch_of_log(reached.epoch, events)
    ):
        text = (
            "no epoch count: the evaluation has no epoch_num, or an epoch that the log does not"
            " have"
        )
        remarks.add(reached.line, ProblemCode.NO_EPOCH_COUNT, text)
        return _Epochs(None, None)
    last = evaluations.used[-1]
    trained_labels = [reached.epoch, *_ended_epochs(events, last, clock.end)]
    if last.epoch is not None and _is_epoch_of_log(last.epoch, events):
        trained_labels.append(last.epoch)
    to_target, trained = reached.epoch - first + 1, max(trained_labels) - first + 1
    if trained > to_target:
        text = f"the run continued after the target, from epoch {to_target:g} to {trained:g}"
        text += ": the time counts to run_stop, the epochs to the target"
        remarks.add(reached.line, ProblemCode.CONTINUED_AFTER_TARGET, text)
    return _Epochs(to_target, trained)


def _count_samples(reached: Evaluation, last: Evaluation, remarks: Remarks) -> _Epochs:
    """Return the samples trained until the target was reached, and until the last evaluation.

    Both numbers are the `samples_count` of an evaluation.
    """
    if reached.samples is None or last.samples is None or not 0 < reached.samples <= last.samples:
        text = "no sample count: an evaluation has no samples_count, or the counts fall"
        remarks.add(reached.line, ProblemCode.NO_EPOCH_COUNT, text)
        return _Epochs(None, None)
    return _Epochs(reached.samples, last.samples)


def _first_label(events: Sequence[Event], settings: RunSettings) -> int:
    """Return the number of the run's first epoch, which is 0 or 1.

    The first versions of the suite numbered epochs from 1 in every round, and did not log
    `first_epoch`.
    """
    label = settings.first_epoch or 0
    suite_run = next(event for event in events if event.key == "suite_run")
    if "first_epoch" in values.object_or_empty(suite_run.value):
        return label
    started = (
        number(event.metadata.get("epoch_num")) for event in events if event.key == "epoch_start"
    )
    return (
        1 if min((epoch for epoch in started if epoch is not None), default=label) == 1 else label
    )


def _is_epoch_of_log(label: float, events: Sequence[Event]) -> bool:
    """Check whether the log contains an epoch with the number `label`.

    Returns True for logs without epochs and blocks.
    """
    has_epochs = False
    # The search is backwards, because the epoch that reaches the target is among the last epochs.
    for event in reversed(events):
        if event.key in ("epoch_start", "epoch_stop", "block_start"):
            has_epochs = True
            name = "first_epoch_num" if event.key == "block_start" else "epoch_num"
            first, count = (
                number(event.metadata.get(name)),
                number(event.metadata.get("epoch_count", 1)),
            )
            if first is not None and count is not None and first <= label < first + count:
                return True
    return not has_epochs


def _ended_epochs(events: Sequence[Event], after: Evaluation, stop: Event) -> list[float]:
    """Return the labels of the epochs that ended between an evaluation and `run_stop`."""
    ended = (event for event in events if event.key == "epoch_stop" and event.line > after.line)
    labels = (
        number(event.metadata.get("epoch_num")) for event in ended if event.time_ms <= stop.time_ms
    )
    return [label for label in labels if label is not None]


# Interruptions and machine


def _interrupted_seconds(events: Sequence[Event]) -> float:
    """Return the total interrupted time in seconds.

    An interruption lasts from the last record before a `suite_continued` record to the
    `suite_continued` record.
    """
    gaps_ms = (
        event.time_ms - earlier.time_ms
        for earlier, event in itertools.pairwise(events)
        if event.key == "suite_continued"
    )
    return math.fsum(max(0.0, gap_ms) for gap_ms in gaps_ms) / 1e3


def _checkpoint_seconds(events: Sequence[Event]) -> float:
    """Return the total seconds that writing checkpoints took."""
    written = (event.value for event in events if event.key == "suite_checkpoint")
    return math.fsum(
        number(values.object_or_empty(value).get("seconds")) or 0.0 for value in written
    )


def _condition(value: Json) -> Condition | None:
    """Parse the measurements and the reasons for a busy machine in `suite_condition`."""
    if not isinstance(value, dict):
        return None
    busy = value.get("busy")
    reasons = (
        tuple(text for text in busy[:8] if isinstance(text, str)) if isinstance(busy, list) else ()
    )
    return Condition(reasons, values.named_numbers(value))
