"""Samples of epochs, and the steps at which epochs begin."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class EpochSamples:
    """Size of an epoch."""

    trained: int
    """Samples that an epoch trains on, in `Workload.batch_unit`, without repeated samples that fill
    up a last batch.
    """
    repeated: int = 0
    """Samples of the data set that an epoch trains on a second time, to fill up its last batch."""
    left_out: int = 0
    """Samples of the data set that an epoch does not train on."""


def share_of_samples(samples: int, train_samples: int) -> float:
    """Return samples as a share of the training samples, rounded up to a millionth.

    Rounding up ensures that the result exceeds any bound that the exact share exceeds.
    """
    return -(-samples * 10**6 // train_samples) / 10**6 if samples and train_samples else 0.0


def num_steps(samples: int, global_batch_size: int) -> int:
    """Return the number of batches that cover `samples`. The last batch may be partial."""
    return math.ceil(samples / global_batch_size)


class EpochSchedule:
    """First step of each epoch. Steps and epochs count from 0."""

    def __init__(self, steps_in_epoch: Callable[[int], int]) -> None:
        """`steps_in_epoch` maps the number of an epoch to its number of steps, at least 1.

        It is called once per epoch.
        """
        self._steps_in_epoch = steps_in_epoch
        self._starts = [0]

    def start(self, epoch: int) -> int:
        """Return the first step of an epoch, which is the number of steps in all earlier epochs."""
        while len(self._starts) <= epoch:
            steps = self._steps_in_epoch(len(self._starts) - 1)
            assert steps > 0, f"epoch {len(self._starts) - 1} has {steps} steps"
            self._starts.append(self._starts[-1] + steps)
        return self._starts[epoch]

    def epoch_of(self, step: int) -> int:
        """Return the epoch of a step."""
        while self._starts[-1] <= step:
            self.start(len(self._starts))
        return bisect.bisect_right(self._starts, step) - 1
