"""Copies of arrays between host and device, with as few synchronizations as possible."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from workloads.api import Array, Batch


def pinned(batches: Iterable[list[Batch]], device: torch.device) -> Iterator[list[Batch]]:
    """Yield the batches with their arrays in pinned host memory.

    PyTorch reuses pinned memory only after all copies from it are complete.
    """
    # Without this call, the thread would create a CUDA context on the first GPU.
    torch.cuda.set_device(device)
    for step_batches in batches:
        yield [
            replace(
                batch, arrays={name: _pinned(array).numpy() for name, array in batch.arrays.items()}
            )
            for batch in step_batches
        ]


def upload(array: Array, device: torch.device) -> Tensor:
    """Copy an array to the device.

    On CUDA, the copy goes through pinned memory without synchronization.

    Arrays from `pinned` are already in pinned memory. PyTorch reuses a pinned block only after the
    copy from it is complete, so the caller may overwrite the array immediately.
    """
    if device.type == "cuda":
        return _pinned(array).to(device, non_blocking=True)
    return torch.from_numpy(np.ascontiguousarray(array))


def _pinned(array: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).pin_memory()


def download(*tensors: Tensor) -> list[npt.NDArray[Any]]:
    """Copy all tensors to the host with a single synchronization."""
    copies = [tensor.to("cpu", non_blocking=True) for tensor in tensors]
    if any(tensor.is_cuda for tensor in tensors):
        torch.cuda.current_stream().synchronize()
    return [copy.numpy() for copy in copies]
