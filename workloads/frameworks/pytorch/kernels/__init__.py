"""Kernels in Triton, each in place of many small ones or of a wait: dropout masks by hash, suppression of boxes.

They run on GPUs alone, where Triton can compile them (it calls gcc) and a first look finds that they give what their plain
forms give; elsewhere the plain forms do.
"""

from __future__ import annotations

import functools

import numpy as np
import torch

from workloads.common import dropout
from workloads.common.randomness import stream
from workloads.frameworks.pytorch.kernels.plain import hashed

HASHES = 1_024
"""Of a program that draws masks."""
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


@functools.cache
def usable() -> bool:
    """Whether the kernels compile and agree with their plain forms on the present device; if not, the worker's log says why."""
    from torchvision.ops import nms

    try:
        places = torch.arange(50, device="cuda")
        keys = places[:, None] * 7_919 + 3
        differ = (draw(keys, places, "x", 36, 0.1) != hashed(keys, places, "x", 36, 0.1)).any()
        corners = (hashed(keys[:, 0], places, "y", 100, 0.5) * 20).view(1, -1, 2)[:, :600].cumsum(1) % 97
        boxes = torch.cat([corners, corners + 1 + corners.flip(2) % 31], -1)
        better = torch.arange(boxes.shape[1], 0, -1, device="cuda", dtype=torch.float32)
        kept = torch.zeros_like(better)
        kept[nms(boxes[0], better, 0.5)] = 1
        differ |= (kept != suppress(boxes, 0.5)[0]).any()
        if not differ:
            return True
        why = "they give other values than their plain forms"
    except (
        Exception
    ) as error:  # whatever Triton, its compiler or the driver say: the plain forms are as good, and slower
        why = f"{type(error).__name__}: {str(error).strip().splitlines()[-1:]}"
    print(f"Triton's kernels are not used: {why}", flush=True)
    return False
