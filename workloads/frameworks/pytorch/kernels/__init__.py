"""Triton kernels of the suite.

The kernels compute hashed dropout, training samples, box suppression, region pooling, mask targets,
and smoothed cross-entropy.

Each kernel replaces many small kernels or a synchronization. The kernels are used only on GPUs.
Triton must be able to compile the kernels (Triton calls gcc), and the results of the kernels must
agree with the plain implementations in a first test. In all other cases, the plain implementations
are used.
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
"""Number of hashes that a Triton program computes for masks."""
LOGITS = 4_096
"""Number of logits of a row that are processed together."""
MAX_BOXES = 4_096
"""Maximum number of boxes of an image. A Triton program keeps the boxes of an image in
registers.
"""


def draw(keys: Tensor, positions: Tensor, label: str, width: int, rate: float) -> Tensor:
    """Compute `workloads.common.dropout.multipliers_at` (…, width) on a GPU.

    `keys` and `positions` are int64.
    """
    from workloads.frameworks.pytorch.kernels import triton_kernels

    keys, positions = (array.contiguous() for array in torch.broadcast_tensors(keys, positions))
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
    """Return the initial hash value of the mask with this label."""
    return int(np.uint64(stream(0, f"dropout/{label}")).astype(np.int64))


@functools.cache
def _factor(rate: float, dtype: torch.dtype) -> float:
    """Return the factor of kept activations, rounded as in a mask of this data type."""
    return float(torch.tensor(np.float32(1 / (1 - rate))).to(dtype))


def drop(
    y: Tensor, added: Tensor | None, keys: Tensor, positions: Tensor, label: str, first: int,
    rate: float, dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    """Return `added` + y · mask in `dtype`, for rows y (R, width).

    The keys and positions (R,) of the rows determine the mask. The mask is never stored in memory.
    The mask consists of the factors of `draw`, without the first `first` factors. Without `added`,
    the factors are rounded to the data type of y.
    """
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
    """Return 1 for each box that remains after non-maximum suppression, else 0.

    The boxes are (B, n, 4), and the result is fp32 (B, n).

    The boxes must be sorted, with the best box first, and n is at most MAX_BOXES. A box is dropped
    if a kept box with a better score overlaps it by more than `most_iou`.
    """
    from workloads.frameworks.pytorch.kernels import triton_kernels

    images, count = boxes.shape[:2]
    keeps = torch.empty((images, count), dtype=torch.float32, device=boxes.device)
    if keeps.numel():
        size = max(16, 1 << (count - 1).bit_length())
        triton_kernels.suppress[(images,)](
            boxes.contiguous(), keeps, count, most_iou, SIZE=size, num_warps=8
        )
    return keeps


def pool(
    cells: Tensor, number: int, stride: int, boxes: Tensor, levels: Tensor, pooled: Tensor,
    samples: int, back: bool = False,
) -> None:  # fmt: skip
    """Compute ROIAlign for the regions of one level, and write the results to `pooled`.

    Args:
        cells: Feature map (B, C, h, w) of the level, channels-last. With `back`, the gradient of
            the feature map.
        number: Index of the level.
        stride: Number of pixels per cell.
        boxes: Regions (B, R, 4) in pixels.
        levels: Level of each region, (B, R).
        pooled: Pooled regions (B · R, C, side, side), channels-last. With `back`, the gradients of
            the pooled regions.
        samples: Number of samples in each direction of a bin.
        back: Whether to add the gradients in `pooled` to `cells`, in fp32.
    """
    from workloads.frameworks.pytorch.kernels import region_kernels

    channels, side = pooled.shape[1:3]
    fixed = {
        "BACK": back,
        "SIDE": side,
        "SAMPLES": samples,
        "CHANNELS": 1 << (channels - 1).bit_length(),
    }
    sizes = (number, stride, *cells.shape[2:], channels, boxes.shape[1])
    if len(pooled):
        region_kernels.pool[(len(pooled), side)](cells, boxes, levels, pooled, *sizes, **fixed)


def draw_masks(
    boxes: Tensor, labels: Tensor, owners: Tensor, objects: int, polygons: Sequence[Tensor],
    side: int
) -> Tensor:  # fmt: skip
    """Return the mask targets (B, M, side, side) of the positive regions, zeros and ones.

    Args:
        boxes: Regions (B, R, 4).
        labels: Labels (B, R). Positive regions have labels other than 0.
        owners: Object of each target (B, M), as an index within the image.
        objects: Maximum number of objects of an image.
        polygons: Vertices (N, 2), end offset of each polygon, and end offset of each object.
        side: Height and width of a mask.
    """
    from workloads.frameworks.pytorch.kernels import region_kernels

    masks = torch.empty((*owners.shape, side, side), dtype=torch.float32, device=boxes.device)
    if masks.numel():
        arrays = [array.contiguous() for array in (boxes, labels, owners, *polygons)]
        values = (*arrays, masks, boxes.shape[1], owners.shape[1], objects, side)
        size = 1 << (side - 1).bit_length()
        region_kernels.draw_masks[(owners.numel(),)](*values, SIZE=size, enable_fp_fusion=False)
    return masks


def entropy(
    logits: Tensor, labels: Tensor, on_label: float, on_mean: float, padding: int
) -> tuple[Tensor, Tensor]:
    """Return the loss of each row in `entropy.smoothed_entropy`.

    The logits have the shape (R, V) with V > 0. The first result (R,) is the losses. The second
    result (R,) is the argument `normal` of `entropy_gradient`.
    """
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
    """Return the gradient of the summed losses, (R, V) in the data type of the logits.

    The gradient is multiplied by `gradient`, a float32 tensor without axes.
    """
    from workloads.frameworks.pytorch.kernels import triton_kernels

    logits, (rows, width) = logits.contiguous(), logits.shape
    out = torch.empty_like(logits)
    if rows:
        values = (logits, labels, normal, gradient, out, on_label, on_mean, padding, width)
        triton_kernels.entropy_gradient[(rows, -(-width // LOGITS))](
            *values, BLOCK=LOGITS, num_warps=8
        )
    return out


off = False
"""True if this run disables the kernels (`framework.kernels=off`)."""


def usable() -> bool:
    """Check whether the kernels compile and agree with their plain implementations.

    The check runs on the current device.

    If the check fails, the reason is printed to the worker's output.
    """
    return not off and _all_agree()


@functools.cache
def _all_agree() -> bool:
    return agree(_masks_differ, _boxes_differ, _pools_differ, _entropies_differ)


def agree(*differences: Callable[[], Tensor]) -> bool:
    """Check whether the kernels compile and no function of `differences` returns True."""
    try:
        if not torch.stack([differ() for differ in differences]).any():
            return True
        why = "their results differ from the plain implementations"
    # An error of Triton, its compiler, or the driver does not stop the run. The run then uses the
    # plain implementations, which only take more time.
    except Exception as error:
        why = f"{type(error).__name__}: {str(error).strip().splitlines()[-1:]}"
    print(f"Triton kernels are disabled: {why}", flush=True)
    return False


def _some() -> tuple[Tensor, Tensor]:
    """Return keys (50, 1) and positions (50,) for a test of the hash kernels."""
    places = torch.arange(50, device="cuda")
    return places[:, None] * 7_919 + 3, places


def _masks_differ() -> Tensor:
    keys, places = _some()
    return (draw(keys, places, "x", 36, 0.1) != hashed(keys, places, "x", 36, 0.1)).any()


def _rectangles() -> Tensor:
    """Return boxes (1, 600, 4) with corner coordinates below 128 for a test."""
    keys, places = _some()
    corners = (hashed(keys[:, 0], places, "y", 100, 0.5) * 20).view(1, -1, 2)[:, :600].cumsum(
        1
    ) % 97
    return torch.cat([corners, corners + 1 + corners.flip(2) % 31], -1)


def _boxes_differ() -> Tensor:
    from torchvision.ops import nms

    boxes = _rectangles()
    better = torch.arange(boxes.shape[1], 0, -1, device="cuda", dtype=torch.float32)
    kept = torch.zeros_like(better)
    kept[nms(boxes[0], better, 0.5)] = 1
    return (kept != suppress(boxes, 0.5)[0]).any()


def _pools_differ() -> Tensor:
    """Return whether `pool` differs from torchvision by more than rounding errors.

    The check uses two pyramid levels of two images.
    """
    from torchvision.ops import roi_align

    boxes, values = _rectangles().view(2, 300, 4), hashed(*_some(), "w", 100, 0.5).flatten()
    levels = (torch.arange(600, device="cuda", dtype=torch.int32) % 2).view(2, 300)
    rows = torch.cat(
        [torch.arange(2.0, device="cuda").repeat_interleave(300)[:, None], boxes.flatten(0, 1)], 1
    )
    slope = values[: 600 * 20 * 9].view(600, 20, 3, 3).contiguous(memory_format=torch.channels_last)
    pooled, apart = torch.empty_like(slope), []
    for number, (stride, side) in enumerate(((8, 13), (16, 7))):
        cells = (
            values[: 40 * side * side]
            .view(2, 20, side, side)
            .contiguous(memory_format=torch.channels_last)
        )
        back = torch.zeros_like(cells)
        pool(cells, number, stride, boxes, levels, pooled, 2)
        pool(back, number, stride, boxes, levels, slope, 2, back=True)
        with torch.inference_mode(False), torch.enable_grad():
            leaf = cells.clone().requires_grad_()
            expected = roi_align(leaf, rows.clone(), 3, 1 / stride, 2)[number::2]
            (steep,) = torch.autograd.grad(expected, leaf, slope[number::2].clone())
        apart += [(pooled[number::2] - expected).abs().max(), (back - steep).abs().max() / 600]
    return torch.stack(apart).max() > 1e-4


def _entropies_differ() -> Tensor:
    """Return whether the entropy kernels differ from PyTorch by more than rounding errors."""
    keys, places = _some()
    logits = hashed(keys[:, 0], places, "z", 5_000, 0.5) * 3
    shares = (0.9, 0.1, 0)
    terms, normal = entropy(logits, places, *shares)
    steep = entropy_gradient(logits, places, normal, torch.ones_like(normal[0]), *shares)
    with torch.inference_mode(False), torch.enable_grad():
        leaf = logits.clone().requires_grad_()
        expected = F.cross_entropy(
            leaf, places.clone(), ignore_index=0, reduction="sum", label_smoothing=0.1
        )
        (slope,) = torch.autograd.grad(expected, leaf)
    return ((terms.sum() - expected).abs() > 1e-4 * expected) | ((steep - slope).abs() > 1e-5).any()
