"""Boxes in the reference's legacy convention: area, overlap, deltas from references and back, clipping.

A box is (left, top, right, bottom) in pixels of the resized image, and its right and bottom pixel belong to it: its width is
right - left + 1 (reference structures/bounding_box.py, boxlist_ops.py, modeling/box_coder.py). Arrays keep their type:
float32 in the benchmark, float64 in tests. They may be of any kind that brings NumPy's functions (JAX's, within a compiled
function), and have more axes in front.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Floating = TypeVar("Floating", bound=np.floating)
Boxes = npt.NDArray[Floating]

RPN_WEIGHTS = (1.0, 1.0, 1.0, 1.0)
"""What deltas of x, y, width, height are multiplied by: of anchors (reference rpn.py)."""
ROI_WEIGHTS = (10.0, 10.0, 5.0, 5.0)
"""The same of regions (reference defaults.py, BBOX_REG_WEIGHTS)."""
MAX_SIZE_DELTA = math.log(1000 / 16)
"""Deltas of width and height are cut here before the exponential (reference box_coder.py)."""
_LARGE = 1e6


def functions(array: Any) -> Any:
    """NumPy, or the module that has its functions for arrays of another kind."""
    return array.__array_namespace__() if hasattr(array, "__array_namespace__") else np  # NumPy below 2 has none


def area(boxes: Boxes[Floating]) -> Boxes[Floating]:
    """Pixels (…,) of boxes (…, 4)."""
    sizes = boxes[..., 2:] - boxes[..., :2] + 1
    pixels: Boxes[Floating] = sizes[..., 0] * sizes[..., 1]
    return pixels


def iou(first: Boxes[Floating], second: Boxes[Floating]) -> Boxes[Floating]:
    """Intersection over union (…, n, m) of boxes (…, n, 4) and (…, m, 4)."""
    xp, first, second = functions(first), first[..., :, None, :], second[..., None, :, :]
    low, high = xp.maximum(first[..., :2], second[..., :2]), xp.minimum(first[..., 2:], second[..., 2:])
    sides = xp.maximum(high - low + 1, 0)
    shared = sides[..., 0] * sides[..., 1]
    overlap: Boxes[Floating] = shared / (area(first) + area(second) - shared)
    return overlap


def encode(
    boxes: Boxes[Floating], references: Boxes[Floating], weights: tuple[float, float, float, float]
) -> Boxes[Floating]:
    """Deltas (…, 4) that turn `references` (…, 4) into `boxes` (…, 4)."""
    xp = functions(boxes)
    factors = xp.asarray(weights, boxes.dtype)
    size, scales_with_devices = (one[..., 2:] - one[..., :2] + 1 for one in (boxes, references))
    middle, of_middle = boxes[..., :2] + size / 2, references[..., :2] + scales_with_devices / 2
    moves = (middle - of_middle) / scales_with_devices
    deltas: Boxes[Floating] = xp.concatenate([moves, xp.log(size / scales_with_devices)], axis=-1) * factors
    return deltas


def decode(
    deltas: Boxes[Floating], references: Boxes[Floating], weights: tuple[float, float, float, float]
) -> Boxes[Floating]:
    """Inverse of `encode`: boxes (…, 4), not limited to the image; sizes at most 1000 / 16 times the reference's.

    Deltas that are no numbers become 0: where a network diverges, the loss says so, and pooling must not read out of bounds.
    """
    xp = functions(deltas)
    factors = xp.asarray(weights, deltas.dtype)
    scales_with_devices = references[..., 2:] - references[..., :2] + 1
    scaled = xp.nan_to_num(deltas, nan=0.0, posinf=_LARGE, neginf=-_LARGE) / factors
    middle = references[..., :2] + scales_with_devices / 2 + scaled[..., :2] * scales_with_devices
    most = xp.asarray(MAX_SIZE_DELTA, deltas.dtype)
    half = xp.exp(xp.minimum(scaled[..., 2:], most)) * scales_with_devices / 2
    boxes: Boxes[Floating] = xp.concatenate([middle - half, middle + half - 1], axis=-1)
    return boxes


def clip(boxes: Boxes[Floating], height: int, width: int) -> Boxes[Floating]:
    """Boxes (…, 4) with every corner on a pixel's place inside an image of `height` and `width` pixels."""
    most = np.array([width - 1, height - 1, width - 1, height - 1], boxes.dtype)
    return np.asarray(np.clip(boxes, 0, most))
