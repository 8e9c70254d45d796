"""Kernels in Triton, each in place of many small ones or of a wait: dropout masks and samples by hash, suppression of boxes,
smoothed cross-entropy.

They run on GPUs alone, where Triton can compile them (it calls gcc) and a first look finds that they give what their plain
forms give; elsewhere the plain forms do.
"""

from __future__ import annotations

import functools

import numpy as np
import torch
import torch.nn.functional as F

from workloads.common import dropout
from workloads.common.randomness import stream
from workloads.frameworks.pytorch.kernels.plain import hashed

HASHES = 1_024
"""Of a program that draws masks."""
LOGITS = 4_096
"""Of a row, at a time."""
BOXES_MOST = 4_096
"""Of an image, in the registers of one program."""


def draw(keys: torch.Tensor, positions: torch.Tensor, label: str, width: int, rate: float) -> torch.Tensor:
    """`workloads.common.dropout.multipliers_at` (…, width) of int64 on a GPU."""
    from workloads.frameworks.pytorch.kernels import triton_kernels

    keys, positions = (one.contiguous() for one in torch.broadcast_tensors(keys, positions))
    begin, each = int(np.uint64(stream(0, f"dropout/{label}")).astype(np.int64)), width // dropout.DRAWS
    out = torch.empty((*keys.shape, width), dtype=torch.float32, device=keys.device)
    count, factor = keys.numel() * each, float(np.float32(1 / (1 - rate)))
    if count:
        programs = (-(-count // HASHES),)
        values = (keys, positions, out, begin, dropout.threshold(rate), factor, count, each)
        triton_kernels.draw[programs](*values, BLOCK=HASHES)
    return out


def suppress(boxes: torch.Tensor, most_iou: float) -> torch.Tensor:
    """(B, n) 1 or 0: which boxes (B, n, 4), best first, no better kept one overlaps by more. fp32, n ≤ BOXES_MOST."""
    from workloads.frameworks.pytorch.kernels import triton_kernels

    images, count = boxes.shape[:2]
    keeps = torch.empty((images, count), dtype=torch.float32, device=boxes.device)
    if keeps.numel():
        size = max(16, 1 << (count - 1).bit_length())
        triton_kernels.suppress[(images,)](boxes.contiguous(), keeps, count, most_iou, SIZE=size, num_warps=8)
    return keeps


def entropy(
    logits: torch.Tensor, labels: torch.Tensor, on_label: float, on_mean: float, padding: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Terms (R,) of `entropy.smoothed_entropy` of logits (R, V), V > 0, and what `entropy_gradient` needs of them, (R,)."""
    from workloads.frameworks.pytorch.kernels import triton_kernels

    logits, (rows, width) = logits.contiguous(), logits.shape
    terms, normal = (torch.empty(rows, dtype=torch.float32, device=logits.device) for _ in range(2))
    if rows:
        values = (logits, labels, terms, normal, on_label, on_mean, padding, width)
        triton_kernels.entropy[(rows,)](*values, BLOCK=LOGITS, num_warps=8)
    return terms, normal


def entropy_gradient(
    logits: torch.Tensor, labels: torch.Tensor, normal: torch.Tensor, gradient: torch.Tensor,
    on_label: float, on_mean: float, padding: int,
) -> torch.Tensor:  # fmt: skip
    """Of the terms' sum, times `gradient`, float32 without axes: (R, V) in the logits' type."""
    from workloads.frameworks.pytorch.kernels import triton_kernels

    logits, (rows, width) = logits.contiguous(), logits.shape
    out = torch.empty_like(logits)
    if rows:
        values = (logits, labels, normal, gradient, out, on_label, on_mean, padding, width)
        triton_kernels.entropy_gradient[(rows, -(-width // LOGITS))](*values, BLOCK=LOGITS, num_warps=8)
    return out


@functools.cache
def usable() -> bool:
    """Whether the kernels compile and agree with their plain forms on the present device; if not, the worker's log says why."""
    try:
        differ = _masks_differ() | _boxes_differ() | _entropies_differ()
        if not differ:
            return True
        why = "they give other values than their plain forms"
    except (
        Exception
    ) as error:  # whatever Triton, its compiler or the driver say: the plain forms are as good, and slower
        why = f"{type(error).__name__}: {str(error).strip().splitlines()[-1:]}"
    print(f"Triton's kernels are not used: {why}", flush=True)
    return False


def _some() -> tuple[torch.Tensor, torch.Tensor]:
    """Keys (50, 1) and positions (50,) of hashes."""
    places = torch.arange(50, device="cuda")
    return places[:, None] * 7_919 + 3, places


def _masks_differ() -> torch.Tensor:
    keys, places = _some()
    return (draw(keys, places, "x", 36, 0.1) != hashed(keys, places, "x", 36, 0.1)).any()


def _boxes_differ() -> torch.Tensor:
    from torchvision.ops import nms

    keys, places = _some()
    corners = (hashed(keys[:, 0], places, "y", 100, 0.5) * 20).view(1, -1, 2)[:, :600].cumsum(1) % 97
    boxes = torch.cat([corners, corners + 1 + corners.flip(2) % 31], -1)
    better = torch.arange(boxes.shape[1], 0, -1, device="cuda", dtype=torch.float32)
    kept = torch.zeros_like(better)
    kept[nms(boxes[0], better, 0.5)] = 1
    return (kept != suppress(boxes, 0.5)[0]).any()


def _entropies_differ() -> torch.Tensor:
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
