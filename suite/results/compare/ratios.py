"""Ratios between two measurements, each with its interval, a permutation test, and a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from suite.results.score.bootstrap import Interval
from suite.results.score.measurement import Measurement
from suite.results.score.permutation_test import PermutationTest, permutation_test
from suite.results.score.scaling import ScalingPair
from suite.results.score.scores import TimedRun

TIME, EPOCH_TIME, EPOCHS, THROUGHPUT = "time to target", "time per epoch", "epochs to target", "throughput"
UNITS: Mapping[str, str] = {TIME: "s", EPOCH_TIME: "s", EPOCHS: "epochs", THROUGHPUT: "samples/s"}
EQUAL_TOLERANCE = 5e-4
"""Ratios closer to 1 than this count as equal."""
_Value = Callable[[TimedRun], float | None]


@dataclass(frozen=True)
class Ratio:
    """One quantity of both measurements. `ratio` above 1: ours is better (less time, fewer epochs, more samples per second)."""

    quantity: str
    unit: str
    ours: float
    theirs: float
    ratio: float
    interval: Interval | None
    """95 % bootstrap interval of `ratio` over the runs; None where single runs are unknown or too few."""
    variation: PermutationTest | None
    """Permutation test on the single runs; None where they are unknown."""
    label: str = ""
    """Text to show beside the number."""


def ratios(ours: Measurement, theirs: Measurement, pair: ScalingPair, refused: set[str], label: str) -> list[Ratio]:
    """Ratios of all quantities that both measurements have, except the refused ones; `label` is for the time per epoch.

    `pair` is the speedup from `theirs` to `ours` (suite.results.score.scaling.compare).
    """
    comparable: list[Ratio] = []
    both, one, other = ours.to_target and theirs.to_target, ours.score, theirs.score

    def add(
        quantity: str, values: tuple[float | None, ...], interval: Interval | None, value: _Value, beside: str = ""
    ) -> None:
        """Add a ratio unless it was refused, or one of `values` (ours, theirs, their ratio) cannot be used."""
        mine, yours, ratio = (_usable(number) for number in values)
        if quantity not in refused and mine and yours and ratio:
            test = _permutation_test(ours.runs, theirs.runs, value)
            comparable.append(Ratio(quantity, UNITS[quantity], mine, yours, ratio, interval, test, beside))

    if both:
        times_per_epoch = (one.seconds_per_epoch, other.seconds_per_epoch, pair.throughput)
        add(TIME, (one.seconds, other.seconds, pair.total), pair.interval, _seconds)
        add(EPOCH_TIME, times_per_epoch, pair.interval_throughput, _seconds_per_epoch, label)
        add(EPOCHS, (one.epochs, other.epochs, pair.efficiency), pair.interval_efficiency, _epochs)
    mine, yours = _usable(one.samples_per_second), _usable(other.samples_per_second)
    add(
        THROUGHPUT, (mine, yours, mine / yours if yours else None), None if both else pair.interval, _samples_per_second
    )
    return comparable


def _usable(value: float | None) -> float:
    """A value that can be a divisor; 0 for one that is unknown, not positive or not finite."""
    return value if value is not None and 0 < value < math.inf else 0.0


def _permutation_test(
    ours: Sequence[TimedRun], theirs: Sequence[TimedRun], value: Callable[[TimedRun], float | None]
) -> PermutationTest | None:
    one, other = ([number for run in runs if (number := value(run)) is not None] for runs in (ours, theirs))
    complete = len(one) == len(ours) and len(other) == len(theirs)
    return permutation_test(one, other) if complete else None


def _seconds(run: TimedRun) -> float | None:
    return run.seconds


def _epochs(run: TimedRun) -> float | None:
    return run.epochs


def _seconds_per_epoch(run: TimedRun) -> float | None:
    return run.seconds / run.epochs if run.epochs else None


def _samples_per_second(run: TimedRun) -> float | None:
    return run.samples / run.train_seconds if run.samples and run.train_seconds else None


def ratio_summary(item: Ratio, ours: str, theirs: str, test: bool = True) -> str:
    """A ratio as a sentence: `B is 4.1 % faster (95 %: 2.0 to 6.3 %), more than run-to-run variation (p = 0.008, …)`.

    `test=False` leaves out what the permutation test says.
    """
    better, worse = (ours, theirs) if item.ratio >= 1 else (theirs, ours)
    tail = ""
    if item.variation is not None and test:
        tail = (", " if item.variation.can_be_significant else "; ") + item.variation.summary
    if abs(item.ratio - 1) < EQUAL_TOLERANCE:
        alike = {TIME: "are equally fast to the target", EPOCH_TIME: "are equally fast in each epoch"}
        alike |= {EPOCHS: "need as many epochs", THROUGHPUT: "train as many samples/s"}
        return f"{ours} and {theirs} {alike[item.quantity]}{tail}"
    amount, twice = _amount_text(item)
    return {
        TIME: f"{better} is {amount} {'as fast' if twice else 'faster'} to the target",
        EPOCH_TIME: f"{better} is {amount} {'as fast' if twice else 'faster'} in each epoch",
        EPOCHS: f"{worse} needs {amount} {'as many' if twice else 'more'} epochs",
        THROUGHPUT: f"{better} trains {amount} {'as many' if twice else 'more'} samples/s",
    }[item.quantity] + tail


def _amount_text(item: Ratio) -> tuple[str, bool]:
    """The size of a difference and whether it is a factor: `4.1 % (95 %: 2.0 to 6.3 %)`, from 2 on `2.11 times (95 %: …)`."""
    values = [item.ratio, *([item.interval.low, item.interval.high] if item.interval else [])]
    ratio, *ends = values if item.ratio >= 1 else [1 / value for value in values]
    twice = ratio >= 2
    if not ends:
        return (f"{ratio:.2f} times" if twice else f"{100 * (ratio - 1):.1f} %"), twice
    low, high = sorted(ends)
    if twice:
        return f"{ratio:.2f} times (95 %: {low:.2f} to {high:.2f})", twice
    return f"{100 * (ratio - 1):.1f} % (95 %: {100 * (low - 1):.1f} to {100 * (high - 1):.1f} %)", twice
