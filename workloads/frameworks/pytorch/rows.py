"""Sequences with little padding in PyTorch.

Each valid position has a row. The rows are converted to padded sequences only for operations that
require padding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workloads.api import Array
from workloads.frameworks.pytorch.copies import upload


class _Padded(torch.autograd.Function):
    """Autograd function that scatters x (R, w) to (N, w). All other rows are 0.

    The target positions are unique, so the backward pass only gathers gradients.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, places: Tensor, count: int) -> Tensor:
        ctx.save_for_backward(places)
        return x.new_zeros(count, x.shape[1]).index_copy_(0, places, x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (places,) = ctx.saved_tensors
        return gradient.index_select(0, places), None, None


class _Packed(torch.autograd.Function):
    """Autograd function that gathers the rows (R, w) at the given positions of x (N, w)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        ctx.count = len(x)
        return x.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        return gradient.new_zeros(ctx.count, gradient.shape[1]).index_copy_(
            0, places, gradient
        ), None


MULTIPLE = 64
"""Multiple to which the number of rows is rounded up. The additional rows are padding positions, if
available.

The rounded numbers of rows are few, so oneDNN caches its preparation of matrix products. Without
the cache, the preparation takes 0.4 ms per product in the demo. The cache has at most 1,024
products.
"""


@dataclass(frozen=True)
class Rows:
    """R rows for the positions of B sequences that are padded to length L.

    The rows are the first `lengths` positions of each sequence, and a few padding positions.
    """

    sequences: int
    """Number B of sequences."""
    length: int
    """Padded length L of the sequences."""
    sequence: Array
    """Index (R,) of each row's sequence, in host memory."""
    position: Array
    """Position (R,) of each row within its sequence, in host memory."""
    on_device: Tensor
    """`sequence` and `position`, stacked as a tensor (2, R) on the device."""
    places: Tensor | None
    """Indices (R,) of the rows in a flattened array (B, L), on the device. None if every
    position has a row.
    """
    mask: Tensor | None
    """Mask (B, L) of the valid positions. None if all positions are valid."""

    @classmethod
    def of(cls, lengths: Array, length: int, device: torch.device) -> Rows:
        """Return the rows of sequences with lengths (B,) that are padded at their ends."""
        mask = np.arange(length) < lengths[:, None]
        chosen = mask.reshape(-1).copy()
        # Only sequences with valid positions get rows for padding, because attention over no valid
        # positions is NaN.
        spare = np.flatnonzero(~mask & (lengths > 0)[:, None])
        chosen[spare[: -int(chosen.sum()) % MULTIPLE]] = True
        places = np.flatnonzero(chosen)
        sequence, position = np.divmod(places, length)
        on_device = upload(np.stack([sequence, position]), device)
        of_rows = None if chosen.all() else upload(places, device)
        counting = None if mask.all() else upload(mask, device)
        return cls(len(lengths), length, sequence, position, on_device, of_rows, counting)

    def packed(self, x: Tensor) -> Tensor:
        """Convert padded sequences (B, L, w) to rows (R, w) without most of the padding."""
        flat = x.reshape(-1, x.shape[-1])
        return flat if self.places is None else _Packed.apply(flat, self.places)

    def padded(self, x: Tensor) -> Tensor:
        """Convert rows (R, w) to padded sequences (B, L, w), with zeros as padding."""
        if self.places is not None:
            x = _Padded.apply(x, self.places, self.sequences * self.length)
        return x.view(self.sequences, self.length, x.shape[-1])
