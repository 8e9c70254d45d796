"""Training step as a CUDA graph: the kernels are captured once and launched together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from workloads.api import Batch
from workloads.frameworks.pytorch.copies import upload

Rate: TypeAlias = float | Tensor
"""Learning rate. A tensor without axes is on the device, so that a CUDA graph can read it."""


class StepGraph:
    """CUDA graph of the training step for a single batch shape.

    Before each replay, the new batch and learning rate are copied into the input arrays of the
    graph.
    """

    def __init__(
        self, step: Callable[[Batch, Rate], Tensor], batch: Batch, device: torch.device
    ) -> None:
        """Capture the step of `batch` without running it.

        A step of the same shape must run before the capture, because the first step allocates
        memory and synchronizes.
        """
        self.arrays = {name: upload(array, device) for name, array in batch.arrays.items()}
        self.rate, self.graph = torch.zeros((), device=device), torch.cuda.CUDAGraph()
        on_device: Any = self.arrays
        # NCCL's watchdog queries CUDA events in a different thread. Such a query would invalidate a
        # capture in global mode.
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.loss = step(replace(batch, arrays=on_device), self.rate)

    def __call__(self, batch: Batch, rate: float) -> Tensor:
        """Run the step and return its loss. The next step overwrites the loss tensor."""
        for name, array in batch.arrays.items():
            self.arrays[name].copy_(torch.from_numpy(array).pin_memory(), non_blocking=True)
        self.rate.fill_(rate)
        self.graph.replay()
        return self.loss
