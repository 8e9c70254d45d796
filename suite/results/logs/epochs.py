"""Epochs trained until the target was reached, from every line of a log that says something about them.

Programs label epochs from 1 (the rules from v0.6 on), 0 or -1, and some start fewer epochs in the log than they train. A label
is therefore turned into a count with all evidence: the starts of epochs and blocks, the labels of `eval_start`, the distance
of evaluations, and the time before the first one. What contradicts itself gives no count.
"""

from __future__ import annotations

import itertools
import math
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from suite.results.logs.events import Event, Remarks, number
from suite.results.logs.record import Evaluation

_FORMATS_OF_ANY_BASE = ("MLPv0.5.0", "MLPerf")
"""Formats whose programs label epochs from 0, 1 or -1; from v0.6 on the rules say 1."""
_SAME = 0.01
"""Labels nearer than this are equal: some logs hold 32.746 for 32.75."""
_MOST_EPOCHS_TIMED = 8
"""Beyond so many epochs before the first evaluation, time cannot tell one epoch more or less."""
_SLACK_EPOCHS = 0.5
"""An evaluation cannot come earlier than its epochs take by more than this, in epochs: epochs differ in length."""
_EQUAL_TIMES = 0.05
"""Blocks of the same epochs differ by less, as a share of their time; the first also sets up."""
_ONE_CYCLE = 3
"""Fewest labels whose equal distance counts as a rule of the program."""


@dataclass(frozen=True)
class _Signs:
    """What a log says about the epochs of its evaluations, up to the one that reached the target (the last)."""

    labels: tuple[float, ...]
    """Of the evaluations, in order; empty: there are none that agree."""
    begun: tuple[int, ...]
    """Epochs that the log had started by each evaluation."""
    times: tuple[float, ...]
    """Of the evaluations, ms."""
    starts: tuple[Event, ...]
    """`epoch_start`; where there are none `block_start`. In order of time, also those after the run."""
    blocks: tuple[Event, ...]
    """`block_start` up to the last evaluation, in order of time."""
    opened_ms: Mapping[float, float]
    """Label of an `eval_start` to its time."""
    first_training_ms: float | None
    """When the training loop, or else the run, began."""
    last_of_run: bool
    """True if no evaluation followed that which reached the target."""
    agreed: bool
    """True if two labels of each evaluation that differ by one have settled that the higher one is the count."""

    @property
    def first_start(self) -> float | None:
        """The lowest label of a start."""
        return min((label for label in map(_start_label, self.starts) if label is not None), default=None)


def epochs_at(
    reached: int, log_format: str, events: Sequence[Event], evaluations: Sequence[Evaluation], remarks: Remarks
) -> float | None:
    """Epochs trained at evaluation number `reached` (from 0); None, with a remark, if the log contradicts itself."""
    signs = _signs(reached, events, evaluations, remarks)
    line = evaluations[reached].line
    if log_format in _FORMATS_OF_ANY_BASE:
        counted = _begun_epochs(signs, evaluations[: reached + 1], remarks)
        if counted is not None:
            return counted
    if not signs.labels:
        return _one_epoch_each(signs, line, remarks) if _has_labels(evaluations[: reached + 1]) else None
    offset = _offset(signs, log_format, line, remarks)
    if offset is None:
        remarks.add(line, "no epoch count: the log does not say whether its evaluations are labelled from 0 or from 1")
        return None
    epochs = _epochs_of_equal_blocks(signs, line, remarks) or signs.labels[-1] + offset
    return epochs if epochs > 0 else None


def _has_labels(evaluations: Sequence[Evaluation]) -> bool:
    return any(evaluation.epoch is not None for evaluation in evaluations)


def _start_label(event: Event) -> float | None:
    return number(event.metadata.get("epoch_num" if event.key == "epoch_start" else "first_epoch_num"))


