"""All-reduce benchmark in PyTorch.

The benchmark calls `torch.distributed.all_reduce` with NCCL on GPUs and with gloo on CPU cores. The
NCF trainer sums its flat gradient with the same call. DistributedDataParallel sums its gradient
buckets in the same process group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
import torch.distributed as dist

from workloads.allreduce.timing import TimedSums
from workloads.allreduce.workload import PERIOD, contribution
from workloads.api import Array, Batch
from workloads.frameworks.pytorch.trainer import PyTorchTrainer, between_events

_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class AllReduceTrainer(TimedSums, PyTorchTrainer):
    """All-reduce of the first bytes of a buffer on each device."""

    def setup(self, weights: Iterable[tuple[str, Array]], warmup: bool = True) -> None:
        """Allocate the buffers.

        The warm-up steps are separate for each size.
        """
        self.open_device()
        kind = _TYPES[self.settings.precision]
        self.buffer = torch.zeros(
            self.workload.sizes[-1] // kind.itemsize, dtype=kind, device=self.device
        )
        mine, expected = contribution(self.worker.replica_ids[0]), self.workload.expected()
        self.mine, self.expected = (
            torch.from_numpy(period).to(self.device, kind) for period in (mine, expected)
        )

    def fill(self, size: int, numbers: bool) -> None:
        """Fill the first `size` bytes of the buffer."""
        self.part = self.buffer[: size // self.buffer.itemsize]
        rows = self.part.view(-1, PERIOD)
        if numbers:
            rows.copy_(self.mine)
        else:
            rows.zero_()

    def reduce(self) -> None:
        """Sum the filled bytes of the buffer in place."""
        dist.all_reduce(self.part)

    def wrong(self, numbers: bool) -> int:
        """Return the number of wrong values in the sums.

        The devices compare the values.
        """
        return int((self.part.view(-1, PERIOD) != (self.expected if numbers else 0)).sum())

    def clocked(self, steps: Iterable[list[Batch]], seconds: list[float]) -> Iterator[list[Batch]]:
        """Time the steps.

        On CUDA devices, the times are measured with events on the stream.
        """
        if self.device.type == "cuda":
            return between_events(steps, seconds)
        return super().clocked(steps, seconds)
