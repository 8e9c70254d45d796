"""Infer the number of epochs that a run trained until it reached the target.

Programs label epochs from 1 (as the rules require since v0.6), 0, or -1, and some programs log
fewer epoch starts than trained epochs. The module infers the number of epochs from the starts of
epochs and blocks, the labels of `eval_start`, the interval between evaluations, and the time before
the first evaluation. If the evidence is contradictory, the number of epochs is unknown.
"""

from __future__ import annotations

import itertools
import math
import statistics
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from suite.results.logs.events import Event, ProblemCode, Remarks, number
from suite.results.logs.record import Evaluation

_SAME = 0.01
"""Tolerance within which two labels are equal. Some logs contain 32.746 instead of 32.75."""
_SLACK_EPOCHS = 0.5
"""Tolerance in epochs for estimates from the time before an evaluation, because epochs differ in
duration.
"""
_EQUAL_TIMES = 0.05
"""Maximum relative difference between the durations of equal blocks.

The first block is not compared, because it may be shorter than other blocks or include setup.
"""
_ONE_CYCLE = 3
"""Minimum number of evenly spaced labels from which a fixed evaluation interval is inferred."""


class _Start(NamedTuple):
    """An `epoch_start` or `block_start` record."""

    time_ms: float
    label: float | None
    epochs: float | None


@dataclass(frozen=True)
class _Signs:
    """Evidence for the epoch numbers of the evaluations until the target was reached."""

    evaluations: Sequence[Evaluation]
    times: tuple[float, ...]
    """Times of the evaluations in ms."""
    labels: tuple[float, ...]
    """Epoch labels of the evaluations, in order of time. Empty if the labels are inconsistent."""
    agreed: bool
    """True if the labels of `eval_start` and `eval_accuracy` differ by 1 in each evaluation. The
    higher label is then the number of trained epochs.
    """
    starts: tuple[_Start, ...]
    """Start records of epochs. If the log has no epoch starts, start records of blocks.

    The records are in order of time and include records after the end of the run.
    """
    blocks: tuple[_Start, ...]
    """Start records of blocks up to the last evaluation, in order of time."""
    opened_ms: Mapping[float, float]
    """Maps each label of an `eval_start` record to its time in ms."""
    first_training_ms: float | None
    """Time at which the training loop starts. If the log does not contain this time, the start
    time of the run.
    """
    last_of_run: bool
    """True if no evaluation follows the evaluation that reached the target."""
    by_rules: bool
    """True for logs of round v0.6 or later, whose rules number epochs from 1.

    In v0.5 logs and dated logs, programs label epochs from 0, 1, or -1.
    """
    remarks: Remarks

    def remark(self, text: str, code: ProblemCode = ProblemCode.EPOCH_LABELS) -> None:
        """Add a remark on the line of the evaluation that reached the target."""
        self.remarks.add(self.evaluations[-1].line, code, text)

    @property
    def has_labels(self) -> bool:
        """Return whether any evaluation has a label."""
        return any(evaluation.epoch is not None for evaluation in self.evaluations)

    @property
    def begun(self) -> tuple[int, ...]:
        """Return the number of epochs that had started before each evaluation."""
        return tuple(evaluation.epochs_begun for evaluation in self.evaluations)

    @property
    def started(self) -> list[float]:
        """Return the distinct labels of epoch or block starts in ascending order."""
        return sorted({start.label for start in self.starts if start.label is not None})


def epochs_at(
    reached: int,
    by_rules: bool,
    events: Sequence[Event],
    evaluations: Sequence[Evaluation],
    remarks: Remarks,
) -> float | None:
    """Return the number of epochs trained at the evaluation with the index `reached`.

    If the log contradicts itself, the function adds a remark and returns None.

    `by_rules` is True if the round numbers epochs from 1 and the log has no dated lines.
    """
    signs = _signs(reached, by_rules, events, evaluations, remarks)
    counted = None if signs.by_rules else _begun_epochs(signs)
    if counted is not None:
        return counted
    if not signs.labels:
        return _one_epoch_each(signs) if signs.has_labels else None
    offset = _offset(signs)
    if offset is None:
        signs.remark(
            "no epoch count: the log does not show whether its evaluations are labeled from 0 or"
            " from 1",
            ProblemCode.NO_EPOCH_COUNT,
        )
        return None
    epochs = _epochs_of_equal_blocks(signs) or signs.labels[-1] + offset
    return epochs if epochs > 0 else None