def _signs(reached: int, events: Sequence[Event], evaluations: Sequence[Evaluation], remarks: Remarks) -> _Signs:
    by_time = sorted(events, key=lambda event: event.time_ms)
    keys = {event.key for event in by_time}
    start_key = "epoch_start" if "epoch_start" in keys else "block_start"
    origin = next((event for event in by_time if event.key == "run_start"), None)
    loop = next((event for event in by_time if event.key == "train_loop"), origin)
    run_ms = origin.time_ms if origin is not None else 0.0
    upto = evaluations[: reached + 1]
    times = tuple(run_ms + 1000.0 * evaluation.seconds for evaluation in upto)
    openings = [event for event in by_time if event.key == "eval_start"]
    labels, agreed = _labels(upto, times, openings, remarks)
    return _Signs(
        labels=labels,
        begun=tuple(evaluation.epochs_begun for evaluation in upto),
        times=times,
        starts=tuple(event for event in by_time if event.key == start_key),
        blocks=tuple(event for event in by_time if event.key == "block_start" and event.time_ms < times[-1]),
        opened_ms={label: one.time_ms for one in openings if (label := _opening_label(one)) is not None},
        first_training_ms=loop.time_ms if loop is not None else None,
        last_of_run=len(upto) == len(evaluations),
        agreed=agreed,
    )


# --- labels of evaluations ----------------------------------------------------------------------------------------------


def _labels(
    evaluations: Sequence[Evaluation], times: Sequence[float], openings: Sequence[Event], remarks: Remarks
) -> tuple[tuple[float, ...], bool]:
    """(labels of the evaluations, whether they are settled as counts); no labels where none are in order.

    `eval_accuracy` has them, and `eval_start`, which may contradict it.
    """
    line = evaluations[-1].line
    own = _increasing([evaluation.epoch for evaluation in evaluations])
    pairs = _opening_labels(times, openings)
    opened = _increasing(pairs)
    known = sorted(label for event in openings if (label := _opening_label(event)) is not None)
    if not own and not known:
        own = _shuffled(evaluations, remarks)
    if own and (not known or all(_nearest(label, known) < _SAME for label in own)):
        return own, False
    repeated = [evaluation.epoch for evaluation in evaluations if evaluation.epoch is not None]
    if not own and repeated == pairs and repeated == sorted(repeated):  # several evaluations in one epoch
        return tuple(repeated), False
    if not opened or not own:
        if opened and _has_labels(evaluations):
            remarks.add(line, "labels of eval_accuracy are not in order: those of eval_start are used")
        return opened or own, False
    shifts = {round(one - other, 2) for one, other in zip(opened, own, strict=True)}
    if shifts in ({1.0}, {-1.0}):
        higher = "eval_start" if shifts == {1.0} else "eval_accuracy"
        remarks.add(
            line, f"eval_start and eval_accuracy label an evaluation differently: the higher, of {higher}, is used"
        )
        return (opened if shifts == {1.0} else own), True
    remarks.add(line, "eval_start and eval_accuracy label an evaluation differently: neither is used")
    return (), False


def _same(one: float, other: float) -> bool:
    return abs(one - other) < _SAME


def _nearest(label: float, known: Sequence[float]) -> float:
    """Distance of `label` from the nearest of `known`, which ascend."""
    place = bisect_left(known, label)
    return min(abs(label - other) for other in known[max(0, place - 1) : place + 1])


def _shuffled(evaluations: Sequence[Evaluation], remarks: Remarks) -> tuple[float, ...]:
    """The labels in order, where evaluations that took longer were overtaken: none is missing, and the last is the highest."""
    known = [evaluation.epoch for evaluation in evaluations if evaluation.epoch is not None]
    labels = tuple(sorted(known))
    distances = [late - early for early, late in itertools.pairwise(labels)]
    complete = len(labels) == len(evaluations) and all(one > 0 and _same(one, distances[0]) for one in distances)
    if not complete or known[-1] != labels[-1]:
        return ()
    remarks.add(evaluations[-1].line, "evaluations are not in the order of their labels, of which none is missing")
    return labels


def _increasing(labels: Sequence[float | None]) -> tuple[float, ...]:
    """The labels if all are known and each is higher than the last; else none."""
    known = tuple(label for label in labels if label is not None)
    in_order = all(early < late for early, late in itertools.pairwise(known))
    return known if len(known) == len(labels) and in_order else ()


def _opening_label(event: Event) -> float | None:
    """The epoch of an `eval_start`; v0.5 has it as value."""
    label = number(event.metadata.get("epoch_num"))
    return number(event.value) if label is None else label


def _opening_labels(times: Sequence[float], openings: Sequence[Event]) -> list[float | None]:
    """The label of the `eval_start` of each evaluation; None where not exactly one lies between it and the one before."""
    opened_ms = [event.time_ms for event in openings]
    places = itertools.pairwise((0, *(bisect_right(opened_ms, time) for time in times)))
    return [_opening_label(openings[first]) if last == first + 1 else None for first, last in places]


# --- counting starts ----------------------------------------------------------------------------------------------------


