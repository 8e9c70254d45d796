"""Base class of the all-reduce trainers.

The class fills the buffers, times their all-reduce, and checks the sums. Filling and checking are
not timed.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import NoReturn

from workloads.allreduce.workload import TIMED, WARMUPS, AllReduce
from workloads.api import Array, Arrays, Batch, Trainer, TrainStats


class TimedSums(Trainer):
    """Trainer whose steps are timed all-reduces of a buffer.

    In warm-up steps, the buffers contain numbers that differ between devices, and all values of the
    sums are checked. In timed steps, the buffers contain zeros, so the sum is zero again and the
    buffer need not be refilled or checked between steps. As in nccl-tests, timed steps run without
    pauses, so no process waits for another process that is still checking.
    """

    workload: AllReduce
    timed_by = "a clock on the host from the call until the devices are done"

    # -- for subclasses
    # -------------------------------------------------------------------------------------------

    @abstractmethod
    def fill(self, size: int, numbers: bool) -> None:
        """Create a buffer of `size` bytes on each local device and fill it.

        With `numbers`, the contents differ between devices. Otherwise the contents are zeros.
        """

    @abstractmethod
    def reduce(self) -> None:
        """Sum the buffers of all devices (collective call).

        The all-reduce is the same as for gradients in training.
        """

    @abstractmethod
    def wrong(self, numbers: bool) -> int:
        """Return the number of wrong values in the sums on the local devices."""

    # -- Trainer
    # ----------------------------------------------------------------------------------------------

    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        """Run one all-reduce for each step in `steps`."""
        count = 0
        for _ in steps:
            self.reduce()
            count += 1
        return TrainStats(count, float("nan"))

    def time_steps(
        self, steps: Iterable[list[Batch]], seconds: list[float]
    ) -> Iterator[list[Batch]]:
        """Yield the steps, and append the time of each step's all-reduce to `seconds`."""
        return self.clocked(self._prepared(steps), seconds)

    def clocked(self, steps: Iterable[list[Batch]], seconds: list[float]) -> Iterator[list[Batch]]:
        """Yield the steps, and append the duration of each step to `seconds`.

        A step ends when the consumer has requested the next step and the devices are synchronized.
        The duration is measured with the host's clock.
        """
        for item in steps:
            begin = time.perf_counter()
            yield item
            self.synchronize()
            seconds.append(time.perf_counter() - begin)

    def _prepared(self, steps: Iterable[list[Batch]]) -> Iterator[list[Batch]]:
        """Yield the steps. Fill the buffers before each step, and check the sums after it.

        For the timed steps of a size, the zeros are filled and checked only once.
        """
        for item in steps:
            size, number = (int(item[0].arrays[name][0]) for name in ("bytes", "number"))
            numbers = number < WARMUPS
            if number <= WARMUPS:
                self.fill(size, numbers)
                self.synchronize()
            yield item
            if (numbers or number == WARMUPS + TIMED - 1) and (count := self.wrong(numbers)):
                raise RuntimeError(
                    f"all-reduce of {size:,} bytes over {self.settings.devices} devices: {count:,}"
                    " values are wrong"
                )

    def forward(self, steps: Iterable[list[Batch]]) -> NoReturn:
        raise AssertionError("allreduce has no forward pass")

    def predict(self, batches: Iterable[list[Batch]]) -> NoReturn:
        raise AssertionError("allreduce has no evaluation")

    def state_dict(self) -> dict[str, Array]:
        return {}

    def load_state_dict(self, state: Arrays) -> None:
        """Do nothing, because the trainer has no state to restore."""