def epochs_at_stop(
    epochs: float,
    reached: int,
    by_rules: bool,
    events: Sequence[Event],
    evaluations: Sequence[Evaluation],
    stop_ms: float,
) -> float:
    """Return the number of epochs trained until `run_stop`.

    The number is larger than `epochs` if the run continued after the target was reached.

    The function adds the epochs that started after the last evaluation and ended before `run_stop`
    to the epochs at the last evaluation.

    Args:
        epochs: Number of epochs trained at the evaluation that reached the target.
        reached: Index of the evaluation that reached the target.
        by_rules: See `epochs_at`.
        events: Records of the log.
        evaluations: Evaluations of the run, in order of time.
        stop_ms: Time of `run_stop`.
    """
    last = len(evaluations) - 1
    if last > reached:
        epochs = max(epochs, epochs_at(last, by_rules, events, evaluations, Remarks()) or 0.0)
    start_ms = next((event.time_ms for event in events if event.key == "run_start"), 0.0)
    evaluated_ms = start_ms + 1000.0 * evaluations[last].seconds
    later = [
        event
        for event in events
        if event.key.startswith("epoch_") and evaluated_ms < event.time_ms <= stop_ms
    ]
    begun = {event.metadata.get("epoch_num") for event in later if event.key == "epoch_start"}
    ended = {event.metadata.get("epoch_num") for event in later if event.key == "epoch_stop"}
    return epochs + len((begun & ended) - {None})


def _signs(
    reached: int,
    by_rules: bool,
    events: Sequence[Event],
    evaluations: Sequence[Evaluation],
    remarks: Remarks,
) -> _Signs:
    by_key: dict[str, list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event.time_ms):
        by_key[event.key].append(event)
    first_ms = {key: events_of_key[0].time_ms for key, events_of_key in by_key.items()}
    upto = evaluations[: reached + 1]
    times = tuple(
        first_ms.get("run_start", 0.0) + 1000.0 * evaluation.seconds for evaluation in upto
    )
    # In v0.5 logs, the value of `eval_start` is the epoch label.
    openings = [
        (e.time_ms, number(e.metadata.get("epoch_num", e.value))) for e in by_key["eval_start"]
    ]
    labels, agreed = _labels(upto, times, openings, remarks)
    epochs = tuple(
        _Start(event.time_ms, number(event.metadata.get("epoch_num")), 1)
        for event in by_key["epoch_start"]
    )
    blocks = tuple(_block_start(event) for event in by_key["block_start"])
    return _Signs(
        evaluations=upto,
        times=times,
        labels=labels,
        agreed=agreed,
        starts=epochs or blocks,
        blocks=tuple(block for block in blocks if block.time_ms < times[-1]),
        opened_ms={label: time_ms for time_ms, label in openings if label is not None},
        first_training_ms=first_ms.get("train_loop", first_ms.get("run_start")),
        last_of_run=len(upto) == len(evaluations),
        by_rules=by_rules,
        remarks=remarks,
    )


def _block_start(event: Event) -> _Start:
    label, count = (number(event.metadata.get(name)) for name in ("first_epoch_num", "epoch_count"))
    return _Start(event.time_ms, label, count)


def _same(first: float, second: float) -> bool:
    return abs(first - second) < _SAME


def _distances(values: Iterable[float]) -> list[float]:
    return [late - early for early, late in itertools.pairwise(values)]


