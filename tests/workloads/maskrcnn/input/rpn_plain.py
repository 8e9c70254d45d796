"""Anchors, their labels, samples and offsets as one would write them down, all anchors at once, in
float64.
"""

import math

import numpy as np

from tests.workloads.maskrcnn.regions_plain import encode


def anchors(model, height: int, width: int) -> np.ndarray:
    """(A, 4) in the order levels, rows, columns, ratios."""
    found = []
    for size, stride in zip(model["anchor_sizes"], model["strides"], strict=True):
        for row in range(math.ceil(height / stride)):
            for column in range(math.ceil(width / stride)):
                for ratio in (0.5, 1.0, 2.0):
                    across = round(math.sqrt(stride**2 / ratio))
                    down = round(across * ratio) * size / stride
                    across *= size / stride
                    x, y = (stride - 1) / 2 + column * stride, (stride - 1) / 2 + row * stride
                    found.append(
                        [
                            x - (across - 1) / 2,
                            y - (down - 1) / 2,
                            x + (across - 1) / 2,
                            y + (down - 1) / 2,
                        ]
                    )
    return np.array(found)


def overlaps(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """IoU (n, m); the last pixel belongs to a box."""
    left, top, right, bottom = boxes.astype(np.float64).T[:, :, None]
    other_left, other_top, other_right, other_bottom = others.astype(np.float64).T[:, None]
    across = np.clip(np.minimum(right, other_right) - np.maximum(left, other_left) + 1, 0, None)
    down = np.clip(np.minimum(bottom, other_bottom) - np.maximum(top, other_top) + 1, 0, None)
    area = (right - left + 1) * (bottom - top + 1)
    other_area = (other_right - other_left + 1) * (other_bottom - other_top + 1)
    shared = across * down
    return shared / (area + other_area - shared)


def labels(
    all_anchors: np.ndarray, boxes: np.ndarray, height: int, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Label (A,) 1, 0 or -1, and the object (A,) that each anchor overlaps most."""
    outside = (
        (all_anchors[:, :2] < 0).any(1)
        | (all_anchors[:, 2] >= width)
        | (all_anchors[:, 3] >= height)
    )
    if not len(boxes):
        return np.where(outside, -1, 0), np.zeros(len(all_anchors), np.int64)
    table = overlaps(boxes, all_anchors)
    best, owner = table.max(0), table.argmax(0)
    found = np.where(best >= 0.7, 1, np.where(best < 0.3, 0, -1))
    found[(table == table.max(1, keepdims=True)).any(0)] = 1
    found[outside] = -1
    return found, owner


def offsets(boxes: np.ndarray, all_anchors: np.ndarray) -> np.ndarray:
    """(n, 4) shifts of the centres over the anchors' sizes, and logarithms of the ratios of the
    sizes.
    """
    pairs = zip(np.float64(boxes), all_anchors, strict=True)
    return np.array([encode(*pair, np.ones(4)) for pair in pairs]).reshape(-1, 4)
