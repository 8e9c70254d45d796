"""Sequences with little padding in PyTorch.

Each valid position has a row. Only operations that require padding convert the rows to padded
sequences.
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
    """Autograd function that scatters x (R, w) to (N, w). The remaining rows are 0.

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
"""The number of rows is rounded up to a multiple of this number, by including padding positions if
available.

The rounded number of rows takes few values, so oneDNN caches its preparation of matrix products.
Without the cache, the preparation takes 0.4 ms per product of the demo's size. The cache has at
most 1,024 products.
"""


@dataclass(frozen=True)
class Rows:
    """R rows for the positions of B sequences that are padded to length L.

    The rows are the first `lengths` positions of each sequence, and a few padding positions.
    """

    sequences: int
    """Number of sequences, B."""
    length: int
    """Padded length of the sequences, L."""
    sequence: Array
    """Index of each row's sequence, (R,), on the host."""
    position: Array
    """Position of each row within its sequence, (R,), on the host."""
    on_device: Tensor
    """`sequence` and `position` stacked on the device, (2, R)."""
    places: Tensor | None
    """Indices (R,) of the rows in a flattened (B, L), on the device. None if every position has
    a row.
    """
    mask: Tensor | None
    """Mask of the valid positions, (B, L). None if all positions are valid."""

    @classmethod
    def of(cls, lengths: Array, length: int, device: torch.device) -> Rows:
        """Return the rows of sequences with lengths (B,) that are padded at their ends."""
        mask = np.arange(length) < lengths[:, None]
        chosen = mask.reshape(-1).copy()
        # Rows for padding are taken only from sequences with valid positions, because attention
        # over no valid positions is NaN.
        spare = np.flatnonzero(~mask & (lengths > 0)[:, None])
        chosen[spare[: -int(chosen.sum()) % MULTIPLE]] = True
        places = np.flatnonzero(chosen)
        sequence, position = np.divmod(places, length)
        on_device = upload(np.stack([sequence, position]), device)
        of_rows = None if chosen.all() else upload(places, device)
        counting = None if mask.all() else upload(mask, device)
        return cls(len(lengths), length, sequence, position, on_device, of_rows, counting)

    def packed(self, x: Tensor) -> Tensor:
        """Convert padded sequences (B, L, w) to rows (R, w)."""
        flat = x.reshape(-1, x.shape[-1])
        return flat if self.places is None else _Packed.apply(flat, self.places)

    def padded(self, x: Tensor) -> Tensor:
        """Convert rows (R, w) to padded sequences (B, L, w), with zeros as padding."""
        if self.places is not None:
            x = _Padded.apply(x, self.places, self.sequences * self.length)
        return x.view(self.sequences, self.length, x.shape[-1])