def _labels(
    evaluations: Sequence[Evaluation],
    times: Sequence[float],
    openings: Sequence[tuple[float, float | None]],
    remarks: Remarks,
) -> tuple[tuple[float, ...], bool]:
    """Return the labels of the evaluations, and whether they are the trained epochs.

    The returned flag is True only if the log proves that the labels are numbers of trained epochs.
    Labels that are not in ascending order are ignored.

    Both `eval_accuracy` and `eval_start` have labels, which may contradict each other. `openings`
    contains a pair (ms, label) for each `eval_start`.
    """
    line = evaluations[-1].line
    evaluation_labels = [evaluation.epoch for evaluation in evaluations]
    bounds = itertools.pairwise(
        (0, *(bisect_right(openings, time, key=itemgetter(0)) for time in times))
    )
    opening = [openings[start][1] if end == start + 1 else None for start, end in bounds]
    in_order, opened = _increasing(evaluation_labels), _increasing(opening)
    all_opened = sorted(label for _, label in openings if label is not None)
    if not in_order and not all_opened:
        in_order = _shuffled(evaluations, remarks)
    if in_order and (
        not all_opened
        or all(
            bisect_left(all_opened, label - _SAME) < bisect_left(all_opened, label + _SAME)
            for label in in_order
        )
    ):
        return in_order, False
    repeated = [label for label in evaluation_labels if label is not None]
    if (
        not in_order and repeated == opening and repeated == sorted(repeated)
    ):  # the log has several evaluations per epoch
        return tuple(repeated), False
    if not opened or not in_order:
        if opened and repeated:
            remarks.add(
                line,
                ProblemCode.EPOCH_LABELS,
                "labels of eval_accuracy are not in order: those of eval_start are used",
            )
        return opened or in_order, False
    shifts = {round(start - end, 2) for start, end in zip(opened, in_order, strict=True)}
    differ = "eval_start and eval_accuracy label an evaluation differently"
    if shifts in ({1.0}, {-1.0}):
        labels, higher = (opened, "eval_start") if shifts == {1.0} else (in_order, "eval_accuracy")
        remarks.add(line, ProblemCode.EPOCH_LABELS, f"{differ}: the higher, of {higher}, is used")
        return labels, True
    remarks.add(line, ProblemCode.EPOCH_LABELS, f"{differ}: neither is used")
    return (), False


def _increasing(labels: Sequence[float | None]) -> tuple[float, ...]:
    """Return the labels if no label is missing and they increase.

    Otherwise the tuple is empty.
    """
    present = tuple(label for label in labels if label is not None)
    return (
        present
        if len(present) == len(labels) and all(step > 0 for step in _distances(present))
        else ()
    )


def _shuffled(evaluations: Sequence[Evaluation], remarks: Remarks) -> tuple[float, ...]:
    """Return the sorted labels of evaluations that were logged out of order.

    The labels must be evenly spaced, and the last label must be the highest. Otherwise the tuple is
    empty.
    """
    labels = tuple(
        sorted(evaluation.epoch for evaluation in evaluations if evaluation.epoch is not None)
    )
    distances = _distances(labels)
    complete = len(labels) == len(evaluations) and all(
        distance > 0 and _same(distance, distances[0]) for distance in distances
    )
    if not complete or evaluations[-1].epoch != labels[-1]:
        return ()
    remarks.add(
        evaluations[-1].line,
        ProblemCode.EPOCH_LABELS,
        "evaluations are not in the order of their labels, of which none is missing",
    )
    return labels


