"""Arrays of the host on a device, without waiting."""

from __future__ import annotations

import numpy as np
import torch

from workloads.api import Array


def upload(array: Array, device: torch.device) -> torch.Tensor:
    """An array on the device; on CUDA by way of pinned memory, without waiting.

    PyTorch keeps pinned blocks for reuse and gives none out again before the copy from it has been made, so the array's
    owner may overwrite it at once.
    """
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor
