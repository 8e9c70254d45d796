"""Base class of the all-reduce trainers, which fills, sums, and checks the buffers.

Only the sum is timed.
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

    Warm-up steps sum numbers that differ on every device, and every value of every sum is checked.
    Timed steps sum zeros, so the sum is also zero. The buffer is therefore not refilled or checked
    between timed steps. As in nccl-tests, timed steps run without pauses, and no process waits for
    a process that is still checking.
    """

    workload: AllReduce
    timed_by = "a clock on the host from the call until the devices are done"

    # -- for subclasses
    # -------------------------------------------------------------------------------------------

    @abstractmethod
    def fill(self, size: int, numbers: bool) -> None:
        """Create a buffer of `size` bytes on every local device and fill it.

        With `numbers`, the values differ between devices. Otherwise they are zeros.
        """

    @abstractmethod
    def reduce(self) -> None:
        """Sum the buffers (collective call).

        The all-reduce is the same as for gradients in training.
        """

    @abstractmethod
    def wrong(self, numbers: bool) -> int:
        """Return the number of wrong values in the sums on the local devices."""

    # -- Trainer
    # ----------------------------------------------------------------------------------------------

    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        """Run one all-reduce per item of `steps`."""
        count = 0
        for _ in steps:
            self.reduce()
            count += 1
        return TrainStats(count, float("nan"))

    def time_steps(
        self, steps: Iterable[list[Batch]], seconds: list[float]
    ) -> Iterator[list[Batch]]:
        """Yield the items, and append the time of each item's all-reduce to `seconds`."""
        return self.clocked(self._prepared(steps), seconds)

    def clocked(self, steps: Iterable[list[Batch]], seconds: list[float]) -> Iterator[list[Batch]]:
        """Yield the items, and append the duration of each item's work to `seconds`.

        The duration ends when the consumer has requested the next item and the devices are
        synchronized. The host's clock is used.
        """
        for item in steps:
            begin = time.perf_counter()
            yield item
            self.synchronize()
            seconds.append(time.perf_counter() - begin)

    def _prepared(self, steps: Iterable[list[Batch]]) -> Iterator[list[Batch]]:
        """Yield the items, with filled buffers before each item and checked sums after it.

        For all timed steps of a size, the zeros are filled and checked only once.
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
        """Do nothing, because the trainer has no state."""