def _begun_epochs(signs: _Signs) -> float | None:
    """Return the number of started epochs if the evaluation labels agree with this number.

    If the evaluations have no labels, each evaluation must follow a new epoch start.
    """
    begun = signs.begun
    if not begun[-1] or (
        signs.labels and signs.labels[0] < 0 == begun[0]
    ):  # the log has no epoch start for the first epoch
        return None
    if not signs.has_labels:
        if len(set(begun)) == len(begun):
            return float(begun[-1])
        signs.remark(
            "no epoch count: evaluations without label, and no epoch starts between them",
            ProblemCode.NO_EPOCH_COUNT,
        )
        return None
    epochs = [evaluation.epoch for evaluation in signs.evaluations]
    labels = (
        sorted(signs.labels) if set(signs.labels) == set(epochs) else epochs
    )  # shuffled labels are compared with the sorted labels
    ahead = {
        count - label if label is not None else None
        for count, label in zip(begun, labels, strict=True)
    }
    if len(ahead) == 1 and ahead.issubset((0, 1, 2) if (labels[0] or 0) < 0 else (0, 1)):
        return float(begun[-1])
    if signs.labels:
        signs.remark(
            f"{begun[-1]} epochs started by then do not fit the label of the evaluation, which is"
            " used"
        )
    return None


def _one_epoch_each(signs: _Signs) -> float | None:
    """Return the number of started epochs, or the number of blocks with one epoch each.

    Each epoch or block must contain exactly one evaluation.
    """
    starts = [start for start in signs.starts if start.time_ms < signs.times[-1]]
    first_ms = {start.label: start.time_ms for start in reversed(starts) if start.label is not None}
    counts = [bisect_right(sorted(first_ms.values()), time) for time in signs.times]
    if all(start.epochs == 1 for start in starts) and counts == list(
        range(1, len(signs.times) + 1)
    ):
        signs.remark("labels of evaluations contradict each other: the epochs started are counted")
        return float(counts[-1])
    signs.remark(
        "no epoch count: labels of evaluations contradict each other, and no starts of epochs"
        " settle it",
        ProblemCode.NO_EPOCH_COUNT,
    )
    return None


def _epochs_of_equal_blocks(signs: _Signs) -> float | None:
    """Return the number of epochs in blocks of equal size and duration.

    The log must have one evaluation per block, and labels that are rounded down.

    For example, Google's ResNet of v0.7 divides the number of steps by the steps per epoch and
    rounds down. The label after ten blocks of 2,502 steps is 38, although the blocks contain 40.0
    epochs.
    """
    sizes = {block.epochs for block in signs.blocks}
    size = sizes.pop() if len(sizes) == 1 else None
    if (
        size is None
        or size <= 1
        or len(signs.blocks) != len(signs.times)
        or len(signs.times) < _ONE_CYCLE
    ):
        return None
    times, steps = _distances((signs.blocks[0].time_ms, *signs.times)), _distances(signs.labels)
    typical = statistics.median(times)
    apart = max(typical - times[0], *(abs(time - typical) for time in times[1:]))
    if apart > _EQUAL_TIMES * typical or not min(steps) < size - _SAME or max(steps) > size + _SAME:
        return None
    signs.remark(
        f"labels of evaluations are rounded down: {len(times)} equal blocks of {size:g} epochs are"
        " counted"
    )
    return size * len(times)


def _offset(signs: _Signs) -> int | None:
    """Return the number of trained epochs minus the label of an evaluation.

    The difference is 0, 1, or 2. Returns None if the log does not show the difference.
    """
    first, begun, trained = signs.labels[0], signs.begun, _epochs_by_time(signs)
    if signs.agreed:
        return 0
    if first > 0:
        return (
            0
            if signs.by_rules and signs.started[:1] != [0]
            else _offset_of_positive_labels(signs, trained)
        )
    after_all = begun[0] == begun[-1] >= signs.labels[-1] and signs.started[:1] == [1]
    if len(signs.labels) > 1 and (begun == signs.labels or after_all):
        # Some programs also evaluate the untrained model, either before the first epoch or together
        # with all saved models after the last epoch.
        signs.remark(
            "evaluations are labeled with the epochs trained, from 0 for the untrained model"
        )
        return 0
    offset = round((1 if trained is None or trained >= 1 - _SLACK_EPOCHS else 0) - first)
    if offset:
        signs.remark(f"epochs are labeled from {first:g}: counted as {offset} more")
    return offset


