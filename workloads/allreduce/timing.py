"""What the trainers share: the order of filling, summing and looking, and which part of it is timed."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import NoReturn

from workloads.allreduce.workload import TIMED, WARMUPS, AllReduce
from workloads.api import Array, Arrays, Batch, Trainer, TrainStats


class TimedSums(Trainer):
    """A step is one all-reduce of a buffer that is filled before the clock and looked at after it.

    Warm-ups sum numbers that differ on every device, and every value of every sum is compared. Timed steps sum zeros, which
    stay zeros: so they follow each other without a pause, as nccl-tests' do, and no process waits for one that still looks.
    """

    workload: AllReduce
    timed_by = "a clock on the host from the call until the devices are done"

    # -- for subclasses -------------------------------------------------------------------------------------------

    @abstractmethod
    def fill(self, size: int, numbers: bool) -> None:
        """Make the buffer of `size` bytes on every local device: each device's numbers, or zeros."""

    @abstractmethod
    def reduce(self) -> None:
        """Collective: sum the buffers, by what sums gradients in training."""

    @abstractmethod
    def wrong(self, numbers: bool) -> int:
        """Values of the local buffers that are not what the sum must be."""

    # -- Trainer --------------------------------------------------------------------------------------------------

    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        """One all-reduce per item."""
        count = 0
        for _ in steps:
            self.reduce()
            count += 1
        return TrainStats(count, float("nan"))

    def time_steps(self, steps: Iterable[list[Batch]], seconds: list[float]) -> Iterator[list[Batch]]:
        """The items, each one's all-reduce timed."""
        return self.clocked(self._prepared(steps), seconds)

    def clocked(self, steps: Iterable[list[Batch]], seconds: list[float]) -> Iterator[list[Batch]]:
        """By the host's clock. The work of an item is what its consumer does before it asks for the next one."""
        for item in steps:
            begin = time.perf_counter()
            yield item
            self.synchronize()
            seconds.append(time.perf_counter() - begin)

    def _prepared(self, steps: Iterable[list[Batch]]) -> Iterator[list[Batch]]:
        """Buffers filled before each item, sums looked at after it; zeros once for all timed steps of a size."""
        for item in steps:
            size, number = (int(item[0].arrays[name][0]) for name in ("bytes", "number"))
            numbers = number < WARMUPS
            if number <= WARMUPS:
                self.fill(size, numbers)
                self.synchronize()
            yield item
            if (numbers or number == WARMUPS + TIMED - 1) and (count := self.wrong(numbers)):
                raise RuntimeError(
                    f"the sum of {size:,} bytes over {self.settings.devices} devices: {count:,} wrong values"
                )

    def forward(self, steps: Iterable[list[Batch]]) -> NoReturn:
        raise AssertionError("allreduce has no forward pass")

    def predict(self, batches: Iterable[list[Batch]]) -> NoReturn:
        raise AssertionError("allreduce evaluates nothing")

    def state_dict(self) -> dict[str, Array]:
        return {}

    def load_state_dict(self, state: Arrays) -> None:
        """Inverse of `state`."""
