"""Lines through times, by least squares of relative deviations, with the fit's error.

Of a step over its batch, step = t0 + c·b: t0 is what a step takes whatever its batch (launches, update, exchange), c what each
further sample takes. Of all-reduces over their size, t = 2 (n - 1) · alpha + 2 (n - 1) / n · S / B: a ring over n devices makes
2 (n - 1) steps, in each of which every device sends a part S / n of the S bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from suite.results.logs.all_reduce import AllReduceTime


@dataclass(frozen=True)
class StepFit:
    """A line through times of steps, all in seconds."""

    t0: float
    c: float
    """Per sample."""
    t0_error: float | None
    """Standard error; None with two points, which every line fits."""
    c_error: float | None
    largest_deviation: float
    """Of a point from the line, over the point's time."""

    def seconds(self, batch: float) -> float:
        """Time of a step of this batch."""
        return self.t0 + self.c * batch

    def rate(self, batch: float) -> float:
        """Samples per second at this batch."""
        return batch / self.seconds(batch)


def fit_steps(points: Sequence[tuple[float, float]]) -> StepFit | None:
    """The line through (samples of a step, seconds); None for fewer than two batches.

    Each point counts by its relative deviation: a step of 10 ms says as much as one of 1 s.
    """
    batches = np.array([batch for batch, _ in points], dtype=np.float64)
    times = np.array([seconds for _, seconds in points], dtype=np.float64)
    if len(np.unique(batches)) < 2 or (times <= 0).any():
        return None
    design = np.stack([1 / times, batches / times], axis=1)
    if not np.isfinite(design).all():
        return None
    ones = np.ones(len(times))
    (t0, c), *_ = np.linalg.lstsq(design, ones, rcond=None)
    left = ones - design @ (t0, c)
    t0_error = c_error = None
    if len(times) > 2:
        covariance = np.linalg.pinv(design.T @ design) * float(left @ left) / (len(times) - 2)
        t0_error, c_error = map(math.sqrt, np.diag(covariance))
    return StepFit(float(t0), float(c), t0_error, c_error, float(np.abs(left).max()))


@dataclass(frozen=True)
class LinkFit:
    """Constants of a link with their standard errors (None with two sizes, which every line fits)."""

    alpha_seconds: float
    """Of one step of the ring."""
    alpha_error: float | None
    bytes_per_second: float
    """B: what one device sends while it receives as much."""
    bandwidth_error: float | None
    largest_deviation: float
    """Of a measured time from the line, over that time."""


def fit_link(measured: Iterable[AllReduceTime]) -> LinkFit | None:
    """Least squares of relative deviations over all sizes and device counts; None for fewer than two sizes, or where larger
    buffers take no longer."""
    points = [
        (one.size_bytes / sums.devices, one.median_seconds / (2 * (sums.devices - 1)))
        for sums in measured
        for one in sums.sizes
    ]
    line = fit_steps(points)
    if line is None or line.c <= 0.0:
        return None
    bandwidth = 1.0 / line.c
    error = None if line.c_error is None else bandwidth * line.c_error / line.c
    if line.t0 < 0.0:  # larger buffers take longer for each byte: no latency can be told
        slope = through_zero(points)
        deviation = max(abs(slope * size / seconds - 1.0) for size, seconds in points)
        return LinkFit(0.0, line.t0_error, 1.0 / slope, error, deviation)
    return LinkFit(line.t0, line.t0_error, bandwidth, error, line.largest_deviation)


def through_zero(points: Sequence[tuple[float, float]]) -> float:
    """Slope of the line through 0 that suits (size, seconds) best, each point counted by its relative deviation."""
    ratios = [size / seconds for size, seconds in points]
    return math.fsum(ratios) / math.fsum(ratio**2 for ratio in ratios)