def _offset_of_positive_labels(signs: _Signs, trained: float | None) -> int | None:
    """Return the label offset of a log whose first label is positive.

    Programs start their labels at 0 or 1, and the rules require 1.
    """
    first = signs.labels[0]
    too_early = trained is not None and trained < first + _SLACK_EPOCHS
    in_time = trained is None or trained >= first + 1 - _SLACK_EPOCHS / 2
    by_first_start = in_time and not signs.by_rules and signs.started[:1] in ([0], [1])
    offsets = (
        (_offset_by_starts(signs), "the starts of epochs"),
        (_offset_by_distance(signs.labels), "the distance of evaluations"),
        (0 if too_early else None, "the time before the first evaluation"),
        (
            1 - int(signs.started[0]) if by_first_start else None,
            "the label of the first epoch started",
        ),
    )
    offset, evidence = next((item for item in offsets if item[0] is not None), (None, ""))
    if offset is None:
        return 0 if signs.by_rules else None
    if offset and too_early:
        signs.remark(
            f"{evidence}: contradicted by the time before the first evaluation",
            ProblemCode.NO_EPOCH_COUNT,
        )
        return None
    if offset or not signs.by_rules:  # Since v0.6, the rules require labels that start at 1.
        signs.remark(f"epochs are labeled from {1 - offset}, by {evidence}")
    return offset


def _offset_by_starts(signs: _Signs) -> int | None:
    """Return the label offset that follows from the starts of epochs.

    The function uses three sources: the epoch starts before each evaluation, the labels of the
    epoch starts after each evaluation, and the total number of epoch starts.
    """
    started, begun = signs.started, signs.begun
    if not started:
        return None
    if any(begun) and signs.opened_ms.keys() >= set(
        signs.labels
    ):  # the next epoch may start during an evaluation
        first_ms = sorted({start.label: start.time_ms for start in reversed(signs.starts)}.values())
        begun = tuple(bisect_right(first_ms, signs.opened_ms[label]) for label in signs.labels)
    positions = (bisect_left(signs.starts, time, key=itemgetter(0)) for time in signs.times[:-1])
    after = [
        signs.starts[index].label if index < len(signs.starts) else None for index in positions
    ]
    following = [math.nan if label is None else label - started[0] for label in after]
    complete = len(started) > 1 and all(_same(step, 1.0) for step in _distances(started))
    total = [len(started)] if complete and signs.last_of_run else []
    pairs = (
        (begun if any(signs.begun) else (), signs.labels),
        (following, signs.labels),
        (total, signs.labels[-1:]),
    )
    for counts, labels in pairs:
        leads = {round(count - label, 1) for count, label in zip(counts, labels, strict=False)}
        if leads in ({0.0}, {1.0}):
            return int(leads.pop())
    return None


def _offset_by_distance(labels: Sequence[float]) -> int | None:
    """Return the label offset of a program that evaluates every n epochs.

    The first label is n if the program numbers epochs from 1, and n - 1 if the program numbers
    epochs from 0.
    """
    distances = _distances(labels)
    if len(labels) < _ONE_CYCLE or not all(
        _same(distance, distances[0]) for distance in distances[:-1]
    ):
        return None
    if _same(labels[0], distances[0]):
        return 0
    return 1 if distances[0] > 1 and _same(labels[0], distances[0] - 1) and labels[0] > 1 else None


def _epochs_by_time(signs: _Signs) -> float | None:
    """Return the number of epochs that fit into the time before the first evaluation.

    Returns None for more than eight epochs, because the error of the estimate would then exceed one
    epoch.
    """
    if len(signs.labels) < 2 or signs.first_training_ms is None or signs.labels[0] + 1 > 8:
        return None
    steps = zip(_distances(signs.times), _distances(signs.labels), strict=True)
    epoch_ms = statistics.median(time / max(epochs, _SAME) for time, epochs in steps)
    return (signs.times[0] - signs.first_training_ms) / epoch_ms if epoch_ms > 0 else None
