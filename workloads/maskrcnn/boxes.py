"""Boxes in the reference's legacy convention: area, overlap, deltas, and clipping.

A box is (left, top, right, bottom) in pixels of the resized image. A box includes its right and
bottom edge pixels, so its width is right - left + 1 (reference structures/bounding_box.py,
boxlist_ops.py, modeling/box_coder.py). The functions keep the data type of their arrays: float32 in
the benchmark, float64 in tests. The functions accept arrays with additional leading axes. The
functions also accept any array type with NumPy's functions, for example JAX arrays inside a
compiled function.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Floating = TypeVar("Floating", bound=np.floating)
Boxes = npt.NDArray[Floating]

RPN_WEIGHTS = (1.0, 1.0, 1.0, 1.0)
"""Factors of the x, y, width, and height deltas for anchors (reference rpn.py)."""
ROI_WEIGHTS = (10.0, 10.0, 5.0, 5.0)
"""Factors of the x, y, width, and height deltas for regions (reference defaults.py,
BBOX_REG_WEIGHTS).
"""
MAX_SIZE_DELTA = math.log(1000 / 16)
"""Upper limit of the width and height deltas before the exponential (reference box_coder.py)."""
_LARGE = 1e6


def functions(array: Any) -> Any:
    """Return the module that provides NumPy's functions for this array type."""
    return (
        array.__array_namespace__() if hasattr(array, "__array_namespace__") else np
    )  # NumPy arrays have no such attribute before NumPy 2.


def area(boxes: Boxes[Floating]) -> Boxes[Floating]:
    """Return the areas (…,) of boxes (…, 4) in pixels."""
    sizes = boxes[..., 2:] - boxes[..., :2] + 1
    pixels: Boxes[Floating] = sizes[..., 0] * sizes[..., 1]
    return pixels


def iou(first: Boxes[Floating], second: Boxes[Floating]) -> Boxes[Floating]:
    """Return the intersection over union (…, n, m) of boxes (…, n, 4) and (…, m, 4)."""
    xp, first, second = functions(first), first[..., :, None, :], second[..., None, :, :]
    low, high = (
        xp.maximum(first[..., :2], second[..., :2]),
        xp.minimum(first[..., 2:], second[..., 2:]),
    )
    sides = xp.maximum(high - low + 1, 0)
    shared = sides[..., 0] * sides[..., 1]
    overlap: Boxes[Floating] = shared / (area(first) + area(second) - shared)
    return overlap


def encode(
    boxes: Boxes[Floating], references: Boxes[Floating], weights: tuple[float, float, float, float]
) -> Boxes[Floating]:
    """Return the deltas (…, 4) that transform `references` (…, 4) to `boxes` (…, 4)."""
    xp = functions(boxes)
    factors = xp.asarray(weights, boxes.dtype)
    size, reference_size = (
        corners[..., 2:] - corners[..., :2] + 1 for corners in (boxes, references)
    )
    middle, reference_middle = boxes[..., :2] + size / 2, references[..., :2] + reference_size / 2
    moves = (middle - reference_middle) / reference_size
    deltas: Boxes[Floating] = (
        xp.concatenate([moves, xp.log(size / reference_size)], axis=-1) * factors
    )
    return deltas


def decode(
    deltas: Boxes[Floating], references: Boxes[Floating], weights: tuple[float, float, float, float]
) -> Boxes[Floating]:
    """Return the boxes (…, 4) for deltas (…, 4). The function is the inverse of `encode`.

    The boxes are not clipped to the image. A box is at most 1000 / 16 times as large as its
    reference box. NaN in the deltas is replaced by 0, so that pooling never reads out of bounds.
    The loss check detects a diverged network.
    """
    xp = functions(deltas)
    factors = xp.asarray(weights, deltas.dtype)
    reference_size = references[..., 2:] - references[..., :2] + 1
    scaled = xp.nan_to_num(deltas, nan=0.0, posinf=_LARGE, neginf=-_LARGE) / factors
    middle = references[..., :2] + reference_size / 2 + scaled[..., :2] * reference_size
    most = xp.asarray(MAX_SIZE_DELTA, deltas.dtype)
    half = xp.exp(xp.minimum(scaled[..., 2:], most)) * reference_size / 2
    boxes: Boxes[Floating] = xp.concatenate([middle - half, middle + half - 1], axis=-1)
    return boxes


def clip(boxes: Boxes[Floating], height: int, width: int) -> Boxes[Floating]:
    """Return boxes (…, 4) clipped to an image of `height` and `width` pixels."""
    most = np.array([width - 1, height - 1, width - 1, height - 1], boxes.dtype)
    return np.asarray(np.clip(boxes, 0, most))
