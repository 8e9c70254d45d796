"""A training step as a CUDA graph: its kernels are captured once, then the host launches them all at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from workloads.api import Batch
from workloads.frameworks.pytorch.copies import upload

Rate: TypeAlias = float | Tensor
"""A learning rate; a tensor without axes where it lies on the device, for a graph to read."""


class StepGraph:
    """The step of one shape; what changes from step to step is copied to where its kernels read it."""

    def __init__(self, step: Callable[[Batch, Rate], Tensor], batch: Batch, device: torch.device) -> None:
        """Captures the step of `batch` and runs nothing. A step like it must have run before: first uses allocate and wait."""
        self.arrays = {name: upload(array, device) for name, array in batch.arrays.items()}
        self.rate, self.graph = torch.zeros((), device=device), torch.cuda.CUDAGraph()
        on_device: Any = self.arrays
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):  # NCCL's watchdog asks events in its own
            self.loss = step(replace(batch, arrays=on_device), self.rate)

    def __call__(self, batch: Batch, rate: float) -> Tensor:
        """The loss of the step, which the next one overwrites."""
        for name, array in batch.arrays.items():
            self.arrays[name].copy_(torch.from_numpy(array).pin_memory(), non_blocking=True)
        self.rate.fill_(rate)
        self.graph.replay()
        return self.loss
