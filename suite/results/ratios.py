"""Speedups between two results, with bootstrap intervals and a permutation test."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from suite.results.columns import Result
from suite.results.experiment_key import HYPERPARAMETERS
from suite.results.scores import counted_runs, scoring_rule
from suite.results.settings_difference import settings_difference
from suite.results.text import devices_text, placed_text

_Floats = npt.NDArray[np.float64]
RESAMPLES = 10_000
"""Number of bootstrap resamples for the runs of each result."""
CONFIDENCE_LEVEL = 0.95
MINIMUM_RUNS = 3
"""Minimum number of runs per result for an interval. Two runs would give only three different
resamples.
"""
SEED = 20_181_212
"""Random seed of the bootstrap. The seed is fixed, so that the same logs always produce the same
table.
"""
_DRAWS_AT_A_TIME = 1 << 20
"""Maximum number of random indices in memory at the same time."""
SAME_EPOCHS = 0.005
"""Maximum deviation from 1 at which the ratio of two numbers of epochs is described as
unchanged.
"""
MUCH_SETUP = 0.2
"""Fraction of the difference in time to target above which the setup time is mentioned next to a
speedup.
"""
NOTABLE_SETUP = 0.02
"""Fraction of the time to target below which a difference in setup time is not mentioned."""
SIGNIFICANCE = 0.05
"""Significance level. If the p value of a difference is below this level, the difference is larger
than the variation between runs.
"""
_ASSIGNMENTS = 100_000
"""Maximum number of assignments of runs to two results that are all evaluated.

