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

    `pair` is the speedup from `theirs` to `ours` (suite.results.score.scaling.scaling_pair).
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


def difference_shown(item: Ratio) -> bool:
    """True if single runs show the difference: several on each side, the test significant, and 1 outside the interval."""
    test, interval = item.variation, item.interval
    if test is None or min(test.runs_ours, test.runs_theirs) < 2 or not test.significant:
        return False
    return interval is None or not interval.low <= 1 <= interval.high


def ratio_summary(item: Ratio, ours: str, theirs: str, test: bool = True) -> str:
    """A ratio as a sentence that begins with the verdict and claims a difference only where runs show it.

    `B is 4.1 % (95 %: 2.0 to 6.3 %) faster to the target, more than run-to-run variation (p = 0.008, …)`, or
    `no difference shown (measured 1.63 times as fast to the target, B against A, interval …): …`. `test=False` leaves out
    what the permutation test says.
    """
    found = item.variation
    if found is None:
        return f"no difference shown, as single runs are not known ({_measured(item, ours, theirs)})"
    if min(found.runs_ours, found.runs_theirs) < 2:
        each = found.runs_ours == found.runs_theirs
        counts = "one run each" if each else f"{found.runs_ours} against {found.runs_theirs} runs"
        return f"{counts}: {_measured(item, ours, theirs)}, which one run cannot show"
    tail = found.summary if test else ""
    if difference_shown(item):
        return ", ".join(filter(None, (_claim(item, ours, theirs), tail)))
    if found.significant:
        tail = f"{tail}, but the interval includes 1" if tail else "the interval includes 1"
    return ": ".join(filter(None, (f"no difference shown ({_measured(item, ours, theirs)})", tail)))


def _claim(item: Ratio, ours: str, theirs: str) -> str:
    better, worse = (ours, theirs) if item.ratio >= 1 else (theirs, ours)
    amount, twice = _amount_text(item)
    return {
        TIME: f"{better} is {amount} {'as fast' if twice else 'faster'} to the target",
        EPOCH_TIME: f"{better} is {amount} {'as fast' if twice else 'faster'} in each epoch",
        EPOCHS: f"{worse} needs {amount} {'as many' if twice else 'more'} epochs",
        THROUGHPUT: f"{better} trains {amount} {'as many' if twice else 'more'} samples/s",
    }[item.quantity]


def _measured(item: Ratio, ours: str, theirs: str) -> str:
    """What was measured, as a factor of at least 1 with its interval, without a claim that it is a difference."""
    if abs(item.ratio - 1) < EQUAL_TOLERANCE and item.interval is None:
        return f"measured the same {item.quantity}"
    better, worse = (ours, theirs) if item.ratio >= 1 else (theirs, ours)
    ratio, ends = _factor(item)
    of = {
        TIME: f"as fast to the target, {better} against {worse}",
        EPOCH_TIME: f"as fast in each epoch, {better} against {worse}",
        EPOCHS: f"as many epochs, {worse} against {better}",
        THROUGHPUT: f"as many samples/s, {better} against {worse}",
    }[item.quantity]
    between = f", interval {ends[0]:.2f} to {ends[1]:.2f}" if ends else ""
    return f"measured {ratio:.2f} times {of}{between}"


def _factor(item: Ratio) -> tuple[float, list[float]]:
    """(ratio of at least 1, the ends of its interval; none without one)."""
    values = [item.ratio, *([item.interval.low, item.interval.high] if item.interval else [])]
    ratio, *ends = values if item.ratio >= 1 else [1 / value for value in values]
    return ratio, sorted(ends)


def _amount_text(item: Ratio) -> tuple[str, bool]:
    """The size of a difference and whether it is a factor: `4.1 % (95 %: 2.0 to 6.3 %)`, from 2 on `2.11 times (95 %: …)`."""
    ratio, ends = _factor(item)
    twice = ratio >= 2
    if not ends:
        return (f"{ratio:.2f} times" if twice else f"{100 * (ratio - 1):.1f} %"), twice
    low, high = ends
    if twice:
        return f"{ratio:.2f} times (95 %: {low:.2f} to {high:.2f})", twice
    return f"{100 * (ratio - 1):.1f} % (95 %: {100 * (low - 1):.1f} to {100 * (high - 1):.1f} %)", twice
