"""Dropout masks by hash in PyTorch: on the host through NumPy, on a GPU by the same hash there."""

from __future__ import annotations

import torch

from workloads.common import dropout
from workloads.frameworks.pytorch import kernels
from workloads.frameworks.pytorch.kernels.plain import hashed


def multipliers(keys: torch.Tensor, label: str, positions: int, width: int, rate: float) -> torch.Tensor:
    """`workloads.common.dropout.multipliers` where the keys are."""
    places = torch.arange(positions, device=keys.device)[:, None]
    return multipliers_at(keys[None, :], places, label, width, rate)


def multipliers_at(keys: torch.Tensor, positions: torch.Tensor, label: str, width: int, rate: float) -> torch.Tensor:
    """`workloads.common.dropout.multipliers_at` of int64 where the keys and positions are."""
    if keys.device.type == "cpu":
        return torch.from_numpy(dropout.multipliers_at(keys.numpy(), positions.numpy(), label, width, rate))
    return (kernels.draw if kernels.usable() else hashed)(keys, positions, label, width, rate)
