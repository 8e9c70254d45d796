"""Boxes in the reference's legacy convention: area, overlap, deltas from references and back, clipping.

A box is (left, top, right, bottom) in pixels of the resized image, and its right and bottom pixel belong to it: its width is
right - left + 1 (reference structures/bounding_box.py, boxlist_ops.py, modeling/box_coder.py). Arrays keep their type:
float32 in the benchmark, float64 in tests.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Floating = TypeVar("Floating", bound=np.floating)
Boxes = npt.NDArray[Floating]

RPN_WEIGHTS = (1.0, 1.0, 1.0, 1.0)
"""What deltas of x, y, width, height are multiplied by: of anchors (reference rpn.py)."""
ROI_WEIGHTS = (10.0, 10.0, 5.0, 5.0)
"""The same of regions (reference defaults.py, BBOX_REG_WEIGHTS)."""
SIZE_DELTA_MOST = math.log(1000 / 16)
"""Deltas of width and height are cut here before the exponential (reference box_coder.py)."""
_LARGE = 1e6


def area(boxes: Boxes[Floating]) -> Boxes[Floating]:
    """Pixels (…,) of boxes (…, 4)."""
    sizes = boxes[..., 2:] - boxes[..., :2] + 1
    return np.asarray(sizes[..., 0] * sizes[..., 1])


def iou(first: Boxes[Floating], second: Boxes[Floating]) -> Boxes[Floating]:
    """Intersection over union (n, m) of boxes (n, 4) and (m, 4)."""
    low = np.maximum(first[:, None, :2], second[:, :2])
    high = np.minimum(first[:, None, 2:], second[:, 2:])
    sides = np.maximum(high - low + 1, 0)
    shared = sides[..., 0] * sides[..., 1]
    return np.asarray(shared / (area(first)[:, None] + area(second) - shared))


def encode(
    boxes: Boxes[Floating], references: Boxes[Floating], weights: tuple[float, float, float, float]
) -> Boxes[Floating]:
    """Deltas (…, 4) that turn `references` (…, 4) into `boxes` (…, 4)."""
    factors = np.array(weights, boxes.dtype)
    size, of_size = (one[..., 2:] - one[..., :2] + 1 for one in (boxes, references))
    middle, of_middle = boxes[..., :2] + size / 2, references[..., :2] + of_size / 2
    moves = (middle - of_middle) / of_size
    return np.asarray(np.concatenate([moves, np.log(size / of_size)], axis=-1) * factors)


def decode(
    deltas: Boxes[Floating], references: Boxes[Floating], weights: tuple[float, float, float, float]
) -> Boxes[Floating]:
    """Inverse of `encode`: boxes (…, 4), not limited to the image; sizes at most 1000 / 16 times the reference's.

    Deltas that are no numbers become 0: where a network diverges, the loss says so, and pooling must not read out of bounds.
    """
    factors = np.array(weights, deltas.dtype)
    of_size = references[..., 2:] - references[..., :2] + 1
    scaled = np.nan_to_num(deltas, nan=0.0, posinf=_LARGE, neginf=-_LARGE) / factors
    middle = references[..., :2] + of_size / 2 + scaled[..., :2] * of_size
    half = np.exp(np.minimum(scaled[..., 2:], SIZE_DELTA_MOST, dtype=deltas.dtype)) * of_size / 2
    return np.asarray(np.concatenate([middle - half, middle + half - 1], axis=-1))


def clip(boxes: Boxes[Floating], height: int, width: int) -> Boxes[Floating]:
    """Boxes (…, 4) with every corner on a pixel's place inside an image of `height` and `width` pixels."""
    most = np.array([width - 1, height - 1, width - 1, height - 1], boxes.dtype)
    return np.asarray(np.clip(boxes, 0, most))
