"""Dropout masks by hash in PyTorch: on the host through NumPy, on a GPU by the same hash there."""

from __future__ import annotations

import numpy as np
import torch

from workloads.api import Array
from workloads.common import dropout
from workloads.common.randomness import GAMMA, MULTIPLIER_1, MULTIPLIER_2, stream


def multipliers(keys: Array, label: str, positions: int, width: int, rate: float, device: torch.device) -> torch.Tensor:
    """`workloads.common.dropout.multipliers` on a device."""
    return multipliers_at(keys[None, :], np.arange(positions)[:, None], label, width, rate, device)


def multipliers_at(
    keys: Array, positions: Array, label: str, width: int, rate: float, device: torch.device
) -> torch.Tensor:
    """`workloads.common.dropout.multipliers_at` on a device."""
    if device.type == "cpu":
        return torch.from_numpy(dropout.multipliers_at(keys, positions, label, width, rate))
    return hashed(keys, positions, label, width, rate, device)


def hashed(keys: Array, positions: Array, label: str, width: int, rate: float, device: torch.device) -> torch.Tensor:
    """The same numbers by the device's integers."""
    samples, places = (
        torch.from_numpy(np.ascontiguousarray(one, np.int64)).to(device, non_blocking=True) for one in (keys, positions)
    )
    state = torch.full(
        (1,) * (max(samples.ndim, places.ndim) + 1), _signed(int(stream(0, f"dropout/{label}"))), device=device
    )
    for coordinate in (samples[..., None], places[..., None], torch.arange(width // dropout.DRAWS, device=device)):
        state = _mixed(state + (coordinate + 1) * _signed(GAMMA))
    draws = state.view(torch.int16).to(torch.int32) & (dropout.RANGE - 1)
    return (draws >= dropout.threshold(rate)).float() * float(np.float32(1 / (1 - rate)))


def _mixed(state: torch.Tensor) -> torch.Tensor:
    """SplitMix64's finaliser (workloads/common/randomness.py); int64 wraps as uint64 does, but its shift keeps the sign."""
    for shift, multiplier in ((30, MULTIPLIER_1), (27, MULTIPLIER_2)):
        state = (state ^ _shifted(state, shift)) * _signed(multiplier)
    return state ^ _shifted(state, 31)


def _shifted(state: torch.Tensor, count: int) -> torch.Tensor:
    """Logical shift to the right."""
    return (state >> count) & ((1 << (64 - count)) - 1)


def _signed(value: int) -> int:
    """The int64 with the bits of a uint64."""
    return value - (1 << 64) if value >= 1 << 63 else value
