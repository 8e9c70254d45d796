"""`timing=steps`: each step timed by itself, for mean, deviation and quantiles over steps.

A GPU that can note times on its own stream does (CUDA events, PyTorch). Elsewhere the loop waits for the devices after each
step, which keeps the host from working ahead: the log says which of the two. Waiting for data is in neither.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

import numpy as np

from workloads.api import Batch, Json, Trainer, TrainStats

WAITS = "a wait after each step"

Compute = Callable[[Iterable[list[Batch]], int], TrainStats]


class StepTimes:
    """Times of the steps of a run, in seconds."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.how = ""

    def clear(self) -> None:
        """Forget what was measured: those steps were to warm up."""
        self.seconds.clear()

    def timed(self, trainer: Trainer, compute: Compute, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        """`compute(steps, first_step)` with every step timed."""
        marked = trainer.marked(steps, self.seconds)
        if marked is not None:
            self.how = trainer.timed_by
            return compute(marked, first_step)
        self.how = WAITS
        losses = []
        for number, item in enumerate(steps, start=first_step):
            begin = time.perf_counter()
            losses.append(compute([item], number).loss)
            self.seconds.append(time.perf_counter() - begin)
        return TrainStats(len(losses), math.fsum(losses) / max(len(losses), 1))

    def statistics(self) -> dict[str, Json]:
        """Count, and in milliseconds mean, standard deviation (of a sample; None for one step), median and two percentiles."""
        values = np.asarray(self.seconds) * 1e3
        median, p90, p99 = np.quantile(values, [0.5, 0.9, 0.99])
        deviation = values.std(ddof=1) if len(values) > 1 else None  # NaN is no JSON
        named = {"mean_ms": values.mean(), "sd_ms": deviation, "median_ms": median, "p90_ms": p90, "p99_ms": p99}
        return {
            "count": len(values),
            **{name: None if value is None else round(float(value), 6) for name, value in named.items()},
            "how": self.how,
        }