If more assignments exist, this number of random assignments is evaluated.
"""


@dataclass(frozen=True)
class Interval:
    """Percentile bootstrap confidence interval of a ratio."""

    low: float
    high: float


@dataclass(frozen=True)
class Ratio:
    """Factors by which the result `after` is better than the result `before`.

    A factor below 1 means that `after` is worse.
    """

    before: Result
    after: Result
    total: float | None
    """Ratio of the times to target. None for runs of fixed length.

    If `throughput` and `efficiency` are not None, the ratio is exactly `throughput` × `efficiency`
    × `setup` (if not None) × the ratio of the two scaling factors (`scaling.json`).
    """
    throughput: float | None
    """Ratio of the times per epoch. For runs of fixed length, ratio of the samples per second."""
    efficiency: float | None
    """Statistical efficiency: ratio of the epochs to target."""
    setup: float | None = None
    """Factor by which setup and all other time outside of epochs change the speedup.

    None if the logs of at least one result do not contain the setup time.

    The factor is the ratio of (time to target / time in epochs) between the two results. The factor
    is 1 if both results spend the same fraction of their time in epochs.
    """
    intervals: tuple[Interval | None, Interval | None, Interval | None] = (None, None, None)
    """Confidence intervals of `total`, `throughput`, and `efficiency`."""
    no_interval: str = ""
    """Reason why the confidence intervals are missing. Empty if there are intervals."""

    @property
    def value(self) -> float | None:
        """Return the main ratio.

        The main ratio is the ratio of the times to target. If the results have no times to target,
        the main ratio is the ratio of the throughputs.
        """
        return self.total if self.total is not None else self.throughput

    @property
    def interval(self) -> Interval | None:
        """Return the confidence interval of the main ratio."""
        return self.intervals[0 if self.total is not None else 1]

    @property
    def interval_words(self) -> str:
        """Describe the confidence interval, as in `95 % interval 1.18 to 1.31`.

        The text is empty if there is no interval.
        """
        interval = self.interval
        if interval is None:
            return ""
        return (
            f"{100 * CONFIDENCE_LEVEL:g} % interval {ratio_text(interval.low)} to"
            f" {ratio_text(interval.high)}"
        )

    @property
    def setup_saving(self) -> float | None:
        """Return the fraction of the difference in time to target that setup explains.

        A fraction of 1 means that setup explains the whole difference. A fraction above 1 or below
        0 means that, without setup, the slower result would be the faster result. Returns None if
        the logs do not contain the setup time, or if the times to target are equal.
        """
        before, after = self.before.parts, self.after.parts
        if before is None or after is None or before.total == after.total:
            return None
        return (before.setup - after.setup) / (before.total - after.total)

    @property
    def setup_explains_much(self) -> bool:
        """Return whether setup explains more than 20 % of the difference in time to target."""
        before, after = self.before.parts, self.after.parts
        if before is None or after is None:
            return False
        difference = abs(before.setup - after.setup)
        minimum = max(
            MUCH_SETUP * abs(before.total - after.total),
            NOTABLE_SETUP * max(before.total, after.total),
        )
        return difference > minimum

    @property
    def rate(self) -> float | None:
        """Return the ratio of samples per second.

        The ratio is defined for runs with a target and for runs of fixed length.
        """
        return _over(self.after.samples_per_second, self.before.samples_per_second)

    @property
    def scaling_efficiency(self) -> float | None:
        """Return the throughput ratio divided by the ratio of devices. 1 is linear scaling."""
        if self.throughput is None or not self.before.devices or not self.after.devices:
            return None
        return self.throughput * float(self.before.devices / self.after.devices)

    @property
    def scaling(self) -> str:
        """Return the type of scaling from `before` to `after`.

        The types are `strong` (same global batch), `weak` (same batch per device), `mixed` (both
        batch sizes differ), and `unknown`.
        """
        batch_before, batch_after = self.before.global_batch_size, self.after.global_batch_size
        devices_before, devices_after = self.before.devices, self.after.devices
        if not (batch_before and batch_after and devices_before and devices_after):
            return "unknown"
        if self.before.batch_unit != self.after.batch_unit:
            return "unknown"
        if batch_before == batch_after:
            return "strong"
        return "weak" if batch_before * devices_after == batch_after * devices_before else "mixed"

    @property
    def places(self) -> str:
        """Return the device counts of `before` and `after`.

        Examples: `1 → 8`, or `1 × 1 → 2 × 4` (nodes × devices per node) if a result used several
        nodes.
        """
        several = max(self.before.nodes or 1, self.after.nodes or 1) > 1
        return " → ".join(
            placed_text(row.devices or 0, row.nodes, several) for row in (self.before, self.after)
        )

    @property
    def flags(self) -> tuple[str, ...]:
        """Return notes on different hyperparameters, different node counts, and too few runs."""
        differing = (
            settings_difference((self.before, self.after))
            .only((HYPERPARAMETERS,))
            .with_known_values()
        )
        flags = (
            [f"the hyperparameters differ: {'; '.join(differing.phrases())}"]
            if differing.columns
            else []
        )
        if (self.before.nodes or 1) != (self.after.nodes or 1):
            flags.append("the devices cross nodes, so the network between nodes counts")
        return (*flags, *([self.chance] if self.chance else []))

    @property
    def chance(self) -> str:
        """Return a note if there are too few runs to compare the epochs to target.

        The note is empty if there are enough runs or the epochs are equal.
        """
        if (
            self.scaling != "strong"
            or self.efficiency is None
            or abs(self.efficiency - 1) < SAME_EPOCHS
        ):
            return ""
        seeds = [{run.seed for run in row.runs} for row in (self.before, self.after)]
        few, many = sorted((len(self.before.runs), len(self.after.runs)))
        if not 0 < few < MINIMUM_RUNS or None in seeds[0] | seeds[1] or seeds[0] == seeds[1]:
            return ""
        counts = (
            f"{few} and {many} runs"
            if few != many
            else "single runs"
            if few == 1
            else f"{few} runs each"
        )
        return (
            f"epochs to target vary between seeds, so {counts} do not show whether more devices"
            " change them"
        )


def ratio_text(value: float) -> str:
    """Format a ratio: `15.8`, `1.76`, `0.63`."""
    return f"{value:.2g}" if value < 0.1 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def ratio(before: Result, after: Result, intervals: bool = True) -> Ratio:
    """Return the factors by which `after` is better than `before`.

    The caller must check that the two results are comparable.
    """
    total = throughput = efficiency = setup = None
    in_blocks = before.parts is not None and after.parts is not None
    if before.to_target and after.to_target:
        efficiency = _over(before.epochs, after.epochs)
        throughput = _over(
            _seconds_per_epoch(before, in_blocks), _seconds_per_epoch(after, in_blocks)
        )
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
        return Ratio(
            before, after, total, throughput, efficiency, setup, no_interval="not requested"
        )
    no_interval = _why_no_interval(before) or _why_no_interval(after)
    three_intervals = (None, None, None) if no_interval else _intervals(before, after, in_blocks)
    if not no_interval and three_intervals == (None, None, None):
        no_interval = "some numbers of the runs are out of range"
    return Ratio(before, after, total, throughput, efficiency, setup, three_intervals, no_interval)


def _seconds_per_epoch(result: Result, in_blocks: bool) -> float | None:
    """Return the time per epoch.

    The time excludes setup if `in_blocks` is True, which requires that the logs of both results
    contain the setup time.
    """
    return result.seconds_per_epoch if in_blocks else result.seconds_over_epochs


def _scaling_ratio(before: Result, after: Result) -> float:
    """Return the ratio of the results' scaling factors in `scaling.json`."""
    return (before.scaling_factor or 1.0) / (after.scaling_factor or 1.0)


