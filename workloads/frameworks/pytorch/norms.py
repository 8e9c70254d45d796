"""Batch norm in PyTorch.

A fused variant for GPUs includes the sum with a shortcut, and ReLU.

The shapes use these symbols: B images, C channels, h × w cells of a feature map. A channels-last
map (B, C, h, w) is a matrix of B · h · w rows.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROWS, CHANNELS = 64, 64
"""Numbers of rows and channels of the tile of a feature map that a Triton program keeps in
registers.
"""
PARTS = 512
"""Maximum number of chunks of rows. A Triton program sums a chunk for CHANNELS channels."""


class BatchNorm(nn.BatchNorm2d):
    """Batch norm that does not count batches.

    PyTorch's batch norm counts batches, although a batch norm with fixed momentum does not use the
    count. Counting would cost a kernel launch per layer on a GPU.
    """

    fused: ClassVar[bool] = False
    """Whether `activated` uses a fused kernel on GPUs for this class."""

    def __init__(self, channels: int, eps: float, momentum: float) -> None:
        super().__init__(channels, eps, momentum)
        self.num_batches_tracked = None


def activated(norm: nn.Module, x: Tensor, shortcut: Tensor | None = None) -> Tensor:
    """Normalize a map, add `shortcut` (if any), and return the ReLU of the sum."""
    if BatchNorm.fused and isinstance(norm, BatchNorm) and norm.training and x.is_cuda:
        return Fused.apply(
            x,
            norm.weight,
            norm.bias,
            shortcut,
            norm.running_mean,
            norm.running_var,
            norm.momentum,
            norm.eps,
        )
    out = norm(x)
    if shortcut is not None:
        out += shortcut
    return F.relu(out, inplace=True)


class Fused(torch.autograd.Function):
    """Fused version of `activated` in Triton kernels.

    The forward pass reads the feature map twice and writes it once.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, shortcut: Tensor | None,
        running_mean: Tensor, running_var: Tensor, momentum: float, epsilon: float,
    ) -> Tensor:  # fmt: skip
        from workloads.frameworks.pytorch.kernels import norm_kernels

        x = x.contiguous(memory_format=torch.channels_last)
        rows, channels, parts, each = _sizes(x)
        means, squares = x.new_empty((2, parts, channels), dtype=torch.float32)
        mean, scale = x.new_empty((2, channels), dtype=torch.float32)
        columns = -(-channels // CHANNELS)
        tile = {"ROWS": ROWS, "CHANNELS": CHANNELS}
        norm_kernels.statistics[(parts, columns)](x, means, squares, rows, channels, each, **tile)
        moved, sizes = (running_mean, running_var), (rows, channels, each, parts, momentum, epsilon)
        norm_kernels.joined[(-(-channels // 16),)](
            means, squares, mean, scale, *moved, *sizes, PARTS=PARTS, CHANNELS=16, num_warps=8
        )
        out, added = torch.empty_like(x), shortcut is not None
        if shortcut is not None:
            shortcut = shortcut.contiguous(memory_format=torch.channels_last)
        maps = (x, shortcut if added else x, out)
        grid = -(-rows // ROWS), columns
        norm_kernels.applied[grid](
            *maps, mean, scale, weight, bias, rows, channels, SUM=added, **tile
        )
        ctx.save_for_backward(x, out if added else x, mean, scale, weight, bias)
        ctx.added = added
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        from workloads.frameworks.pytorch.kernels import norm_kernels

        x, out, *of_channels = ctx.saved_tensors
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        rows, channels, parts, each = _sizes(x)
        passed = torch.empty_like(gradient) if ctx.added else gradient
        sums = x.new_empty((2, parts, channels), dtype=torch.float32)
        tile: dict[str, int] = {"SUM": ctx.added, "ROWS": ROWS, "CHANNELS": CHANNELS}
        columns = -(-channels // CHANNELS)
        values = (gradient, out, x, passed, sums, *of_channels, rows, channels, each)
        norm_kernels.slopes[(parts, columns)](*values, **tile)
        totals, back = sums.sum(1), torch.empty_like(x)
        values = (passed, x, back, totals, *of_channels, rows, channels)
        norm_kernels.returned[(-(-rows // ROWS), columns)](*values, **tile)
        return back, totals[1], totals[0], passed if ctx.added else None, None, None, None, None


def _sizes(x: Tensor) -> tuple[int, int, int, int]:
    """Return a map's number of rows and channels, and the number and size of row chunks."""
    rows, channels = x.numel() // x.shape[1], x.shape[1]
    each = max(-(-rows // PARTS), ROWS)
    return rows, channels, -(-rows // each), each
