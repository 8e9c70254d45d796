"""Anchors, their labels, samples and offsets in plain float64, for all anchors at once."""

import math

import numpy as np

from tests.workloads.maskrcnn.regions_plain import encode


def anchors(model, height: int, width: int) -> np.ndarray:
    """Return the anchors (A, 4) in the order levels, rows, columns, ratios."""
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


def overlaps(boxes: np.ndarray, references: np.ndarray) -> np.ndarray:
    """Return the IoU (n, m). The last pixel belongs to a box."""
    left, top, right, bottom = boxes.astype(np.float64).T[:, :, None]
    of_left, of_top, of_right, of_bottom = references.astype(np.float64).T[:, None]
    across = np.clip(np.minimum(right, of_right) - np.maximum(left, of_left) + 1, 0, None)
    down = np.clip(np.minimum(bottom, of_bottom) - np.maximum(top, of_top) + 1, 0, None)
    area = (right - left + 1) * (bottom - top + 1)
    of_area = (of_right - of_left + 1) * (of_bottom - of_top + 1)
    shared = across * down
    return shared / (area + of_area - shared)


def labels(
    all_anchors: np.ndarray, boxes: np.ndarray, height: int, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the label (A,) 1, 0 or -1 of each anchor, and the object (A,) with the largest IoU."""
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
    """Return the offsets (n, 4) of boxes from anchors.

    They are shifts of the centers divided by the anchors' sizes, and logarithms of the ratios of
    the sizes.
    """
    pairs = zip(np.float64(boxes), all_anchors, strict=True)
    return np.array([encode(*pair, np.ones(4)) for pair in pairs]).reshape(-1, 4)
