"""Latency and bandwidth of a link from times of all-reduces: t = 2 (n - 1) · alpha + 2 (n - 1) / n · S / B.

A ring over n devices makes 2 (n - 1) steps, in each of which every device sends a part S / n of the S bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from suite.results.logs.all_reduce import AllReduce
from suite.results.score.step_fit import fit_steps


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


def fit_link(measured: Iterable[AllReduce]) -> LinkFit | None:
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
        slope = _through_zero(points)
        return LinkFit(0.0, line.t0_error, 1.0 / slope, error, _deviation(points, 0.0, slope))
    return LinkFit(line.t0, line.t0_error, bandwidth, error, line.largest_deviation)


def _through_zero(points: Sequence[tuple[float, float]]) -> float:
    ratios = [size / seconds for size, seconds in points]
    return math.fsum(ratios) / math.fsum(ratio**2 for ratio in ratios)


def _deviation(points: Sequence[tuple[float, float]], t0: float, c: float) -> float:
    return max(abs((t0 + c * size) / seconds - 1.0) for size, seconds in points)
