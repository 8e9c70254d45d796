"""Number of samples in an epoch, and the first step of each epoch."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class EpochSamples:
    """Number of samples in an epoch."""

    trained: int
    """Number of samples on which an epoch trains, in `Workload.batch_unit`. If samples are
    repeated to fill the last batch, the repetitions are not counted.
    """
    repeated: int = 0
    """Number of samples that are repeated within an epoch to fill its last batch."""
    left_out: int = 0
    """Number of samples in the data set on which an epoch does not train."""


def share_of_samples(samples: int, train_samples: int) -> float:
    """Return `samples` as a fraction of the training samples, rounded up to 6 decimals.

    Rounding up ensures that the rounded fraction exceeds every bound that the exact fraction
    exceeds.
    """
    return -(-samples * 10**6 // train_samples) / 10**6 if samples and train_samples else 0.0


def num_steps(samples: int, global_batch_size: int) -> int:
    """Return the number of batches for `samples`.

    The last batch may be smaller than the global batch size.
    """
    return math.ceil(samples / global_batch_size)


class EpochSchedule:
    """First step of each epoch.

    Steps and epochs are numbered from 0.
    """

    def __init__(self, steps_in_epoch: Callable[[int], int]) -> None:
        """Initialize the schedule.

        Args:
            steps_in_epoch: Function that returns the number of steps in an epoch. The argument is
                the number of the epoch, and the return value is at least 1. The function is called
                once per epoch.
        """
        self._steps_in_epoch = steps_in_epoch
        self._starts = [0]

    def start(self, epoch: int) -> int:
        """Return the first step of an epoch, which is the number of steps before the epoch."""
        while len(self._starts) <= epoch:
            steps = self._steps_in_epoch(len(self._starts) - 1)
            assert steps > 0, f"epoch {len(self._starts) - 1} has {steps} steps"
            self._starts.append(self._starts[-1] + steps)
        return self._starts[epoch]

    def epoch_of(self, step: int) -> int:
        """Return the epoch that contains a step."""
        while self._starts[-1] <= step:
            self.start(len(self._starts))
        return bisect.bisect_right(self._starts, step) - 1
