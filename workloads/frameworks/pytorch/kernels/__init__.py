"""Kernels in Triton, each in place of many small ones or of a wait: dropout and samples by hash, suppression of boxes, pooling
of regions, targets of masks, smoothed cross-entropy.

They run on GPUs alone, where Triton can compile them (it calls gcc) and a first look finds that they give what their plain
forms give; elsewhere the plain forms do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from workloads.common import dropout
from workloads.common.randomness import stream
from workloads.frameworks.pytorch.kernels.plain import hashed

HASHES = 1_024
"""Of a program that draws masks."""
LOGITS = 4_096
"""Of a row, at a time."""
MAX_BOXES = 4_096
"""Of an image, in the registers of one program."""


def draw(keys: Tensor, positions: Tensor, label: str, width: int, rate: float) -> Tensor:
    """`workloads.common.dropout.multipliers_at` (…, width) of int64 on a GPU."""
    from workloads.frameworks.pytorch.kernels import triton_kernels

    keys, positions = (one.contiguous() for one in torch.broadcast_tensors(keys, positions))
    begin, each = _begin(label), width // dropout.DRAWS
    out = torch.empty((*keys.shape, width), dtype=torch.float32, device=keys.device)
    count, factor = keys.numel() * each, _factor(rate, torch.float32)
    if count:
        programs = (-(-count // HASHES),)
        values = (keys, positions, out, begin, dropout.threshold(rate), factor, count, each)
        triton_kernels.draw[programs](*values, BLOCK=HASHES)
    return out


@functools.cache
def _begin(label: str) -> int:
    """What the hashes of a mask begin with."""
    return int(np.uint64(stream(0, f"dropout/{label}")).astype(np.int64))


@functools.cache
def _factor(rate: float, dtype: torch.dtype) -> float:
    """What is kept is multiplied by, as a mask in this type has it."""
    return float(torch.tensor(np.float32(1 / (1 - rate))).to(dtype))


def drop(
    y: Tensor, added: Tensor | None, keys: Tensor, positions: Tensor, label: str, first: int,
    rate: float, dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    """`added` + y · mask, rows (R, width) of keys and positions (R,), in `dtype`; the mask is never in memory. It is that of
    `draw` from its value `first` on, and without `added` in y's type."""
    from workloads.frameworks.pytorch.kernels import triton_kernels

    y, (rows, width) = y.contiguous(), y.shape
    out, each = torch.empty_like(y, dtype=dtype), width // dropout.DRAWS
    factor = _factor(rate, y.dtype if added is None else torch.float32)
    if y.numel():
        arrays = (y, y if added is None else added.contiguous(), keys, positions, out)
        block = min(HASHES // 4, 1 << (each - 1).bit_length())
        triton_kernels.drop[(rows, -(-each // block))](
            *arrays,
            _begin(label),
            first // dropout.DRAWS,
            dropout.threshold(rate),
            factor,
            each,
            ADDED=added is not None,
            BLOCK=block,
            enable_fp_fusion=False,
        )
    return out


def suppress(boxes: Tensor, most_iou: float) -> Tensor:
    """(B, n) 1 or 0: which boxes (B, n, 4), best first, no better kept one overlaps by more. fp32, n ≤ BOXES_MOST."""
    from workloads.frameworks.pytorch.kernels import triton_kernels

    images, count = boxes.shape[:2]
    keeps = torch.empty((images, count), dtype=torch.float32, device=boxes.device)
    if keeps.numel():
        size = max(16, 1 << (count - 1).bit_length())
        triton_kernels.suppress[(images,)](boxes.contiguous(), keeps, count, most_iou, SIZE=size, num_warps=8)
    return keeps


def pool(
    cells: Tensor, number: int, stride: int, boxes: Tensor, levels: Tensor, pooled: Tensor,
    samples: int, back: bool = False,
) -> None:  # fmt: skip
    """ROIAlign of the regions (B, R, 4) whose `levels` (B, R) are `number`, on that level's map (B, C, h, w), to their places
    in `pooled` (B · R, C, side, side), both channels-last. `back`: what is there is added to the map's gradient, in fp32."""
    from workloads.frameworks.pytorch.kernels import region_kernels

    channels, side = pooled.shape[1:3]
    fixed = {"BACK": back, "SIDE": side, "SAMPLES": samples, "CHANNELS": 1 << (channels - 1).bit_length()}
    sizes = (number, stride, *cells.shape[2:], channels, boxes.shape[1])
    if len(pooled):
        region_kernels.pool[(len(pooled), side)](cells, boxes, levels, pooled, *sizes, **fixed)


def draw_masks(
    boxes: Tensor, labels: Tensor, owners: Tensor, objects: int, polygons: Sequence[Tensor], side: int
) -> Tensor:  # fmt: skip
    """(B, M, side, side) zeros and ones: what the positives among regions (B, R, 4), whose `labels` (B, R) are not 0, see of
    their objects, `owners` (B, M) among their images' so many. `polygons`: points (N, 2), ends of polygons, of objects."""
    from workloads.frameworks.pytorch.kernels import region_kernels

    masks = torch.empty((*owners.shape, side, side), dtype=torch.float32, device=boxes.device)
    if masks.numel():
        arrays = [one.contiguous() for one in (boxes, labels, owners, *polygons)]
        values = (*arrays, masks, boxes.shape[1], owners.shape[1], objects, side)
        size = 1 << (side - 1).bit_length()
        region_kernels.draw_masks[(owners.numel(),)](*values, SIZE=size, enable_fp_fusion=False)
    return masks


def entropy(logits: Tensor, labels: Tensor, on_label: float, on_mean: float, padding: int) -> tuple[Tensor, Tensor]:
    """Terms (R,) of `entropy.smoothed_entropy` of logits (R, V), V > 0, and what `entropy_gradient` needs of them, (R,)."""
    from workloads.frameworks.pytorch.kernels import triton_kernels

    logits, (rows, width) = logits.contiguous(), logits.shape
    terms, normal = (torch.empty(rows, dtype=torch.float32, device=logits.device) for _ in range(2))
    if rows:
        values = (logits, labels, terms, normal, on_label, on_mean, padding, width)
        triton_kernels.entropy[(rows,)](*values, BLOCK=LOGITS, num_warps=8)
    return terms, normal


def entropy_gradient(
    logits: Tensor, labels: Tensor, normal: Tensor, gradient: Tensor,
    on_label: float, on_mean: float, padding: int,
) -> Tensor:  # fmt: skip
    """Of the terms' sum, times `gradient`, float32 without axes: (R, V) in the logits' type."""
    from workloads.frameworks.pytorch.kernels import triton_kernels

    logits, (rows, width) = logits.contiguous(), logits.shape
    out = torch.empty_like(logits)
    if rows:
        values = (logits, labels, normal, gradient, out, on_label, on_mean, padding, width)
        triton_kernels.entropy_gradient[(rows, -(-width // LOGITS))](*values, BLOCK=LOGITS, num_warps=8)
    return out


off = False
"""Whether this run does without (`framework.kernels=off`)."""


def usable() -> bool:
    """Whether the kernels compile and agree with their plain forms on the present device; if not, the worker's log says why."""
    return not off and _all_agree()


@functools.cache
def _all_agree() -> bool:
    return agree(_masks_differ, _boxes_differ, _pools_differ, _entropies_differ)


def agree(*differences: Callable[[], Tensor]) -> bool:
    """Whether kernels compile, and none of these finds that one gives other values than its plain form."""
    try:
        if not torch.stack([differ() for differ in differences]).any():
            return True
        why = "they give other values than their plain forms"
    except Exception as error:  # whatever Triton, its compiler or the driver say: the plain forms are only slower
        why = f"{type(error).__name__}: {str(error).strip().splitlines()[-1:]}"
    print(f"Triton's kernels are not used: {why}", flush=True)
    return False


def _some() -> tuple[Tensor, Tensor]:
    """Keys (50, 1) and positions (50,) of hashes."""
    places = torch.arange(50, device="cuda")
    return places[:, None] * 7_919 + 3, places


def _masks_differ() -> Tensor:
    keys, places = _some()
    return (draw(keys, places, "x", 36, 0.1) != hashed(keys, places, "x", 36, 0.1)).any()


def _rectangles() -> Tensor:
    """(1, 600, 4) with corners below 128."""
    keys, places = _some()
    corners = (hashed(keys[:, 0], places, "y", 100, 0.5) * 20).view(1, -1, 2)[:, :600].cumsum(1) % 97
    return torch.cat([corners, corners + 1 + corners.flip(2) % 31], -1)


def _boxes_differ() -> Tensor:
    from torchvision.ops import nms

    boxes = _rectangles()
    better = torch.arange(boxes.shape[1], 0, -1, device="cuda", dtype=torch.float32)
    kept = torch.zeros_like(better)
    kept[nms(boxes[0], better, 0.5)] = 1
    return (kept != suppress(boxes, 0.5)[0]).any()


def _pools_differ() -> Tensor:
    """By more than rounding; two levels of two images."""
    from torchvision.ops import roi_align

    boxes, values = _rectangles().view(2, 300, 4), hashed(*_some(), "w", 100, 0.5).flatten()
    levels = (torch.arange(600, device="cuda", dtype=torch.int32) % 2).view(2, 300)
    rows = torch.cat([torch.arange(2.0, device="cuda").repeat_interleave(300)[:, None], boxes.flatten(0, 1)], 1)
    slope = values[: 600 * 20 * 9].view(600, 20, 3, 3).contiguous(memory_format=torch.channels_last)
    pooled, apart = torch.empty_like(slope), []
    for number, (stride, side) in enumerate(((8, 13), (16, 7))):
        cells = values[: 40 * side * side].view(2, 20, side, side).contiguous(memory_format=torch.channels_last)
        back = torch.zeros_like(cells)
        pool(cells, number, stride, boxes, levels, pooled, 2)
        pool(back, number, stride, boxes, levels, slope, 2, back=True)
        with torch.inference_mode(False), torch.enable_grad():
            leaf = cells.clone().requires_grad_()
            wanted = roi_align(leaf, rows.clone(), 3, 1 / stride, 2)[number::2]
            (steep,) = torch.autograd.grad(wanted, leaf, slope[number::2].clone())
        apart += [(pooled[number::2] - wanted).abs().max(), (back - steep).abs().max() / 600]
    return torch.stack(apart).max() > 1e-4


def _entropies_differ() -> Tensor:
    """By more than rounding."""
    keys, places = _some()
    logits = hashed(keys[:, 0], places, "z", 5_000, 0.5) * 3
    shares = (0.9, 0.1, 0)
    terms, normal = entropy(logits, places, *shares)
    steep = entropy_gradient(logits, places, normal, torch.ones_like(normal[0]), *shares)
    with torch.inference_mode(False), torch.enable_grad():
        leaf = logits.clone().requires_grad_()
        wanted = F.cross_entropy(leaf, places.clone(), ignore_index=0, reduction="sum", label_smoothing=0.1)
        (slope,) = torch.autograd.grad(wanted, leaf)
    return ((terms.sum() - wanted).abs() > 1e-4 * wanted) | ((steep - slope).abs() > 1e-5).any()
