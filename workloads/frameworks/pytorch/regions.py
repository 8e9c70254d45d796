"""Regions of maps in PyTorch: pooling by bilinear samples (ROIAlign) over the levels of a pyramid, and suppression.

ROIAlign as He et al. 2017 and their reference have it: no half-pixel shift, two samples in each direction of a bin,
regions at least one cell wide. torchvision's operator computes it; on a CPU its time goes with the outputs, and for small
maps two matrix products take a quarter of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchvision.ops import nms, roi_align

from workloads.common.arrays import Float32s, Int64s
from workloads.frameworks.pytorch import kernels

SAMPLES = 2
"""In each direction of a bin."""
MAX_PRODUCT_CELLS = 1024
"""Maps of a level with more cells are left to torchvision's operator on a CPU."""


def suppress(boxes: Float32s, scores: Float32s, most_iou: float) -> Int64s:
    """Places of the boxes (n, 4) that no better kept one overlaps by more than `most_iou`, best first."""
    kept = nms(torch.from_numpy(boxes), torch.from_numpy(scores), most_iou)
    return np.asarray(kept.numpy())


def pool(maps: Sequence[Tensor], strides: Sequence[int], boxes: Tensor, level: Tensor, side: int) -> Tensor:
    """(B·R, C, side, side) of regions (B, R, 4) in pixels, each from the map (B, C, h, w) that `level` (B, R) names.

    Computed in fp32 at least, whatever the maps' type: a place on a map needs more digits than bf16 has.
    """
    if maps[0].is_cuda and kernels.usable():
        return OwnLevel.apply(boxes, level, strides, side, *maps)
    kind = torch.promote_types(maps[0].dtype, torch.float32)
    with torch.autocast(boxes.device.type, enabled=False):
        pooled = _pool([one.to(kind) for one in maps], strides, boxes.to(kind), level, side)
    return pooled.to(maps[0].dtype)


class OwnLevel(torch.autograd.Function):
    """`pool` by a kernel that visits each region on its own level alone; maps stay as they are, sums are fp32."""

    @staticmethod
    def forward(ctx: Any, boxes: Tensor, level: Tensor, strides: Sequence[int], side: int, *maps: Tensor) -> Tensor:
        boxes, level = boxes.contiguous(), level.contiguous()
        ctx.save_for_backward(boxes, level)
        ctx.strides, ctx.shapes, ctx.dtype = strides, [one.shape for one in maps], maps[0].dtype
        shape = (level.numel(), maps[0].shape[1], side, side)
        pooled = torch.empty(shape, dtype=ctx.dtype, device=boxes.device, memory_format=torch.channels_last)
        for number, (one, stride) in enumerate(zip(maps, strides, strict=True)):
            cells = one.contiguous(memory_format=torch.channels_last)
            kernels.pool(cells, number, stride, boxes, level, pooled, SAMPLES)
        return pooled

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        boxes, level = ctx.saved_tensors
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        slopes = []
        for number, (shape, stride) in enumerate(zip(ctx.shapes, ctx.strides, strict=True)):
            slope = torch.empty(shape, device=boxes.device, memory_format=torch.channels_last).zero_()
            kernels.pool(slope, number, stride, boxes, level, gradient, SAMPLES, back=True)
            slopes.append(slope.to(ctx.dtype))
        return None, None, None, None, *slopes


def _pool(maps: Sequence[Tensor], strides: Sequence[int], boxes: Tensor, level: Tensor, side: int) -> Tensor:
    if boxes.device.type == "cpu" and maps[0].shape[2] * maps[0].shape[3] <= MAX_PRODUCT_CELLS:
        return _pool_by_products(maps, strides, boxes, level, side)
    images = torch.arange(len(boxes), device=boxes.device, dtype=boxes.dtype).repeat_interleave(boxes.shape[1])
    rows, of_level = torch.cat([images[:, None], boxes.flatten(0, 1)], 1), level.flatten()
    if boxes.device.type == "cpu":
        return _pool_by_level(maps, strides, rows, of_level, side)
    return _pool_on_device(maps, strides, rows, of_level, side)


def _pool_on_device(maps: Sequence[Tensor], strides: Sequence[int], rows: Tensor, level: Tensor, side: int) -> Tensor:
    """The same where asking how many regions a level has means to wait: each level pools all; those of others count nothing.

    Each from its own place: at a common one the zeros of their gradients would all be added to the same few cells, one after
    the other.
    """
    total = torch.zeros((), device=rows.device)
    for number, (one, stride) in enumerate(zip(maps, strides, strict=True)):
        here = (level == number)[:, None]
        pooled = roi_align(one, rows, side, 1 / stride, SAMPLES)
        total = total + torch.where(here[:, :, None, None], pooled, 0)
    return total


def _pool_by_level(maps: Sequence[Tensor], strides: Sequence[int], rows: Tensor, level: Tensor, side: int) -> Tensor:
    """Regions (N, 5) with their images, sorted by level, each level pooled alone."""
    order = level.argsort(stable=True)
    counts = torch.bincount(level, minlength=len(maps)).tolist()
    parts = torch.split(rows[order], counts)
    pooled = [
        roi_align(one, part, side, 1 / stride, SAMPLES) for one, part, stride in zip(maps, parts, strides, strict=True)
    ]
    return torch.cat(pooled)[order.argsort()]


def _pool_by_products(
    maps: Sequence[Tensor], strides: Sequence[int], boxes: Tensor, level: Tensor, side: int
) -> Tensor:
    """A bin is a product of weights of rows, cells, and weights of columns; weights are 0 in the maps of other levels."""
    images, regions, channels = len(boxes), boxes.shape[1], maps[0].shape[1]
    total = None
    for number, (one, stride) in enumerate(zip(maps, strides, strict=True)):
        height, width = one.shape[2:]
        rows = _weights(boxes[..., 1], boxes[..., 3], stride, height, side)
        rows = rows * (level == number)[..., None, None]
        columns = _weights(boxes[..., 0], boxes[..., 2], stride, width, side)
        # (B, R·side, h) · (B, h, w·C), then of each region and row of bins (side, w) · (w, C).
        lines = torch.bmm(rows.flatten(1, 2), one.permute(0, 2, 3, 1).reshape(images, height, width * channels))
        bins = columns[:, :, None] @ lines.view(images, regions, side, width, channels)
        total = bins if total is None else total + bins
    assert total is not None, "no level"
    return total.flatten(0, 1).permute(0, 3, 1, 2)


def _weights(low: Tensor, high: Tensor, stride: int, cells: int, side: int) -> Tensor:
    """(B, R, side, cells) how much each cell of a line counts in each bin of regions from `low` to `high` (B, R), in pixels.

    A sample beyond a line's ends by more than a cell counts nothing; others take the nearest place on it.
    """
    start = low / stride
    size = (high / stride - start).clamp(min=1) / side
    steps = (torch.arange(side * SAMPLES, dtype=low.dtype) + 0.5) / SAMPLES
    at = start[..., None] + steps * size[..., None]
    inside = (at >= -1) & (at <= cells)
    distance = (at.clamp(0, cells - 1)[..., None] - torch.arange(cells, dtype=low.dtype)).abs()
    weight = (1 - distance).clamp(min=0) * inside[..., None]
    return weight.view(*low.shape, side, SAMPLES, cells).mean(-2)
