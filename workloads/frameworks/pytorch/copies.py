"""Arrays of the host on a device and back, with as few waits as there can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from workloads.api import Array


def upload(array: Array, device: torch.device) -> torch.Tensor:
    """An array on the device; on CUDA by way of pinned memory, without waiting.

    PyTorch keeps pinned blocks for reuse and gives none out again before the copy from it has been made, so the array's
    owner may overwrite it at once.
    """
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def download(*tensors: torch.Tensor) -> list[npt.NDArray[Any]]:
    """The tensors as arrays of the host, after one wait for all of them."""
    copies = [tensor.to("cpu", non_blocking=True) for tensor in tensors]
    if any(tensor.is_cuda for tensor in tensors):
        torch.cuda.current_stream().synchronize()
    return [copy.numpy() for copy in copies]
