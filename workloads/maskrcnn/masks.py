"""Mask targets from polygons for training, and pasting of masks for evaluation.

The corresponding reference files are structures/segmentation_mask.py (crop, resize, convert) and
roi_heads/mask_head/inference.py (paste_mask_in_image).
"""

from __future__ import annotations

from itertools import pairwise

import cv2
import numpy as np

from workloads.common.arrays import Float32s, Int64s, UInt8s
from workloads.common.coco.masks import Polygons as Polygons

PADDING = 1
"""Width in pixels of the border of zeros around a predicted mask. The border is added before the
mask is enlarged.
"""
THRESHOLD = 0.5
"""Probability above which a pixel belongs to the mask."""
BYTES_AT_ONCE = 1 << 25
"""Memory limit for pasted masks in bytes. The limit is enough for three COCO images with 30
detections each.
"""


def targets(rois: Float32s, objects: Int64s, polygons: Polygons, side: int) -> UInt8s:
    """Return mask targets (n, side, side) of zeros and ones: polygons cropped to regions.

    As in the reference, the upper left corner of the region is subtracted from the polygons. The
    polygons are then scaled by `side` divided by the region's size (right - left, bottom - top),
    and rasterized with pycocotools.

    Args:
        rois: Regions (n, 4).
        objects: Index (n,) of each region's object in `polygons`.
        polygons: Polygons of all objects.
        side: Width and height of a mask.
    """
    from pycocotools import mask as tool

    if not len(rois):
        return np.zeros((0, side, side), np.uint8)
    taken = polygons.take(objects)
    counts = np.diff(taken.object_ends, prepend=0)
    assert counts.all(), "an object without polygons"
    of_polygon = np.repeat(np.arange(len(rois)), counts)
    owner = np.repeat(of_polygon, np.diff(taken.polygon_ends, prepend=0))
    ratio = (side / np.maximum(rois[:, 2:] - rois[:, :2], 1).astype(np.float64)).astype(np.float32)
    points = ((taken.points - rois[owner, :2]) * ratio[owner]).astype(np.float64)
    ends = [0, *taken.polygon_ends.tolist()]
    drawn = tool.frPyObjects(
        [points[first:stop].reshape(-1) for first, stop in pairwise(ends)], side, side
    )
    ends = [0, *taken.object_ends.tolist()]
    merged = [
        drawn[first] if stop == first + 1 else tool.merge(drawn[first:stop])
        for first, stop in pairwise(ends)
    ]
    return np.ascontiguousarray(np.moveaxis(tool.decode(merged), -1, 0))


def paste(masks: Float32s, boxes: Float32s, height: int, width: int) -> UInt8s:
    """Return predicted masks pasted into an image: (n, width, height) of zeros and ones.

    The axes are transposed, as in COCO's run lengths. A border of zeros is added to each mask, and
    the box is enlarged by the same ratio as the mask. The mask is then resized to the enlarged box.
    The corners of the box are truncated to integers, and the box includes its right and bottom edge
    pixels.

    Args:
        masks: Mask probabilities (n, s, s).
        boxes: Boxes (n, 4) of the masks.
        height: Height of the image in pixels.
        width: Width of the image in pixels.
    """
    pasted = np.zeros((len(masks), width, height), np.uint8)
    side = masks.shape[-1]
    bordered = np.zeros((side + 2 * PADDING,) * 2, np.float32)
    inner = bordered[PADDING:-PADDING, PADDING:-PADDING]
    grown = _grown(boxes, np.float32((side + 2 * PADDING) / side)).astype(np.int32).tolist()
    for mask, (left, top, right, bottom), out in zip(masks, grown, pasted, strict=True):
        inner[:] = mask.T
        x, y = max(left, 0), max(top, 0)
        part = out[x : max(right + 1, x), y : max(bottom + 1, y)]
        if part.size:
            across, down = max(right - left + 1, 1), max(bottom - top + 1, 1)
            large = cv2.resize(bordered, (down, across), interpolation=cv2.INTER_LINEAR)
            large = large[x - left : x - left + part.shape[0], y - top : y - top + part.shape[1]]
            np.greater(large, THRESHOLD, out=part.view(bool))
    return pasted


def _grown(boxes: Float32s, scale: np.float32) -> Float32s:
    """Return boxes (n, 4), each enlarged around its center by the factor `scale`."""
    half = (boxes[:, 2:] - boxes[:, :2]) * np.float32(0.5) * scale
    centre = (boxes[:, 2:] + boxes[:, :2]) * np.float32(0.5)
    return np.concatenate([centre - half, centre + half], axis=1)


def encode(masks: Float32s, boxes: Float32s, height: int, width: int) -> list[bytes]:
    """Return each pasted mask as COCO's compressed run lengths."""
    from pycocotools import mask as tool

    encoded: list[bytes] = []
    at_once = max(1, BYTES_AT_ONCE // (height * width))
    for first in range(0, len(masks), at_once):
        rows = slice(first, first + at_once)
        pasted = paste(masks[rows], boxes[rows], height, width)
        encoded += [bytes(mask["counts"]) for mask in tool.encode(pasted.transpose(2, 1, 0))]
    return encoded
