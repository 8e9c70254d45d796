"""Linear least-squares fits of times, with standard errors. Deviations are relative.

- Step time as a function of the batch size: step = t0 + c·b. t0 is the fixed cost of a step (kernel
  launches, optimizer update, all-reduce). c is the time per sample.
- All-reduce time as a function of the message size: t = 2 (n - 1) · alpha + 2 (n - 1) / n · S / B.
  A ring all-reduce over n devices takes 2 (n - 1) ring steps. In each ring step, every device sends
  S / n of the S bytes.
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
    """Standard error of t0. None if only two batch sizes were measured, because the line then
    passes through both points.
    """
    c_error: float | None
    largest_deviation: float
    """Largest relative deviation of a measured step time from the fitted line."""

    def seconds(self, batch: float) -> float:
        """Return the fitted step time at a batch size."""
        return self.t0 + self.c * batch

    def rate(self, batch: float) -> float:
        """Return the fitted throughput in samples per second at a batch size."""
        return batch / self.seconds(batch)


def fit_steps(points: Sequence[tuple[float, float]]) -> StepFit | None:
    """Fit step times to pairs (samples per step, seconds).

    Returns None for fewer than two batch sizes. The fit minimizes relative deviations, so that
    steps of 10 ms and steps of 1 s have equal weight.
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
    """Latency and bandwidth of a link, with their standard errors.

    The standard errors are None if only two message sizes were measured, because the line then
    passes through both points.
    """

    alpha_seconds: float
    """Latency in seconds per ring step (alpha)."""
    alpha_error: float | None
    bytes_per_second: float
    """Bandwidth B in bytes per second: the rate at which a device sends data while it receives
    data at the same rate.
    """
    bandwidth_error: float | None
    largest_deviation: float
    """Largest relative deviation of a measured all-reduce time from the fitted line."""


def fit_link(measured: Iterable[AllReduceTime]) -> LinkFit | None:
    """Fit latency and bandwidth of a link to the times of all sizes and device counts.

    Returns None for fewer than two message sizes, or if larger messages do not take longer.
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
    if fit.t0 < 0.0:  # larger messages take longer per byte, so the latency cannot be determined
        slope = fit_through_zero(points)
        deviation = max(abs(slope * size / seconds - 1.0) for size, seconds in points)
        return LinkFit(0.0, fit.t0_error, 1.0 / slope, error, deviation)
    return LinkFit(fit.t0, fit.t0_error, bandwidth, error, fit.largest_deviation)


def fit_through_zero(points: Sequence[tuple[float, float]]) -> float:
    """Fit a line through the origin that minimizes the relative deviations.

    Args:
        points: Pairs (size, seconds).

    Returns:
        The slope of the line.
    """
    ratios = [size / seconds for size, seconds in points]
    return math.fsum(ratios) / math.fsum(ratio**2 for ratio in ratios)
