"""Sequences with little padding in PyTorch: a row for each position that counts, padded only where that is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workloads.api import Array
from workloads.frameworks.pytorch.copies import upload


class _Padded(torch.autograd.Function):
    """x (R, w) to (N, w): rows at their places, zeros elsewhere. No two rows have one place, so gradients are only moved."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, places: Tensor, count: int) -> Tensor:
        ctx.save_for_backward(places)
        return x.new_zeros(count, x.shape[1]).index_copy_(0, places, x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (places,) = ctx.saved_tensors
        return gradient.index_select(0, places), None, None


class _Packed(torch.autograd.Function):
    """x (N, w) to (R, w): the rows at these places."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        ctx.count = len(x)
        return x.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        return gradient.new_zeros(ctx.count, gradient.shape[1]).index_copy_(0, places, gradient), None


MULTIPLE = 64
"""Numbers of rows are filled up to a multiple of this with positions of the padding, as long as there are some: shapes are then
few enough for oneDNN to keep what it prepared for each (0.4 ms a product of the demo's size, at most 1,024 products)."""


@dataclass(frozen=True)
class Rows:
    """R positions of B sequences that are padded to L: in each the first `lengths`, and few others."""

    sequences: int
    """B"""
    length: int
    """L"""
    sequence: Array
    """(R,) which sequence each row belongs to; on the host, as `position` is."""
    position: Array
    """(R,) and which place of it."""
    on_device: Tensor
    """(2, R) both on the device."""
    places: Tensor | None
    """(R,) places in a flattened (B, L), on the device; None: all."""
    mask: Tensor | None
    """(B, L) True where a position counts; None: everywhere."""

    @classmethod
    def of(cls, lengths: Array, length: int, device: torch.device) -> Rows:
        """From the lengths (B,) of sequences that are padded at their ends."""
        mask = np.arange(length) < lengths[:, None]
        chosen = mask.reshape(-1).copy()
        # Not of a sequence without any position that counts: what attends to nothing is no number.
        spare = np.flatnonzero(~mask & (lengths > 0)[:, None])
        chosen[spare[: -int(chosen.sum()) % MULTIPLE]] = True
        places = np.flatnonzero(chosen)
        sequence, position = np.divmod(places, length)
        on_device = upload(np.stack([sequence, position]), device)
        of_rows = None if chosen.all() else upload(places, device)
        counting = None if mask.all() else upload(mask, device)
        return cls(len(lengths), length, sequence, position, on_device, of_rows, counting)

    def packed(self, x: Tensor) -> Tensor:
        """(B, L, w) to (R, w)."""
        flat = x.reshape(-1, x.shape[-1])
        return flat if self.places is None else _Packed.apply(flat, self.places)

    def padded(self, x: Tensor) -> Tensor:
        """(R, w) to (B, L, w), zeros at padding."""
        if self.places is not None:
            x = _Padded.apply(x, self.places, self.sequences * self.length)
        return x.view(self.sequences, self.length, x.shape[-1])