def _begun_epochs(signs: _Signs, evaluations: Sequence[Evaluation], remarks: Remarks) -> float | None:
    """The epochs started, if the labels of the evaluations agree with them, or there are none; else None."""
    begun = signs.begun[-1]
    if not begun or (signs.labels and signs.labels[0] < 0 == signs.begun[0]):  # the first epoch has no start
        return None
    if not _has_labels(evaluations):
        if len(set(signs.begun)) == len(signs.begun):
            return float(begun)
        remarks.add(evaluations[-1].line, "no epoch count: evaluations without label, and no epoch starts between them")
        return None
    epochs = [evaluation.epoch for evaluation in evaluations]
    labels = sorted(signs.labels) if set(signs.labels) == set(epochs) else epochs  # in order where they were shuffled
    ahead = {count - label if label is not None else None for count, label in zip(signs.begun, labels, strict=True)}
    allowed = (0, 1, 2) if (labels[0] or 0) < 0 else (0, 1)
    if len(ahead) == 1 and ahead.issubset(allowed):
        return float(begun)
    if signs.labels:
        line = evaluations[len(signs.labels) - 1].line
        remarks.add(line, f"{begun} epochs started by then do not fit the label of the evaluation, which is used")
    return None


def _one_epoch_each(signs: _Signs, line: int, remarks: Remarks) -> float | None:
    """The epochs or blocks of one epoch started, where there was one evaluation after each; else None."""
    blocks = [event for event in signs.starts if event.time_ms < signs.times[-1]]
    lone = all(event.key == "epoch_start" or number(event.metadata.get("epoch_count")) == 1 for event in blocks)
    first_ms: dict[float, float] = {}
    for event in blocks:
        if (label := _start_label(event)) is not None:
            first_ms.setdefault(label, event.time_ms)
    started = list(first_ms.values())
    counts = [bisect_right(started, time) for time in signs.times]
    if lone and counts == list(range(1, len(signs.times) + 1)):
        remarks.add(line, "labels of evaluations contradict each other: the epochs started are counted")
        return float(counts[-1])
    remarks.add(line, "no epoch count: labels of evaluations contradict each other, and no starts of epochs settle it")
    return None


def _epochs_of_equal_blocks(signs: _Signs, line: int, remarks: Remarks) -> float | None:
    """Epochs of blocks of equal size and time, one for each evaluation, between which labels rise by no more and once by less.

    Google's ResNet of v0.7 rounds steps over steps of an epoch down: it says 38 after ten blocks of 2,502 steps, 40.0 epochs.
    """
    sizes = {number(block.metadata.get("epoch_count")) for block in signs.blocks}
    size = sizes.pop() if len(sizes) == 1 else None
    if size is None or size <= 1 or len(signs.blocks) != len(signs.times) or len(signs.times) < _ONE_CYCLE:
        return None
    times = [late - early for early, late in itertools.pairwise((signs.blocks[0].time_ms, *signs.times))]
    typical = statistics.median(times)
    equal = all(abs(one - typical) <= _EQUAL_TIMES * typical for one in times[1:])
    steps = [late - early for early, late in itertools.pairwise(signs.labels)]
    if (
        not equal
        or times[0] < (1 - _EQUAL_TIMES) * typical
        or not min(steps) < size - _SAME
        or max(steps) > size + _SAME
    ):
        return None
    remarks.add(
        line, f"labels of evaluations are rounded down: {len(times)} equal blocks of {size:g} epochs are counted"
    )
    return size * len(times)


# --- what to add to a label ---------------------------------------------------------------------------------------------


def _offset(signs: _Signs, log_format: str, line: int, remarks: Remarks) -> int | None:
    """What to add to a label of an evaluation to get the epochs trained by then: 0, 1 or 2; None: the log does not say."""
    first = signs.labels[0]
    trained = _epochs_by_time(signs)
    if signs.agreed:
        return 0
    if first <= 0:
        fitting = [count for count in (1, 0) if trained is None or trained >= count - _SLACK_EPOCHS]
        offset = round(fitting[0] - first)
        after_all = signs.begun[0] == signs.begun[-1] >= signs.labels[-1] and signs.first_start == 1
        if len(signs.labels) > 1 and (signs.begun == signs.labels or after_all):
            offset = 0  # the untrained model too, before the first epoch or with all others after the last
            remarks.add(line, "evaluations are labelled with the epochs trained, from 0 for the untrained model")
        if offset:
            remarks.add(line, f"epochs are labelled from {first:g}: counted as {offset} more")
        return offset
    if log_format not in _FORMATS_OF_ANY_BASE and signs.first_start != 0:
        return 0
    return _offset_of_positive_labels(signs, trained, log_format not in _FORMATS_OF_ANY_BASE, line, remarks)


