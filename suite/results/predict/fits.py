"""Linear fits of times by least squares of relative deviations, with standard errors.

- Step time over batch: step = t0 + c·b. t0 is the fixed cost of a step (launches, update,
  exchange). c is the time per sample.
- All-reduce time over size: t = 2 (n - 1) · alpha + 2 (n - 1) / n · S / B. A ring over n devices
  takes 2 (n - 1) steps. In each step, every device sends S / n of the S bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from suite.results.logs.all_reduce import AllReduceTime


@dataclass(frozen=True)
class StepFit:
    """Linear fit of step times, in seconds."""

    t0: float
    c: float
    """Seconds per sample."""
    t0_error: float | None
    """Standard error of t0. None with two points, because the fit is then exact."""
    c_error: float | None
    largest_deviation: float
    """Largest relative deviation of a measured time from the fit."""

    def seconds(self, batch: float) -> float:
        """Return the fitted step time with this batch."""
        return self.t0 + self.c * batch

    def rate(self, batch: float) -> float:
        """Return the fitted samples per second with this batch."""
        return batch / self.seconds(batch)


def fit_steps(points: Sequence[tuple[float, float]]) -> StepFit | None:
    """Fit step times to points of (samples per step, seconds).

    The function returns None for fewer than two batches. The fit minimizes relative deviations, so
    that steps of 10 ms and steps of 1 s have equal weight.
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
    residuals = ones - design @ (t0, c)
    t0_error = c_error = None
    if len(times) > 2:
        covariance = (
            np.linalg.pinv(design.T @ design) * float(residuals @ residuals) / (len(times) - 2)
        )
        t0_error, c_error = map(math.sqrt, np.diag(covariance))
    return StepFit(float(t0), float(c), t0_error, c_error, float(np.abs(residuals).max()))


@dataclass(frozen=True)
class LinkFit:
    """Constants of a link with their standard errors.

    The errors are None with two sizes, because the fit is then exact.
    """

    alpha_seconds: float
    """Latency in seconds of a step of the ring (alpha)."""
    alpha_error: float | None
    bytes_per_second: float
    """Bandwidth B: bytes that a device sends per second while receiving the same number."""
    bandwidth_error: float | None
    largest_deviation: float
    """Largest relative deviation of a measured time from the fit."""


def fit_link(measured: Iterable[AllReduceTime]) -> LinkFit | None:
    """Fit the constants of a link to the times of all sizes and device counts.

    The function returns None for fewer than two sizes, or if larger buffers do not take longer.
    """
    points = [
        (size.size_bytes / times.devices, size.median_seconds / (2 * (times.devices - 1)))
        for times in measured
        for size in times.sizes
    ]
    fit = fit_steps(points)
    if fit is None or fit.c <= 0.0:
        return None
    bandwidth = 1.0 / fit.c
    error = None if fit.c_error is None else bandwidth * fit.c_error / fit.c
    if fit.t0 < 0.0:  # Larger buffers take longer per byte, so the latency cannot be determined.
        slope = fit_through_zero(points)
        deviation = max(abs(slope * size / seconds - 1.0) for size, seconds in points)
        return LinkFit(0.0, fit.t0_error, 1.0 / slope, error, deviation)
    return LinkFit(fit.t0, fit.t0_error, bandwidth, error, fit.largest_deviation)


def fit_through_zero(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the line through 0 with the smallest relative deviations.

    The points are (size, seconds).
    """
    ratios = [size / seconds for size, seconds in points]
    return math.fsum(ratios) / math.fsum(ratio**2 for ratio in ratios)
