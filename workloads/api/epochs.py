"""Epochs as steps: where each begins, whether all have the same number of steps or not."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable


def num_steps(samples: int, global_batch_size: int) -> int:
    """Steps that take `samples` in batches of `global_batch_size`; the last may be partial."""
    return math.ceil(samples / global_batch_size)


class EpochSchedule:
    """Counts from 0. The steps of an epoch are asked for once, when they are first needed."""

    def __init__(self, steps_in_epoch: Callable[[int], int]) -> None:
        """`steps_in_epoch`: number of an epoch, from 0, to its steps, at least 1."""
        self._steps_in_epoch = steps_in_epoch
        self._starts = [0]

    def start(self, epoch: int) -> int:
        """The first step of an epoch, which is the number of steps in all epochs before it."""
        while len(self._starts) <= epoch:
            steps = self._steps_in_epoch(len(self._starts) - 1)
            assert steps > 0, f"epoch {len(self._starts) - 1} has {steps} steps"
            self._starts.append(self._starts[-1] + steps)
        return self._starts[epoch]

    def epoch_of(self, step: int) -> int:
        """The epoch that a step belongs to."""
        while self._starts[-1] <= step:
            self.start(len(self._starts))
        return bisect.bisect_right(self._starts, step) - 1
