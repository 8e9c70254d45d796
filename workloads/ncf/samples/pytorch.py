"""Training samples of NCF, generated on the device in PyTorch from a step's positions.

The samples are bit-identical to the samples that data.py generates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from workloads.frameworks.pytorch import kernels
from workloads.frameworks.pytorch.copies import upload
from workloads.frameworks.pytorch.kernels import plain
from workloads.frameworks.pytorch.kernels.plain import hash_step
from workloads.ncf.data import NCFData
from workloads.ncf.sampling import NEGATIVES_PER_POSITIVE
from workloads.ncf.sharding import SAMPLES_PER_POSITIVE

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Sampler:
    """Device copy of the arrays from which data.py generates samples on the host.

    For ML-20M, the copy needs 0.6 GB.
    """

    user: Tensor
    """User (P,) of each training positive, int32."""
    item: Tensor
    """Item (P,) of each training positive, int32."""
    bitmap: Tensor
    """Bitmap (users · row_bytes,) of each user's training positives, uint8."""
    row_bytes: int
    items_total: int
    left: int
    """Number of values of the left digit of the permutation (randomness.Permutation)."""
    right: int
    """Number of values of the right digit of the permutation (randomness.Permutation)."""

    @classmethod
    def of(cls, data: NCFData, device: torch.device) -> Sampler:
        """Copy the arrays of `data` to the device."""
        positives, order = data.positives(), data.order(0)
        user, item, bitmap = (
            upload(np.array(array), device)
            for array in (data.train_user, data.train_item, positives.bitmap)
        )
        return cls(
            user,
            item,
            bitmap,
            positives.row_bytes,
            positives.items_total,
            order.left_size,
            order.right_size,
        )

    def __call__(self, order: Tensor, draw: Tensor, count: int) -> Tensors:
        """Return `user` and `item` int64, `label` and `weight` float32, each (count,).

        `order` and `draw` are the arrays from `data.drawn_by_device`.
        """
        return (self.by_kernel if order.is_cuda and kernels.usable() else self.by_operators)(
            order, draw, count
        )

    def by_kernel(self, order: Tensor, draw: Tensor, count: int) -> Tensors:
        """Generate the samples with a single launch of a Triton kernel."""
        from workloads.frameworks.pytorch.kernels import triton_kernels

        samples = {
            name: torch.empty(count, dtype=torch.int64, device=order.device)
            for name in ("user", "item")
        }
        samples |= {name: torch.empty(count, device=order.device) for name in ("label", "weight")}
        sizes = (
            count,
            len(self.user) * SAMPLES_PER_POSITIVE,
            self.left,
            self.right,
            order.shape[1],
        )
        triton_kernels.rated[(-(-count // kernels.HASHES),)](
            order, draw, self.user, self.item, self.bitmap, *samples.values(), *sizes,
            self.items_total, self.row_bytes,
            ROUNDS=len(order), NEGATIVES=NEGATIVES_PER_POSITIVE, BLOCK=kernels.HASHES,
        )  # fmt: skip
        return samples

    def by_operators(self, order: Tensor, draw: Tensor, count: int) -> Tensors:
        """Generate the samples with PyTorch operators instead of a Triton kernel.

        The samples are the same as those of `by_kernel`. Each repeated draw waits for the device.
        """
        first, real, key = draw
        at = torch.arange(count, device=order.device)
        counts = at < real
        sample, size = (
            self._permuted(order, first + at * counts),
            len(self.user) * SAMPLES_PER_POSITIVE,
        )
        while (beyond := sample >= size).any():
            sample = torch.where(beyond, self._permuted(order, sample), sample)
        positive = sample // SAMPLES_PER_POSITIVE
        k = sample - positive * SAMPLES_PER_POSITIVE
        user, item = self.user[positive].long(), self.item[positive].long()
        number, rejected, attempt = (
            positive * NEGATIVES_PER_POSITIVE + k - 1,
            (k > 0) & counts,
            torch.zeros_like(key),
        )
        while rejected.any():
            random = hash_step(hash_step(key, attempt), number)
            item = torch.where(rejected, (plain.shifted(random, 32) * self.items_total) >> 32, item)
            rejected &= (self.bitmap[user * self.row_bytes + (item >> 3)] >> (item & 7)) & 1 > 0
            attempt += 1
        return {
            "user": user * counts,
            "item": item * counts,
            "label": ((k == 0) & counts).float(),
            "weight": counts.float(),
        }

    def _permuted(self, order: Tensor, x: Tensor) -> Tensor:
        """Apply all rounds of the permutation once."""
        left, right = x // self.right, x % self.right
        for number, table in enumerate(order.long()):
            if number % 2:
                right = (right + table[left]) % self.right
            else:
                left = (left + table[right]) % self.left
        return left * self.right + right
