"""Bootstrap confidence intervals over runs for the ratio of two scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from suite.results.score.measurement import Measurement
from suite.results.score.scores import TimedRun
from suite.results.text import devices_text

RESAMPLES = 10_000
"""Bootstrap resamples of the runs of each of the two measurements."""
CONFIDENCE_LEVEL = 0.95
MINIMUM_RUNS = 3
"""Single runs that each measurement needs for an interval; two give only three different resamples."""
SEED = 20_181_212
"""Fixed, so that the same logs always give the same table."""
_DRAWS_AT_A_TIME = 1 << 20
"""Indices drawn at a time, which bounds the memory."""
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """Percentile bootstrap interval of a ratio."""

    low: float
    high: float
    level: float = CONFIDENCE_LEVEL


@dataclass(frozen=True)
class _ResampledMeans:
    """Means of the resamples of one measurement, each (RESAMPLES,)."""

    seconds: _Floats | None
    epochs: _Floats | None
    samples_per_second: _Floats | None


@dataclass(frozen=True)
class RatioIntervals:
    """Intervals of a speedup and its two factors."""

    total: Interval | None = None
    throughput: Interval | None = None
    efficiency: Interval | None = None


class Bootstrap:
    """Resamples each measurement once as baseline and once as compared measurement, and caches the result."""

    def __init__(self) -> None:
        self._cache: dict[tuple[int, int], tuple[Measurement, _ResampledMeans]] = {}

    def intervals(self, before: Measurement, after: Measurement) -> tuple[str, RatioIntervals]:
        """(why there is no interval, intervals). The two are resampled independently; the order of runs changes nothing."""
        why = _why_no_interval(before) or _why_no_interval(after)
        if why:
            return why, RatioIntervals()
        with np.errstate(all="ignore"):  # a log may hold numbers whose sums overflow
            intervals = _ratio_intervals(self._resampled_means(before, 0), self._resampled_means(after, 1))
        in_range = intervals.total or intervals.throughput
        return "" if in_range else "the runs hold numbers out of range", intervals

    def _resampled_means(self, item: Measurement, side: int) -> _ResampledMeans:
        key = (id(item), side)
        if key not in self._cache:
            self._cache[key] = (item, _resample(item, np.random.default_rng([SEED, side])))
        return self._cache[key][1]


def scored_runs(item: Measurement) -> tuple[list[TimedRun], int, int] | None:
    """(runs that the score is the mean of, how many of the fastest and of the slowest it drops), by the score's own rule.

    None if the runs do not reproduce the score: no single runs are known, or another rule made it.
    """
    runs = sorted(item.runs, key=lambda run: (run.start_ms, run.seconds))
    kept = item.score.runs_retained
    if item.score.method == "plain mean":
        fast, slow = 0, 0
    else:
        fast, slow = (1, 0) if kept == len(runs) - 1 and item.score.runs_failed else (1, 1)
    runs = runs[: kept + fast + slow]  # NCF: of the successful runs the first 50 by start
    if len(runs) != kept + fast + slow or not runs or item.score.seconds is None:
        return None
    mean = math.fsum(sorted(run.seconds for run in runs)[fast : len(runs) - slow]) / kept
    return (runs, fast, slow) if math.isclose(mean, item.score.seconds, rel_tol=1e-5) else None


def _why_no_interval(item: Measurement) -> str:
    """Why the runs of `item` are not enough for an interval; empty if they are."""
    if not item.runs:
        return f"no single runs are known on {devices_text(item.devices, item.nodes)}"
    if len(item.runs) < MINIMUM_RUNS:
        return (
            f"too few runs on {devices_text(item.devices, item.nodes)}: {len(item.runs)}, and {MINIMUM_RUNS} are needed"
        )
    if any(run.seconds <= 0.0 for run in item.runs):
        return f"a run on {devices_text(item.devices, item.nodes)} took no time"
    if item.to_target and scored_runs(item) is None:
        return f"the score on {devices_text(item.devices, item.nodes)} does not come out of its single runs"
    if not item.to_target and not any(run.samples and run.train_seconds for run in item.runs):
        return f"no run on {devices_text(item.devices, item.nodes)} has its samples counted"
    return ""


def _resample(item: Measurement, random: np.random.Generator) -> _ResampledMeans:
    """Draw as many runs as there are, with replacement, RESAMPLES times, and take the score's own mean of each draw."""
    scored = scored_runs(item) if item.to_target else None
    if scored is None:
        return _ResampledMeans(None, None, _resampled_rates(item.runs, random))
    runs, fast, slow = scored
    runs = sorted(runs, key=lambda run: (run.seconds, run.epochs or 0.0))
    known = all(run.epochs for run in runs)
    values = np.array([(run.seconds, run.epochs or 0.0) for run in runs])
    means = [  # runs are in order of seconds, so sorted draws are too, and the fastest and slowest stand at the ends
        values[np.sort(drawn)[:, fast : len(runs) - slow]].mean(axis=1) for drawn in _drawn_indices(len(runs), random)
    ]
    seconds, epochs = np.concatenate(means).T
    return _ResampledMeans(seconds, epochs if known else None, None)


def _drawn_indices(runs: int, random: np.random.Generator) -> Iterator[npt.NDArray[np.int64]]:
    """Indices of drawn runs, (resamples, runs), in blocks of bounded size with RESAMPLES rows in all."""
    left = RESAMPLES
    while left:
        rows = min(left, max(1, _DRAWS_AT_A_TIME // runs))
        yield random.integers(runs, size=(rows, runs))
        left -= rows


def _resampled_rates(runs: Sequence[TimedRun], random: np.random.Generator) -> _Floats:
    """Samples per second of the resamples: all samples over all training seconds."""
    counted = np.array(sorted((run.samples, run.train_seconds) for run in runs if run.samples and run.train_seconds))
    sums = [counted[drawn].sum(axis=1) for drawn in _drawn_indices(len(counted), random)]
    samples, seconds = np.concatenate(sums).T
    rates: _Floats = samples / seconds
    return rates


def _ratio_intervals(before: _ResampledMeans, after: _ResampledMeans) -> RatioIntervals:
    if before.samples_per_second is not None and after.samples_per_second is not None:
        return RatioIntervals(None, _interval(after.samples_per_second / before.samples_per_second), None)
    if before.seconds is None or after.seconds is None:
        return RatioIntervals(None, None, None)
    total = before.seconds / after.seconds
    if before.epochs is None or after.epochs is None:
        return RatioIntervals(_interval(total), None, None)
    efficiency = before.epochs / after.epochs
    return RatioIntervals(_interval(total), _interval(total / efficiency), _interval(efficiency))


def _interval(ratios: _Floats) -> Interval | None:
    if not np.isfinite(ratios).all():
        return None
    low, high = np.quantile(ratios, [(1 - CONFIDENCE_LEVEL) / 2, (1 + CONFIDENCE_LEVEL) / 2])
    return Interval(float(low), float(high))
