"""Time each step separately (`timing=steps`).

The statistics are the mean, the standard deviation, and quantiles of the step times. With PyTorch
on GPUs, the trainer records CUDA events on the stream of each device. In all other cases, the loop
waits for the devices after each step, so the host cannot prepare the next step in parallel. The log
names the method. Both methods exclude the time that a step waits for data.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

import numpy as np

from workloads.api import Batch, Json, Trainer, TrainStats

WAITS = "a wait after each step"
"""Text in the log that names the method without CUDA events."""

Compute = Callable[[Iterable[list[Batch]], int], TrainStats]


class StepTimes:
    """Times of the steps of a run, in seconds."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.how = ""

    def clear(self) -> None:
        """Discard the times of the warm-up steps."""
        self.seconds.clear()

    def timed(
        self, trainer: Trainer, compute: Compute, steps: Iterable[list[Batch]], first_step: int
    ) -> TrainStats:
        """Run `compute(steps, first_step)`, and append the time of each step to `seconds`.

        Args:
            trainer: The trainer. Its method `marked` records the times if the devices support
                events.
            compute: Function that runs steps, and returns when the devices have finished.
            steps: The batches of each step.
            first_step: Number of the first step.

        Returns:
            The return value of `compute` for all steps.
        """
        marked = trainer.time_steps(steps, self.seconds)
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
        """Return the number of steps, and statistics of the step times in ms.

        The statistics are the mean, the sample standard deviation, the median, and two percentiles.
        The standard deviation is None if there is only one step.
        """
        values = np.asarray(self.seconds) * 1e3
        median, p90, p99 = np.quantile(values, [0.5, 0.9, 0.99])
        deviation = values.std(ddof=1) if len(values) > 1 else None  # JSON cannot represent NaN
        named = {
            "mean_ms": values.mean(),
            "sd_ms": deviation,
            "median_ms": median,
            "p90_ms": p90,
            "p99_ms": p99,
        }
        return {
            "count": len(values),
            **{
                name: None if value is None else round(float(value), 6)
                for name, value in named.items()
            },
            "how": self.how,
        }
