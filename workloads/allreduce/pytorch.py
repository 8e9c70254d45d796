"""All-reduces in PyTorch: `torch.distributed.all_reduce`, by NCCL on GPUs and gloo on CPU cores.

NCF sums its flat gradient by this very call; DistributedDataParallel gives its buckets to the same process group.
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
    """One buffer on one device, of which each step sums the first part."""

    def setup(self, weights: Iterable[tuple[str, Array]], warmup: bool = True) -> None:
        """Allocate; each size has warm-ups of its own."""
        self.open_device()
        kind = _TYPES[self.settings.precision]
        self.buffer = torch.zeros(self.workload.sizes[-1] // kind.itemsize, dtype=kind, device=self.device)
        mine, expected = contribution(self.worker.replica_ids[0]), self.workload.expected()
        self.mine, self.expected = (torch.from_numpy(one).to(self.device, kind) for one in (mine, expected))

    def fill(self, size: int, numbers: bool) -> None:
        """The first `size` bytes of the buffer."""
        self.part = self.buffer[: size // self.buffer.itemsize]
        rows = self.part.view(-1, PERIOD)
        if numbers:
            rows.copy_(self.mine)
        else:
            rows.zero_()

    def reduce(self) -> None:
        """In place."""
        dist.all_reduce(self.part)

    def wrong(self, numbers: bool) -> int:
        """Compared on the device."""
        return int((self.part.view(-1, PERIOD) != (self.expected if numbers else 0)).sum())

    def clocked(self, steps: Iterable[list[Batch]], seconds: list[float]) -> Iterator[list[Batch]]:
        """On CUDA by events on the stream."""
        if self.device.type == "cuda":
            return between_events(steps, seconds)
        return super().clocked(steps, seconds)
