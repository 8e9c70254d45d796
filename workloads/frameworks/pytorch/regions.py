"""ROIAlign over the levels of a pyramid, and non-maximum suppression, in PyTorch.

ROIAlign follows He et al. 2017 and the reference implementation of the paper: no half-pixel shift,
two samples in each direction of a bin, and regions that are at least one cell wide. torchvision's
operator computes ROIAlign. On a CPU, the time of torchvision's operator is proportional to the
number of outputs. For small feature maps, two matrix products take a quarter of the time of
torchvision's operator.
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
"""Number of samples in each direction of a bin."""
MAX_PRODUCT_CELLS = 1024
"""Maximum number of cells of a feature map that is pooled by matrix products on a CPU.
torchvision's operator pools larger feature maps.
"""


def suppress(boxes: Float32s, scores: Float32s, most_iou: float) -> Int64s:
    """Return the indices of the boxes (n, 4) that remain after non-maximum suppression.

    The indices are sorted by score, with the best box first. A box is dropped if a kept box with a
    better score overlaps it by more than `most_iou`.
    """
    kept = nms(torch.from_numpy(boxes), torch.from_numpy(scores), most_iou)
    return np.asarray(kept.numpy())


def pool(
    maps: Sequence[Tensor], strides: Sequence[int], boxes: Tensor, level: Tensor, side: int
) -> Tensor:
    """Return the pooled regions (B·R, C, side, side) of regions (B, R, 4) in pixels.

    `level` (B, R) is the index of each region's feature map (B, C, h, w). The computation uses at
    least fp32, because coordinates on a feature map need more precision than bf16 has.
    """
    if maps[0].is_cuda and kernels.usable():
        return PooledLevel.apply(boxes, level, strides, side, *maps)
    kind = torch.promote_types(maps[0].dtype, torch.float32)
    with torch.autocast(boxes.device.type, enabled=False):
        pooled = _pool(
            [level_map.to(kind) for level_map in maps], strides, boxes.to(kind), level, side
        )
    return pooled.to(maps[0].dtype)


class PooledLevel(torch.autograd.Function):
    """Autograd function of `pool` with a kernel that pools each region only on its level.

    Feature maps keep their data type. The kernel computes sums in fp32.
    """

    @staticmethod
    def forward(
        ctx: Any, boxes: Tensor, level: Tensor, strides: Sequence[int], side: int, *maps: Tensor
    ) -> Tensor:
        boxes, level = boxes.contiguous(), level.contiguous()
        ctx.save_for_backward(boxes, level)
        ctx.strides, ctx.shapes, ctx.dtype = (
            strides,
            [level_map.shape for level_map in maps],
            maps[0].dtype,
        )
        shape = (level.numel(), maps[0].shape[1], side, side)
        pooled = torch.empty(
            shape, dtype=ctx.dtype, device=boxes.device, memory_format=torch.channels_last
        )
        for number, (level_map, stride) in enumerate(zip(maps, strides, strict=True)):
            cells = level_map.contiguous(memory_format=torch.channels_last)
            kernels.pool(cells, number, stride, boxes, level, pooled, SAMPLES)
        return pooled

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        boxes, level = ctx.saved_tensors
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        slopes = []
        for number, (shape, stride) in enumerate(zip(ctx.shapes, ctx.strides, strict=True)):
            slope = torch.empty(
                shape, device=boxes.device, memory_format=torch.channels_last
            ).zero_()
            kernels.pool(slope, number, stride, boxes, level, gradient, SAMPLES, back=True)
            slopes.append(slope.to(ctx.dtype))
        return None, None, None, None, *slopes


def _pool(
    maps: Sequence[Tensor], strides: Sequence[int], boxes: Tensor, level: Tensor, side: int
) -> Tensor:
    if boxes.device.type == "cpu" and maps[0].shape[2] * maps[0].shape[3] <= MAX_PRODUCT_CELLS:
        return _pool_by_products(maps, strides, boxes, level, side)
    images = torch.arange(len(boxes), device=boxes.device, dtype=boxes.dtype).repeat_interleave(
        boxes.shape[1]
    )
    rows, of_level = torch.cat([images[:, None], boxes.flatten(0, 1)], 1), level.flatten()
    if boxes.device.type == "cpu":
        return _pool_by_level(maps, strides, rows, of_level, side)
    return _pool_on_device(maps, strides, rows, of_level, side)


def _pool_on_device(
    maps: Sequence[Tensor], strides: Sequence[int], rows: Tensor, level: Tensor, side: int
) -> Tensor:
    """Pool the regions on a GPU without a synchronization.

    The host does not know the number of regions per level. Each level therefore pools all regions,
    and the results of regions on other levels are replaced by 0.

    Every region keeps its coordinates on every level. If regions of other levels were moved to a
    common position instead, their zero gradients would all be added sequentially to the same few
    cells.
    """
    total = torch.zeros((), device=rows.device)
    for number, (level_map, stride) in enumerate(zip(maps, strides, strict=True)):
        here = (level == number)[:, None]
        pooled = roi_align(level_map, rows, side, 1 / stride, SAMPLES)
        total = total + torch.where(here[:, :, None, None], pooled, 0)
    return total


def _pool_by_level(
    maps: Sequence[Tensor], strides: Sequence[int], rows: Tensor, level: Tensor, side: int
) -> Tensor:
    """Pool the regions of each level separately, after sorting the regions by level.

    `rows` (N, 5) contains the image index and the box of each region.
    """
    order = level.argsort(stable=True)
    counts = torch.bincount(level, minlength=len(maps)).tolist()
    parts = torch.split(rows[order], counts)
    pooled = [
        roi_align(level_map, part, side, 1 / stride, SAMPLES)
        for level_map, part, stride in zip(maps, parts, strides, strict=True)
    ]
    return torch.cat(pooled)[order.argsort()]


def _pool_by_products(
    maps: Sequence[Tensor], strides: Sequence[int], boxes: Tensor, level: Tensor, side: int
) -> Tensor:
    """Pool the regions by matrix products: row weights · cells · column weights.

    In the feature maps of all other levels, the weights of a region are 0.
    """
    images, regions, channels = len(boxes), boxes.shape[1], maps[0].shape[1]
    total = None
    for number, (level_map, stride) in enumerate(zip(maps, strides, strict=True)):
        height, width = level_map.shape[2:]
        rows = _weights(boxes[..., 1], boxes[..., 3], stride, height, side)
        rows = rows * (level == number)[..., None, None]
        columns = _weights(boxes[..., 0], boxes[..., 2], stride, width, side)
        # The first product is (B, R·side, h) · (B, h, w·C). The second product is (side, w) · (w,
        # C) for each region and row of bins.
        lines = torch.bmm(
            rows.flatten(1, 2),
            level_map.permute(0, 2, 3, 1).reshape(images, height, width * channels),
        )
        bins = columns[:, :, None] @ lines.view(images, regions, side, width, channels)
        total = bins if total is None else total + bins
    assert total is not None, "no level"
    return total.flatten(0, 1).permute(0, 3, 1, 2)


def _weights(low: Tensor, high: Tensor, stride: int, cells: int, side: int) -> Tensor:
    """Return the weight (B, R, side, cells) of each cell along an axis, for each bin.

    The regions extend from `low` to `high` (B, R) in pixels. A sample that is more than one cell
    outside of the feature map has weight 0. A sample that is less than one cell outside of the
    feature map is moved to the map's edge.
    """
    start = low / stride
    size = (high / stride - start).clamp(min=1) / side
    steps = (torch.arange(side * SAMPLES, dtype=low.dtype) + 0.5) / SAMPLES
    at = start[..., None] + steps * size[..., None]
    inside = (at >= -1) & (at <= cells)
    distance = (at.clamp(0, cells - 1)[..., None] - torch.arange(cells, dtype=low.dtype)).abs()
    weight = (1 - distance).clamp(min=0) * inside[..., None]
    return weight.view(*low.shape, side, SAMPLES, cells).mean(-2)
