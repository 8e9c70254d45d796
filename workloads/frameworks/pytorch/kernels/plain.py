"""Plain implementations of the hash kernels with PyTorch operators."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from workloads.common import dropout
from workloads.common.randomness import GAMMA, MULTIPLIER_1, MULTIPLIER_2, stream


def hashed(keys: Tensor, positions: Tensor, label: str, width: int, rate: float) -> Tensor:
    """Compute `workloads.common.dropout.multipliers_at` for int64 keys.

    The function uses PyTorch's integer operators on the device of the keys.
    """
    shape, begin = (
        (1,) * (max(keys.ndim, positions.ndim) + 1),
        _signed(int(stream(0, f"dropout/{label}"))),
    )
    state, draws_of_each = torch.full(shape, begin, device=keys.device), width // dropout.DRAWS
    for coordinate in (
        keys[..., None],
        positions[..., None],
        torch.arange(draws_of_each, device=keys.device),
    ):
        state = hash_step(state, coordinate)
    draws = state.view(torch.int16).to(torch.int32) & (dropout.RANGE - 1)
    return (draws >= dropout.threshold(rate)).float() * float(np.float32(1 / (1 - rate)))


def hash_step(state: Tensor, coordinate: Tensor) -> Tensor:
    """Apply one step of the hash of `randomness.bits` for a coordinate.

    int64 products and sums overflow like uint64. The right shift of int64 keeps the sign, so the
    function uses `shifted` instead.
    """
    state = state + (coordinate + 1) * _signed(GAMMA)
    for shift, multiplier in ((30, MULTIPLIER_1), (27, MULTIPLIER_2)):
        state = (state ^ shifted(state, shift)) * _signed(multiplier)
    return state ^ shifted(state, 31)


def shifted(state: Tensor, count: int) -> Tensor:
    """Shift an int64 tensor right, with zeros as the new upper bits."""
    return (state >> count) & ((1 << (64 - count)) - 1)


def _signed(value: int) -> int:
    """Convert a uint64 to the int64 with the same bits."""
    return value - (1 << 64) if value >= 1 << 63 else value