def _offset_of_positive_labels(
    signs: _Signs, trained: float | None, by_rules: bool, line: int, remarks: Remarks
) -> int | None:
    """The offset where labels begin above 0, so that they may count from 0 or from 1; `by_rules`: from 1 unless shown."""
    too_early = trained is not None and trained < signs.labels[0] + _SLACK_EPOCHS
    found = _offset_by_starts(signs)
    evidence = "the starts of epochs"
    if found is None:
        found, evidence = _offset_by_distance(signs.labels), "the distance of evaluations"
    if found is None and too_early:
        found, evidence = 0, "the time before the first evaluation"
    if found is None and by_rules:
        return 0
    in_time = trained is None or trained >= signs.labels[0] + 1 - _SLACK_EPOCHS / 2
    if found is None and signs.first_start in (0, 1) and in_time:
        found, evidence = (1 if signs.first_start == 0 else 0), "the label of the first epoch started"
    if found == 1 and too_early:
        remarks.add(line, f"{evidence} and the time before the first evaluation contradict each other")
        return None
    if found is not None:
        remarks.add(line, f"epochs are labelled from {1 - found}, by {evidence}")
    return found


def _offset_by_starts(signs: _Signs) -> int | None:
    """From starts that keep pace with the evaluations, begin blocks after them, or are complete, during or after the run."""
    first = signs.first_start
    if first is None:
        return None
    starts_ms = [event.time_ms for event in signs.starts]
    begun = signs.begun if any(signs.begun) else ()
    if begun and signs.opened_ms.keys() >= set(signs.labels):  # the next epoch may start while the model is evaluated
        first_ms = sorted({_start_label(event): event.time_ms for event in reversed(signs.starts)}.values())
        begun = tuple(bisect_right(first_ms, signs.opened_ms[label]) for label in signs.labels)
    following = []
    for time in signs.times[:-1]:
        place = bisect_left(starts_ms, time)
        label = _start_label(signs.starts[place]) if place < len(starts_ms) else None
        following.append(math.nan if label is None else label - first)
    known = sorted({label for label in map(_start_label, signs.starts) if label is not None})
    complete = len(known) > 1 and all(_same(late - early, 1.0) for early, late in itertools.pairwise(known))
    total = [len(known)] if complete and signs.last_of_run else []
    pairs = ((begun, signs.labels), (following, signs.labels), (total, signs.labels[-1:]))
    return next((found for counts, labels in pairs if (found := _constant_lead(counts, labels)) is not None), None)


def _constant_lead(counts: Iterable[float], labels: Sequence[float]) -> int | None:
    """By how much all counts exceed the labels, if that is 0 or 1 for each; else None."""
    leads = {
        round(count - label, 1) if math.isfinite(count) else None for count, label in zip(counts, labels, strict=False)
    }
    return next((offset for offset in (0, 1) if leads == {float(offset)}), None)


def _offset_by_distance(labels: Sequence[float]) -> int | None:
    """A program that evaluates every n epochs labels its first evaluation n (from 1) or n - 1 (from 0)."""
    distances = [late - early for early, late in itertools.pairwise(labels)]
    if len(labels) < _ONE_CYCLE or not all(_same(distance, distances[0]) for distance in distances[:-1]):
        return None
    distance = distances[0]
    if distance <= 1:
        return 0 if _same(labels[0], distance) else None
    return 0 if _same(labels[0], distance) else 1 if _same(labels[0], distance - 1) and labels[0] > 1 else None


def _epochs_by_time(signs: _Signs) -> float | None:
    """The most epochs for which there was time before the first evaluation; None if that cannot tell one epoch."""
    if len(signs.labels) < 2 or signs.first_training_ms is None or signs.labels[0] + 1 > _MOST_EPOCHS_TIMED:
        return None
    epoch_ms = statistics.median(
        (late - early) / max(after - before, _SAME)
        for (early, late), (before, after) in zip(
            itertools.pairwise(signs.times), itertools.pairwise(signs.labels), strict=True
        )
    )
    return (signs.times[0] - signs.first_training_ms) / epoch_ms if epoch_ms > 0 else None
