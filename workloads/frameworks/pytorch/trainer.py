"""Base of every PyTorch trainer.

The trainer manages the process group, the device, collectives of small arrays, and loss checks.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from workloads.api import (
    Array,
    Arrays,
    Batch,
    Trainer,
    TrainStats,
    WorkerContext,
    Workload,
    check_finite,
)
from workloads.common.data.prefetch import Prefetch
from workloads.frameworks.pytorch import kernels, linear
from workloads.frameworks.pytorch.copies import pinned, upload
from workloads.frameworks.pytorch.gloo import deprioritize_gloo_thread
from workloads.frameworks.pytorch.store import rendezvous_store

CHECK_STEPS = 50
"""Number of steps between two checks of the loss. The loss is copied to the host asynchronously,
and the check reads the copy one interval later.
"""


class PyTorchTrainer(Trainer):
    """Base class of the PyTorch trainers. Each process uses a single device.

    Subclasses define `step` and `run_loss`. `ModelTrainer` implements both methods.
    """

    def __init__(self, workload: Workload, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        assert len(worker.replica_ids) == 1, "PyTorch drives one device per process"
        self.device = torch.device(worker.devices[0])
        if self.device.type == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = self.settings.precision == "tf32"
            torch.backends.cudnn.allow_tf32 = self.settings.precision == "tf32"
        else:
            torch.set_num_threads(worker.threads_per_device)
        linear.use_library(self.settings.linear_backend)
        kernels.off = self.settings.kernels == "off"
        if not dist.is_initialized():
            rank, processes = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
            address, port = (
                os.environ.get("MASTER_ADDR", "127.0.0.1"),
                int(os.environ["MASTER_PORT"]),
            )
            store = rendezvous_store(address, port, processes, rank == 0, dist.default_pg_timeout)
            with deprioritize_gloo_thread():
                backend = "cpu:gloo,cuda:nccl" if self.device.type == "cuda" else "gloo"
                dist.init_process_group(backend, store=store, rank=rank, world_size=processes)

    # -- for subclasses
    # -------------------------------------------------------------------------------------------

    def open_device(self) -> None:
        """Select the device, which creates the CUDA context of the process.

        `setup` calls this method before all other methods.
        """
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)

    def step(self, batch: Batch, learning_rate: float) -> Tensor:
        """Run an optimizer step and return this replica's share of the loss, a scalar.

        The share is the sum of the replica's loss terms / `global_weight_sum`.
        """
        raise NotImplementedError

    def run_loss(self, batch: Batch) -> Tensor:
        """Run a forward pass without an update, and return this replica's share of the loss."""
        raise NotImplementedError

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Return an autocast context for bf16 or fp16.

        With fp32 or TF32, the context has no effect.
        """
        narrow = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.settings.precision)
        context: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        return context if narrow is None else torch.autocast(self.device.type, narrow)

    def to_device(self, array: Array | Tensor) -> Tensor:
        """Copy a batch array to the device.

        A tensor is returned unchanged, because it is already on the device (`StepGraph`).
        """
        return array if isinstance(array, Tensor) else upload(array, self.device)

    # -- Trainer
    # ----------------------------------------------------------------------------------------------

    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        return self._run(
            self.step(batch, self.workload.learning_rate(number))
            for number, (batch,) in enumerate(steps, first_step)
        )

    @contextlib.contextmanager
    def prefetch_to_device(self, batches: Iterator[list[Batch]]) -> Iterator[Iterator[list[Batch]]]:
        """On CUDA, copy batches to pinned memory in a thread, one batch in advance.

        With pinned batches, `upload` needs no additional copy to pinned memory.
        """
        if self.device.type != "cuda":
            yield batches
            return
        with Prefetch(pinned(batches, self.device), depth=1) as ahead:
            yield ahead

    def time_steps(
        self, steps: Iterable[list[Batch]], seconds: list[float]
    ) -> Iterator[list[Batch]] | None:
        """Record a CUDA event on the stream before and after each step.

        The method returns None if the device is a CPU.
        """
        return between_events(steps, seconds) if self.device.type == "cuda" else None

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def forward(self, steps: Iterable[list[Batch]]) -> TrainStats:
        with torch.no_grad():
            return self._run(self.run_loss(batch) for (batch,) in steps)

    def _run(self, losses: Iterator[Tensor]) -> TrainStats:
        """Run all steps, and return the statistics of their losses.

        The host waits for the device only at the end and in the loss checks, which are delayed by
        one interval.
        """
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        host = torch.zeros((), dtype=torch.float64, pin_memory=self.device.type == "cuda")
        count = 0
        for count, loss in enumerate(losses, start=1):
            total += loss
            if count % CHECK_STEPS == 0:
                check_finite(float(host), count)
                host.copy_(total, non_blocking=True)
        # With a single process, an all-reduce would initialize NCCL within the timed section of the
        # run. With asynchronous updates, an all-reduce is not possible, because workers have run
        # different numbers of steps.
        if self.worker.world_size > 1 and self.exchange is None:
            dist.all_reduce(total)
        check_finite(float(total), count)
        return TrainStats(count, float(total) / max(count, 1))

    def gather(self, arrays: Arrays) -> list[Arrays] | None:
        if self.worker.world_size == 1:
            return [arrays]
        received: list[Any] | None = (
            [None] * self.worker.world_size if self.worker.rank == 0 else None
        )
        # Unpickling is safe, because only processes of this run send objects.
        dist.gather_object(dict(arrays), received, dst=0)
        return received

    def broadcast(self, value: float) -> float:
        if self.worker.world_size == 1:
            return value
        tensor = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.broadcast(tensor, src=0)
        return float(tensor)

    def memory_peak_bytes(self) -> int:
        """Return the peak size of CUDA memory, or the peak resident set size on CPUs."""
        if self.device.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self.device))
        return super().memory_peak_bytes()

    def close(self) -> None:
        if dist.is_initialized():
            dist.barrier()
            dist.destroy_process_group()


def between_events(steps: Iterable[list[Batch]], seconds: list[float]) -> Iterator[list[Batch]]:
    """Yield the batches of each step, and measure each step's time on the CUDA stream.

    A step includes all work that the consumer enqueues before it requests the batches of the next
    step.
    """
    events = []
    for item in steps:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        yield item
        end.record()
        events.append((begin, end))
    torch.cuda.synchronize()
    seconds += [begin.elapsed_time(end) / 1e3 for begin, end in events]
