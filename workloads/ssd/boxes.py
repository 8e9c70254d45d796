"""Boxes: overlap, offsets from priors and back, and which prior learns which object; whole batches at a time.

Boxes of objects are rows (…, 4) of left, top, right, bottom in shares of the image. A batch's objects lie end to end;
`ends[i]` is where those of image i end. Whatever belongs to priors is in planes (…, 4, P).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from workloads.common.arrays import Float32s, Int32s, Int64s
from workloads.ssd.priors import VARIANCES, Priors

Floats = npt.NDArray[np.floating]

MATCH_IOU = 0.5
"""A prior learns an object that overlaps it by more (reference utils.py)."""
IMAGES_AT_ONCE = 4
"""While matching: a few arrays of (4, 8,732) floats stay in a core's second-level cache."""


def iou(first: Floats, second: Floats) -> Floats:
    """Intersection over union (n, m) of boxes (n, 4) and (m, 4); 0 where both are empty."""
    return iou_planes(first, np.ascontiguousarray(second.T))


def iou_planes(boxes: Floats, planes: Floats) -> Floats:
    """Intersection over union (n, m) of boxes (n, 4) and of m boxes in planes (4, m)."""
    left, top, right, bottom = (boxes[:, i : i + 1] for i in range(4))
    shared = np.minimum(right, planes[2])
    shared -= np.maximum(left, planes[0])
    np.maximum(shared, 0, out=shared)
    height = np.minimum(bottom, planes[3])
    height -= np.maximum(top, planes[1])
    np.maximum(height, 0, out=height)
    shared *= height
    union = np.add((right - left) * (bottom - top), (planes[2] - planes[0]) * (planes[3] - planes[1]), out=height)
    union -= shared
    return np.asarray(np.divide(shared, union, out=np.zeros_like(shared), where=union > 0))


def encode(boxes: Float32s, priors: Float32s) -> Float32s:
    """Offsets (4, n) of boxes in planes (4, n) from priors (4, n) given by centre and size."""
    size = boxes[2:] - boxes[:2]
    middle = (boxes[:2] + boxes[2:]) / 2
    at = (middle - priors[:2]) / priors[2:] / np.float32(VARIANCES[0])
    return np.concatenate([at, np.log(size / priors[2:]) / np.float32(VARIANCES[1])])


def decode(offsets: Float32s, priors: Float32s) -> Float32s:
    """Inverse of `encode`: corners (4, n), not limited to the image."""
    middle = offsets[:2] * np.float32(VARIANCES[0]) * priors[2:] + priors[:2]
    half = np.exp(offsets[2:] * np.float32(VARIANCES[1])) * priors[2:] / 2
    return np.concatenate([middle - half, middle + half])


def match(boxes: Float32s, ends: Int64s, priors: Priors) -> Int32s:
    """(B, P) the object, as a row of `boxes`, that each prior learns in each image; -1: background.

    Every object claims the prior that it overlaps most, whatever the overlap; of two that claim one prior the later gets it.
    Every other prior takes the object that overlaps it most, if by more than `MATCH_IOU`. Of equals, the first.
    """
    starts = np.concatenate([[0], ends[:-1]])
    counts = ends - starts
    matches = np.full((len(ends), len(priors)), -1, np.int32)
    # Images with equally many objects next to each other: the g-th objects of some images are worked on together.
    order = np.argsort(-counts, kind="stable")
    for first in range(0, len(order), IMAGES_AT_ONCE):
        images = order[first : first + IMAGES_AT_ONCE]
        matches[images] = _match_some(boxes, starts[images], counts[images], priors.corners)
    return matches


def _match_some(boxes: Float32s, starts: Int64s, counts: Int64s, corners: Float32s) -> Int32s:
    """`match` for images (b,) whose counts fall."""
    best = np.full((len(starts), corners.shape[1]), MATCH_IOU, boxes.dtype)
    matches = np.full(best.shape, -1, np.int32)
    claims = []
    for number in range(int(counts[0]) if len(counts) else 0):
        rows = np.arange(np.count_nonzero(counts > number))
        objects = starts[rows] + number
        overlap = iou_planes(boxes[objects], corners)
        claims.append((rows, overlap.argmax(axis=1), objects))
        better = overlap > best[: len(rows)]
        np.copyto(best[: len(rows)], overlap, where=better)
        np.copyto(matches[: len(rows)], objects[:, None].astype(np.int32), where=better)
    for rows, prior, objects in claims:
        matches[rows, prior] = objects
    return matches


def targets(boxes: Float32s, labels: Int32s, ends: Int64s, priors: Priors) -> tuple[Float32s, Int32s]:
    """What the priors are to learn: offsets (B, 4, P), 0 for background, and labels (B, P), 0 for background.

    `labels` (M,) of the objects count from 1.
    """
    matches = match(boxes, ends, priors)
    offsets = np.zeros((len(ends), 4, len(priors)), np.float32)
    image, prior = np.nonzero(matches >= 0)
    objects = matches[image, prior]
    offsets[image, :, prior] = encode(boxes[objects].T, priors.centres[:, prior]).T
    label = np.zeros(matches.shape, np.int32)
    label[image, prior] = labels[objects]
    return offsets, label
