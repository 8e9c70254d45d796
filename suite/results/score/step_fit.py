"""The time of a step over the batch: step = t0 + c·b, fitted by least squares, with the fit's error.

t0 is what a step takes whatever its batch (launches, update, exchange), c what each further sample takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


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
    ones = np.ones(len(times))
    (t0, c), *_ = np.linalg.lstsq(design, ones, rcond=None)
    left = ones - design @ (t0, c)
    errors: tuple[float | None, float | None] = (None, None)
    if len(times) > 2:
        covariance = np.linalg.inv(design.T @ design) * float(left @ left) / (len(times) - 2)
        errors = (math.sqrt(covariance[0, 0]), math.sqrt(covariance[1, 1]))
    return StepFit(float(t0), float(c), *errors, float(np.abs(left).max()))
