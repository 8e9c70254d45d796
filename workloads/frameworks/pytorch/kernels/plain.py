"""What the kernels that hash compute, by PyTorch's own operators."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from workloads.common import dropout
from workloads.common.randomness import GAMMA, MULTIPLIER_1, MULTIPLIER_2, stream


def hashed(keys: Tensor, positions: Tensor, label: str, width: int, rate: float) -> Tensor:
    """`workloads.common.dropout.multipliers_at` of int64 by the device's integers."""
    shape, begin = (1,) * (max(keys.ndim, positions.ndim) + 1), _signed(int(stream(0, f"dropout/{label}")))
    state, draws_of_each = torch.full(shape, begin, device=keys.device), width // dropout.DRAWS
    for coordinate in (keys[..., None], positions[..., None], torch.arange(draws_of_each, device=keys.device)):
        state = hash_step(state, coordinate)
    draws = state.view(torch.int16).to(torch.int32) & (dropout.RANGE - 1)
    return (draws >= dropout.threshold(rate)).float() * float(np.float32(1 / (1 - rate)))


def hash_step(state: Tensor, coordinate: Tensor) -> Tensor:
    """`randomness.bits` of one coordinate more; int64 wraps as uint64 does, but its shift keeps the sign."""
    state = state + (coordinate + 1) * _signed(GAMMA)
    for shift, multiplier in ((30, MULTIPLIER_1), (27, MULTIPLIER_2)):
        state = (state ^ shifted(state, shift)) * _signed(multiplier)
    return state ^ shifted(state, 31)


def shifted(state: Tensor, count: int) -> Tensor:
    """Logical shift to the right."""
    return (state >> count) & ((1 << (64 - count)) - 1)


def _signed(value: int) -> int:
    """The int64 with the bits of a uint64."""
    return value - (1 << 64) if value >= 1 << 63 else value
