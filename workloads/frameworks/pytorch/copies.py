"""Arrays of the host on a device and back, with as few waits as there can be."""

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
    """The batches with their arrays in pinned memory, which PyTorch keeps until the copies from it have been made."""
    torch.cuda.set_device(device)  # of this thread: else it would have a context on the first GPU
    for batch in batches:
        yield [
            replace(one, arrays={name: _pinned(array).numpy() for name, array in one.arrays.items()}) for one in batch
        ]


def upload(array: Array, device: torch.device) -> Tensor:
    """An array on the device; on CUDA by way of pinned memory, where `pinned` arrays are already, without waiting.

    PyTorch keeps pinned blocks for reuse and gives none out again before the copy from it has been made, so the array's
    owner may overwrite it at once.
    """
    if device.type == "cuda":
        return _pinned(array).to(device, non_blocking=True)
    return torch.from_numpy(np.ascontiguousarray(array))


def _pinned(array: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).pin_memory()


def download(*tensors: Tensor) -> list[npt.NDArray[Any]]:
    """The tensors as arrays of the host, after one wait for all of them."""
    copies = [tensor.to("cpu", non_blocking=True) for tensor in tensors]
    if any(tensor.is_cuda for tensor in tensors):
        torch.cuda.current_stream().synchronize()
    return [copy.numpy() for copy in copies]