def _over(above: float | None, below: float | None) -> float | None:
    return above / below if above and below else None


def place(row: Result) -> tuple[int, int]:
    """Return the number of devices and the number of nodes.

    If a log does not contain the number of nodes, the function returns one node.
    """
    return row.devices or 0, row.nodes or 1


def _why_no_interval(row: Result) -> str:
    """Return the reason why a confidence interval cannot be computed for a result.

    The string is empty if the result has enough runs.
    """
    where = f"on {devices_text(row.devices or 0, row.nodes)}"
    if row.single_figure:
        return f"no single runs are known {where}"
    if len(row.runs) < MINIMUM_RUNS:
        return f"too few runs {where}: {len(row.runs)}, and {MINIMUM_RUNS} are needed"
    if not row.to_target and not any(run.samples and run.train_seconds for run in row.runs):
        return f"no run {where} counted its samples"
    return ""


def _resampled(row: Result, side: int, in_blocks: bool) -> _Floats:
    """Return the means of bootstrap resamples, averaged in the same way as the score.

    Returns:
        Array (RESAMPLES, 3) with seconds, epochs, and seconds in epochs. Unknown values are NaN.
        For runs of fixed length, array (RESAMPLES, 2) with seconds and samples.
    """
    cached: dict[tuple[int, bool], _Floats] = row.__dict__.setdefault("_resampled", {})
    if (side, in_blocks) in cached:
        return cached[side, in_blocks]
    if row.to_target:
        rule = scoring_rule(row, row.runs_successful + row.runs_failed)
        runs, fast, slow, _ = counted_runs(row.runs, row.runs_failed, rule)
        values = np.array(
            sorted(
                (
                    run.seconds or 0.0,
                    run.epochs or 0.0,
                    (run.block_seconds if in_blocks else run.seconds) or 0.0,
                )
                for run in runs
            )
        )
        values[values == 0.0] = np.nan
    else:
        runs, fast, slow = [run for run in row.runs if run.samples and run.train_seconds], 0, 0
        values = np.array(sorted((run.samples, run.train_seconds) for run in runs))[:, ::-1]
    draws = _draws(len(runs), np.random.default_rng([SEED, side]))
    # The runs are sorted by seconds, so the fastest and slowest runs of a sorted resample are its
    # first and last runs.
    cached[side, in_blocks] = np.concatenate(
        [values[np.sort(drawn)[:, fast : len(runs) - slow]].mean(axis=1) for drawn in draws]
    )
    return cached[side, in_blocks]


def _draws(runs: int, random: np.random.Generator) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the indices of the resampled runs in arrays of shape (resamples, runs).

    Each array has a limited size. All arrays together have RESAMPLES rows.
    """
    left = RESAMPLES
    while left:
        count = min(left, max(1, _DRAWS_AT_A_TIME // runs))
        yield random.integers(runs, size=(count, runs))
        left -= count


def _intervals(
    before: Result, after: Result, in_blocks: bool
) -> tuple[Interval | None, Interval | None, Interval | None]:
    """Return the confidence intervals of total, throughput, and efficiency."""

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


def permutation_test(
    first: Sequence[float | None], second: Sequence[float | None]
) -> tuple[float, float] | None:
    """Return the p value of the difference of two means.

    The second return value is the smallest p value that is possible with this number of runs.

    The test is two-sided: p is twice the smaller one-sided p value. If both samples come from the
    same distribution, every assignment of the runs to the samples is equally likely (Ernst,
    Permutation Methods, Statistical Science 19 (2004), 676-685).

    Returns:
        The two p values, or None if a value is unknown or a sample has fewer than two values.
    """
    if None in (*first, *second) or min(len(first), len(second)) < 2:
        return None
    values = [
        [float(f"{value:.9g}") for value in sample] for sample in (first, second)
    ]  # times in published tables are rounded
    if not all(map(math.isfinite, itertools.chain(*values))):
        return None
    from scipy import stats  # importing SciPy takes 0.5 s

    def sum_of_first(sample: Any, _: Any, axis: int) -> Any:
        return sample.sum(
            axis=axis
        )  # sum that increases with the difference of the means, with a small rounding error

    random = np.random.default_rng(SEED)
    options = {
        "vectorized": True,
        "n_resamples": _ASSIGNMENTS,
        "batch": 10_000,
        "random_state": random,
    }
    possible = min(math.comb(len(first) + len(second), len(first)), _ASSIGNMENTS + 1)
    return float(stats.permutation_test(values, sum_of_first, **options).pvalue), min(
        1.0, 2 / possible
    )
