"""Masks of regions and in images as in the reference, computed individually.

The enlargement is written out in float64.
"""

import numpy as np
from pycocotools import mask as tool


def target(polygons: list[np.ndarray], roi: np.ndarray, side: int) -> np.ndarray:
    """Return the target mask (side, side) of an object's polygons (k, 2), drawn by COCO's tool.

    The polygons are moved and scaled as float32.
    """
    ratio = (
        np.float32(side / max(float(roi[2] - roi[0]), 1.0)),
        np.float32(side / max(float(roi[3] - roi[1]), 1.0)),
    )
    moved = [
        ((points - roi[:2]) * np.array(ratio, np.float32)).astype(np.float64) for points in polygons
    ]
    return tool.decode(
        tool.merge(tool.frPyObjects([points.reshape(-1).tolist() for points in moved], side, side))
    )


def pasted(mask: np.ndarray, box: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return probabilities (height, width) of a mask pasted into an image, in float64.

    The mask has a border of zeros, the box is enlarged accordingly and truncated to integers.
    """
    side = len(mask)
    bordered = np.pad(mask.astype(np.float64), 1)
    left, top, right, bottom = box.astype(np.float32)
    scale, half = np.float32((side + 2) / side), np.float32(0.5)
    across, down = (right - left) * half * scale, (bottom - top) * half * scale
    x, y = (right + left) * half, (bottom + top) * half
    left, top, right, bottom = (
        int(value) for value in (x - across, y - down, x + across, y + down)
    )
    columns, rows = max(right - left + 1, 1), max(bottom - top + 1, 1)
    large = (matrix(side + 2, rows) @ bordered) @ matrix(side + 2, columns).T
    found = np.zeros((height, width))
    for row in range(bottom - top + 1):
        for column in range(right - left + 1):
            if 0 <= top + row < height and 0 <= left + column < width:
                found[top + row, left + column] = large[row, column]
    return found


def matrix(before: int, after: int) -> np.ndarray:
    """Return weights (after, before) of linear interpolation between pixel centers.

    Edges are repeated.
    """
    found = np.zeros((after, before))
    for place in range(after):
        source = min(max((place + 0.5) * before / after - 0.5, 0), before - 1)
        low = int(source)
        found[place, low] += 1 - (source - low)
        found[place, min(low + 1, before - 1)] += source - low
    return found
