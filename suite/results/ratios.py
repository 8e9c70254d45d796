"""Ratios of two results, with bootstrap confidence intervals and a permutation test."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from suite.results.columns import Result
from suite.results.identity import HYPERPARAMETERS
from suite.results.scores import counted_runs, scoring_rule
from suite.results.settings_difference import settings_difference
from suite.results.text import devices_text, placed_text

_Floats = npt.NDArray[np.float64]
RESAMPLES = 10_000
"""Bootstrap resamples of the runs of each of two results."""
CONFIDENCE_LEVEL = 0.95
MINIMUM_RUNS = 3
"""Runs that each result needs for an interval; two give only three different resamples."""
SEED = 20_181_212
"""Fixed, so that the same logs always give the same table."""
_DRAWS_AT_A_TIME = 1 << 20
"""Number of indices drawn at a time, which bounds the memory."""
SAME_EPOCHS = 0.005
"""Numbers of epochs are called unchanged if their ratio differs from 1 by less than this."""
MUCH_SETUP = 0.2
"""Share of a difference from which on setup is named next to a speedup."""
NOTABLE_SETUP = 0.02
"""Share of the time to target below which a difference of setup times is not worth a sentence."""
SIGNIFICANCE = 0.05
"""A difference whose p value is below this is more than run-to-run variation."""
_ASSIGNMENTS = 100_000
"""Number of assignments of runs to two results. All are counted if there are fewer, otherwise this many are drawn."""


@dataclass(frozen=True)
class Interval:
    """Percentile bootstrap interval of a ratio."""

    low: float
    high: float


@dataclass(frozen=True)
class Ratio:
    """How much better one result is than another: above 1, `after` is better."""

    before: Result
    after: Result
    total: float | None
    """Ratio of times to target; None for runs of fixed length.

    If `throughput` and `efficiency` are known, this is exactly the product of `throughput`, `efficiency`, `setup` if it is
    known, and the ratio of the scaling factors of the two results (`scaling.json`).
    """
    throughput: float | None
    """Ratio of times per epoch; of fixed-length runs of samples per second."""
    efficiency: float | None
    """Statistical efficiency: ratio of epochs to target."""
    setup: float | None = None
    """What setup and other time outside of epochs contribute; None if the logs of a result do not separate setup.

    It is the ratio of (time to target / time in epochs): 1 if both results spend the same share of their time in epochs.
    """
    intervals: tuple[Interval | None, Interval | None, Interval | None] = (None, None, None)
    """Confidence intervals of total, throughput, and efficiency."""
    no_interval: str = ""
    """Reason for a missing interval; empty if there is an interval."""

    @property
    def value(self) -> float | None:
        """The main ratio: of times to target, or of rates if there are no times."""
        return self.total if self.total is not None else self.throughput

    @property
    def interval(self) -> Interval | None:
        return self.intervals[0 if self.total is not None else 1]

    @property
    def interval_words(self) -> str:
        """`95 % interval 1.18 to 1.31`; empty without an interval."""
        one = self.interval
        level = f"{100 * CONFIDENCE_LEVEL:g} % interval"
        return "" if one is None else f"{level} {ratio_text(one.low)} to {ratio_text(one.high)}"

    @property
    def setup_saving(self) -> float | None:
        """Share of the difference between the two times to target that setup explains.

        1: the whole difference. Above 1, or negative: without setup, the result that is slower to the target would be the
        faster one. None if the logs do not separate setup, or if the times are equal.
        """
        one, other = self.before.parts, self.after.parts
        if one is None or other is None or one.total == other.total:
            return None
        return (one.setup - other.setup) / (one.total - other.total)

    @property
    def setup_explains_much(self) -> bool:
        """Whether setup explains more than a fifth of the difference between two times to target."""
        one, other = self.before.parts, self.after.parts
        if one is None or other is None:
            return False
        difference = abs(one.setup - other.setup)
        visible = NOTABLE_SETUP * max(one.total, other.total)
        return difference > MUCH_SETUP * abs(one.total - other.total) and difference > visible

    @property
    def rate(self) -> float | None:
        """Ratio of samples per second, to a target or not."""
        return _over(self.after.samples_per_second, self.before.samples_per_second)

    @property
    def scaling_efficiency(self) -> float | None:
        """Throughput divided by the ratio of devices: 1 is linear scaling."""
        if self.throughput is None or not self.before.devices or not self.after.devices:
            return None
        return self.throughput * float(self.before.devices / self.after.devices)

    @property
    def scaling(self) -> str:
        """`strong` (same global batch), `weak` (same batch per device), `mixed` (neither), `unknown`."""
        one, other = self.before.batch_size_global, self.after.batch_size_global
        few, many = self.before.devices, self.after.devices
        if not (one and other and few and many) or self.before.batch_unit != self.after.batch_unit:
            return "unknown"
        if one == other:
            return "strong"
        return "weak" if one * many == other * few else "mixed"

    @property
    def places(self) -> str:
        """Devices before and after: `1 → 8`; on several nodes `1 × 1 → 2 × 4` (nodes × devices per node)."""
        several = max(self.before.nodes or 1, self.after.nodes or 1) > 1
        return " → ".join(placed_text(row.devices or 0, row.nodes, several) for row in (self.before, self.after))

    @property
    def flags(self) -> tuple[str, ...]:
        """Further differences between the two results, and conclusions that the number of runs does not support."""
        differing = settings_difference((self.before, self.after)).only((HYPERPARAMETERS,)).known()
        flags = [f"the hyperparameters differ: {'; '.join(differing.phrases())}"] if differing.columns else []
        if (self.before.nodes or 1) != (self.after.nodes or 1):
            flags.append("the devices cross nodes, so the network between nodes counts")
        return (*flags, *([self.chance] if self.chance else []))

    @property
    def chance(self) -> str:
        """Note that few runs do not show whether devices change the epochs to target; empty if the note does not apply."""
        if self.scaling != "strong" or self.efficiency is None or abs(self.efficiency - 1) < SAME_EPOCHS:
            return ""
        seeds = [{run.seed for run in row.runs} for row in (self.before, self.after)]
        few, many = sorted((len(self.before.runs), len(self.after.runs)))
        if not 0 < few < MINIMUM_RUNS or None in seeds[0] | seeds[1] or seeds[0] == seeds[1]:
            return ""
        counts = f"{few} and {many} runs" if few != many else "single runs" if few == 1 else f"{few} runs each"
        return f"epochs to target vary between seeds, and {counts} do not show whether more devices change them"


def ratio_text(value: float) -> str:
    """Return a ratio as text: `15.8`, `1.76`, `0.63`."""
    return f"{value:.2g}" if value < 0.1 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def ratio(before: Result, after: Result, intervals: bool = True) -> Ratio:
    """Return how much better `after` is than `before`. The caller has checked that they are comparable."""
    total = throughput = efficiency = setup = None
    in_blocks = before.parts is not None and after.parts is not None
    if before.to_target and after.to_target:
        efficiency = _over(before.epochs, after.epochs)
        throughput = _over(_seconds_per_epoch(before, in_blocks), _seconds_per_epoch(after, in_blocks))
        total = _over(before.seconds, after.seconds)
        if throughput is None or efficiency is None:
            throughput = efficiency = None
        elif in_blocks and total is not None:
            setup = total / (throughput * efficiency * _scaling_ratio(before, after))
        else:
            total = throughput * efficiency * _scaling_ratio(before, after)
    else:
        throughput = _over(after.samples_per_second, before.samples_per_second)
    if not intervals:
        return Ratio(before, after, total, throughput, efficiency, setup, no_interval="not asked for")
    why = _why_no_interval(before) or _why_no_interval(after)
    three_intervals = (None, None, None) if why else _intervals(before, after, in_blocks)
    if not why and three_intervals == (None, None, None):
        why = "the runs hold numbers out of range"
    return Ratio(before, after, total, throughput, efficiency, setup, three_intervals, why)


def _seconds_per_epoch(result: Result, in_blocks: bool) -> float | None:
    """Return the time per epoch, without setup only if both results of a ratio have it so."""
    return result.seconds_per_epoch if in_blocks else result.seconds_over_epochs


def _scaling_ratio(before: Result, after: Result) -> float:
    """Return the ratio of the factors by which `scaling.json` multiplies the two scores."""
    return (before.scaling_factor or 1.0) / (after.scaling_factor or 1.0)


def _over(above: float | None, below: float | None) -> float | None:
    return above / below if above and below else None


def place(row: Result) -> tuple[int, int]:
    """Return devices and nodes. A log without a number of nodes counts as a single node."""
    return row.devices or 0, row.nodes or 1


def _why_no_interval(row: Result) -> str:
    """Return why the runs of a result do not suffice for an interval; empty if they do."""
    where = f"on {devices_text(row.devices or 0, row.nodes)}"
    if row.single_figure:
        return f"no single runs are known {where}"
    if len(row.runs) < MINIMUM_RUNS:
        return f"too few runs {where}: {len(row.runs)}, and {MINIMUM_RUNS} are needed"
    if not row.to_target and not any(run.samples and run.train_seconds for run in row.runs):
        return f"no run {where} has its samples counted"
    return ""


def _resampled(row: Result, side: int, in_blocks: bool) -> _Floats:
    """Return means over as many runs drawn with replacement, averaged as the score is.

    Returns:
        Array (RESAMPLES, 3): seconds, epochs, and seconds in epochs, NaN where they are unknown. Of runs of fixed length array
        (RESAMPLES, 2): the sums of seconds and samples.
    """
    cached: dict[tuple[int, bool], _Floats] = row.__dict__.setdefault("_resampled", {})
    if (side, in_blocks) in cached:
        return cached[side, in_blocks]
    if row.to_target:
        rule = scoring_rule(row, row.runs_successful + row.runs_failed)
        runs, fast, slow, _ = counted_runs(row.runs, row.runs_failed, rule)
        values = np.array(
            sorted(
                (run.seconds or 0.0, run.epochs or 0.0, (run.block_seconds if in_blocks else run.seconds) or 0.0)
                for run in runs
            )
        )
        values[values == 0.0] = np.nan
    else:
        runs, fast, slow = [run for run in row.runs if run.samples and run.train_seconds], 0, 0
        values = np.array(sorted((run.samples, run.train_seconds) for run in runs))[:, ::-1]
    draws = _draws(len(runs), np.random.default_rng([SEED, side]))
    # runs are in order of seconds, so sorted draws are too: fastest and slowest stand at the ends
    cached[side, in_blocks] = np.concatenate(
        [values[np.sort(drawn)[:, fast : len(runs) - slow]].mean(axis=1) for drawn in draws]
    )
    return cached[side, in_blocks]


def _draws(runs: int, random: np.random.Generator) -> Iterator[npt.NDArray[np.int64]]:
    """Yield indices of drawn runs, (resamples, runs), in blocks of bounded size with RESAMPLES rows in total."""
    left = RESAMPLES
    while left:
        count = min(left, max(1, _DRAWS_AT_A_TIME // runs))
        yield random.integers(runs, size=(count, runs))
        left -= count


def _intervals(
    before: Result, after: Result, in_blocks: bool
) -> tuple[Interval | None, Interval | None, Interval | None]:
    """Return the intervals of total, throughput, and efficiency."""

    def interval(ratios: _Floats) -> Interval | None:
        if not np.isfinite(ratios).all():
            return None
        low, high = np.quantile(ratios, [(1 - CONFIDENCE_LEVEL) / 2, (1 + CONFIDENCE_LEVEL) / 2])
        return Interval(float(low), float(high))

    if before.to_target != after.to_target:
        return None, None, None
    with np.errstate(all="ignore"):  # sums of logged numbers may overflow
        ratios = (_resampled(before, 0, in_blocks) / _resampled(after, 1, in_blocks)).T
        if not before.to_target:
            seconds, samples = ratios
            return None, interval(seconds / samples), None
        seconds, epochs, seconds_in_epochs = ratios
        total = interval(seconds * _scaling_ratio(before, after))
        return total, interval(seconds_in_epochs / epochs), interval(epochs)


def permutation_test(one: Sequence[float | None], other: Sequence[float | None]) -> tuple[float, float] | None:
    """Return p of the difference of two means, and the smallest p that this number of runs can give.

    There is no result if a value is unknown, or for a single run. The test is two-sided: p is twice the smaller tail. If both
    sides had the same distribution, every assignment of the runs to the two sides would be as likely as the observed assignment
    (Ernst, Permutation Methods, Statistical Science 19 (2004), 676-685).
    """
    if None in (*one, *other) or min(len(one), len(other)) < 2:
        return None
    values = [[float(f"{value:.9g}") for value in side] for side in (one, other)]  # tables are rounded
    if not all(map(math.isfinite, itertools.chain(*values))):
        return None
    from scipy import stats  # half a second

    def first_sum(first: Any, _: Any, axis: int) -> Any:
        return first.sum(
            axis=axis
        )  # grows with the difference of the means, and its rounding is small compared with it

    random = np.random.default_rng(SEED)
    options = {"vectorized": True, "n_resamples": _ASSIGNMENTS, "batch": 10_000, "random_state": random}
    possible = min(math.comb(len(one) + len(other), len(one)), _ASSIGNMENTS + 1)
    return float(stats.permutation_test(values, first_sum, **options).pvalue), min(1.0, 2 / possible)
