"""Hashed dropout in PyTorch.

On CPUs, NumPy computes the masks. On a GPU, the device computes the same hash, and most masks are
never stored in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from workloads.common import dropout
from workloads.frameworks.pytorch import kernels
from workloads.frameworks.pytorch.kernels.plain import hashed


def multipliers(keys: Tensor, label: str, positions: int, width: int, rate: float) -> Tensor:
    """Compute `workloads.common.dropout.multipliers` on the device of `keys`."""
    places = torch.arange(positions, device=keys.device)[:, None]
    return multipliers_at(keys[None, :], places, label, width, rate)


def multipliers_at(keys: Tensor, positions: Tensor, label: str, width: int, rate: float) -> Tensor:
    """Compute `workloads.common.dropout.multipliers_at` for int64 keys.

    The computation runs on the device of `keys` and `positions`.
    """
    if keys.device.type == "cpu":
        return torch.from_numpy(
            dropout.multipliers_at(keys.numpy(), positions.numpy(), label, width, rate)
        )
    return (kernels.draw if kernels.usable() else hashed)(keys, positions, label, width, rate)


@dataclass(frozen=True)
class Places:
    """Keys and positions of the rows of activations, which determine the dropout masks."""

    keys: Tensor
    """Key of each row, (R,) int64. `positions` has the same shape and data type."""
    positions: Tensor
    rate: float

    def dropped(self, y: Tensor, label: str, added: Tensor | None = None) -> Tensor:
        """Apply dropout to rows y (R, width) without changing their data type.

        With `added` (R, width), return the sum of `added` and the dropout result, at least in fp32.
        """
        if self.keys.is_cuda and kernels.usable():
            return self.by_kernel(y, label, added)
        mask = multipliers_at(self.keys, self.positions, label, y.shape[1], self.rate)
        return y * mask.to(y.dtype) if added is None else added + y * mask

    def by_kernel(
        self, y: Tensor, label: str, added: Tensor | None = None, first: int = 0
    ) -> Tensor:  # fmt: skip
        """Compute `dropped` on a GPU.

        The forward pass and the backward pass each launch one kernel.

        The first `first` factors of the mask are skipped.
        """
        return _Dropped.apply(y, added, self.keys, self.positions, label, first, self.rate)


class _Dropped(torch.autograd.Function):
    """Autograd function of `Places.by_kernel`. The backward pass computes the mask again."""

    @staticmethod
    def forward(
        ctx: Any, y: Tensor, added: Tensor | None, keys: Tensor, positions: Tensor, label: str,
        first: int, rate: float,
    ) -> Tensor:  # fmt: skip
        ctx.save_for_backward(keys, positions)
        ctx.drawn, ctx.types = (
            (label, first, rate),
            (y.dtype, None if added is None else added.dtype),
        )
        dtype = y.dtype if added is None else torch.promote_types(added.dtype, torch.float32)
        return kernels.drop(y, added, keys, positions, label, first, rate, dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (of_y, of_added), (keys, positions) = ctx.types, ctx.saved_tensors
        label, first, rate = ctx.drawn
        steep = kernels.drop(gradient, None, keys, positions, label, first, rate, of_y)
        return (
            steep,
            None if of_added is None else gradient.to(of_added),
            None,
            None,
            None,
            None,
            None,
        )
