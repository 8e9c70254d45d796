"""Ratios of one measurement to another, each with its interval, its test against run-to-run variation, and its words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from suite.results.bootstrap import Interval
from suite.results.measurement import Measurement
from suite.results.scaling import Pair
from suite.results.scores import TimedRun
from suite.results.variation import SIGNIFICANCE, Variation, permutation_test

TIME, EPOCH_TIME, EPOCHS, THROUGHPUT = "time to target", "time per epoch", "epochs to target", "throughput"
SAME = 5e-4
"""Ratios nearer to 1 are called equal."""


@dataclass(frozen=True)
class Ratio:
    """One quantity on both sides. `ratio` above 1: ours is better (less time, fewer epochs, more samples per second)."""

    quantity: str
    unit: str
    ours: float
    theirs: float
    ratio: float
    interval: Interval | None
    """95 % bootstrap interval of `ratio` over the runs; None where single runs are unknown or too few."""
    variation: Variation | None
    """Permutation test on the single runs; None where they are unknown."""
    label: str = ""
    """What must stand beside the number."""


def ratios(ours: Measurement, theirs: Measurement, pair: Pair, refused: set[str], label: str) -> list[Ratio]:
    """Ratios of all quantities that both sides have, but the refused ones; `label` stands beside the time per epoch.

    `pair` is the speedup from `theirs` to `ours` (suite.results.scaling.compare).
    """
    return list(_ratios(ours, theirs, pair, refused, label))


def _ratios(ours: Measurement, theirs: Measurement, pair: Pair, refused: set[str], label: str) -> Iterator[Ratio]:
    both = ours.to_target and theirs.to_target
    one, other = ours.score, theirs.score
    timed = [
        (TIME, "s", one.seconds, other.seconds, pair.total, pair.interval, _seconds),
        (
            EPOCH_TIME,
            "s",
            one.seconds_per_epoch,
            other.seconds_per_epoch,
            pair.throughput,
            pair.interval_throughput,
            _epoch,
        ),
        (EPOCHS, "epochs", one.epochs, other.epochs, pair.efficiency, pair.interval_efficiency, _epochs),
    ]
    for quantity, unit, mine, yours, ratio, interval, value in timed if both else []:
        if quantity not in refused and ratio and mine and yours:
            variation = _test(ours.runs, theirs.runs, value)
            yield Ratio(
                quantity, unit, mine, yours, ratio, interval, variation, label if quantity == EPOCH_TIME else ""
            )
    mine, yours = one.samples_per_second, other.samples_per_second
    if THROUGHPUT not in refused and mine and yours:
        interval = None if both else pair.interval
        variation = _test(ours.runs, theirs.runs, _rate)
        yield Ratio(THROUGHPUT, "samples/s", mine, yours, mine / yours, interval, variation)


def _test(
    ours: Sequence[TimedRun], theirs: Sequence[TimedRun], value: Callable[[TimedRun], float | None]
) -> Variation | None:
    one, other = ([found for run in runs if (found := value(run)) is not None] for runs in (ours, theirs))
    complete = len(one) == len(ours) and len(other) == len(theirs)
    return permutation_test(one, other) if complete else None


def _seconds(run: TimedRun) -> float | None:
    return run.seconds


def _epochs(run: TimedRun) -> float | None:
    return run.epochs


def _epoch(run: TimedRun) -> float | None:
    return run.seconds / run.epochs if run.epochs else None


def _rate(run: TimedRun) -> float | None:
    return run.samples / run.train_seconds if run.samples and run.train_seconds else None


def ratio_words(item: Ratio, ours: str, theirs: str) -> str:
    """`B is 4.1 % faster (95 %: 2.0 to 6.3 %), more than run-to-run variation (p = 0.008, 5 against 5 runs)`."""
    better, worse = (ours, theirs) if item.ratio >= 1 else (theirs, ours)
    tail = ""
    if item.variation is not None:
        tail = ("; " if item.variation.smallest_p >= SIGNIFICANCE else ", ") + item.variation.words
    if abs(item.ratio - 1) < SAME:
        same = "need as many epochs" if item.quantity == EPOCHS else "are equally fast"
        return f"{ours} and {theirs} {same} ({item.quantity}){tail}"
    amount = _amount(item)
    return {
        TIME: f"{better} is {amount} faster to the target",
        EPOCH_TIME: f"{better} is {amount} faster in each epoch",
        EPOCHS: f"{worse} needs {amount} more epochs",
        THROUGHPUT: f"{better} trains {amount} more samples/s",
    }[item.quantity] + tail


def _amount(item: Ratio) -> str:
    """`4.1 % (95 %: 2.0 to 6.3 %)`: by how much the worse side's value is larger (for throughput the better side's)."""
    values = [item.ratio, *([item.interval.low, item.interval.high] if item.interval else [])]
    ratio, *ends = values if item.ratio >= 1 else [1 / value for value in values]
    if not ends:
        return f"{100 * (ratio - 1):.1f} %"
    low, high = sorted(100 * (end - 1) for end in ends)
    return f"{100 * (ratio - 1):.1f} % (95 %: {low:.1f} to {high:.1f} %)"
