"""Boxes of whole batches: overlap, encoding of offsets, and matching with priors.

Boxes of objects are rows (…, 4) of left, top, right, bottom as fractions of the image. The objects
of a batch are concatenated, and `ends[i]` is the end offset of the objects of image i. Arrays over
priors have the layout (…, 4, P).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from workloads.common.arrays import Float32s, Int32s, Int64s
from workloads.ssd.priors import VARIANCES, Priors

Floats = npt.NDArray[np.floating]

MATCH_IOU = 0.5
"""IoU above which a prior is matched with an object (reference utils.py)."""
IMAGES_AT_ONCE = 4
"""Number of images that are matched at a time.

For four images, a few arrays of (4, 8,732) floats fit into the L2 cache.
"""


def iou(first: Floats, second: Floats) -> Floats:
    """Return the intersection over union (n, m) of boxes (n, 4) and (m, 4).

    The IoU of two empty boxes is 0.
    """
    return iou_planes(first, np.ascontiguousarray(second.T))


def iou_planes(boxes: Floats, planes: Floats) -> Floats:
    """Return the intersection over union (n, m) of boxes (n, 4) and boxes (4, m).

    `planes` stores each coordinate of its m boxes in a separate row.
    """
    left, top, right, bottom = (boxes[:, i : i + 1] for i in range(4))
    shared = np.minimum(right, planes[2])
    shared -= np.maximum(left, planes[0])
    np.maximum(shared, 0, out=shared)
    height = np.minimum(bottom, planes[3])
    height -= np.maximum(top, planes[1])
    np.maximum(height, 0, out=height)
    shared *= height
    union = np.add(
        (right - left) * (bottom - top),
        (planes[2] - planes[0]) * (planes[3] - planes[1]),
        out=height,
    )
    union -= shared
    return np.asarray(np.divide(shared, union, out=np.zeros_like(shared), where=union > 0))


def encode(boxes: Float32s, priors: Float32s) -> Float32s:
    """Return the offsets (4, n) of boxes (4, n) from priors (4, n)."""
    size = boxes[2:] - boxes[:2]
    middle = (boxes[:2] + boxes[2:]) / 2
    moves = (middle - priors[:2]) / priors[2:] / np.float32(VARIANCES[0])
    return np.concatenate([moves, np.log(size / priors[2:]) / np.float32(VARIANCES[1])])


def decode(offsets: Float32s, priors: Float32s) -> Float32s:
    """Return the box corners (4, n) for offsets (4, n). The inverse function is `encode`.

    The corners are not clipped to the image.
    """
    middle = offsets[:2] * np.float32(VARIANCES[0]) * priors[2:] + priors[:2]
    half = np.exp(offsets[2:] * np.float32(VARIANCES[1])) * priors[2:] / 2
    return np.concatenate([middle - half, middle + half])


def match(boxes: Float32s, ends: Int64s, priors: Priors) -> Int32s:
    """Return the object (B, P) that is matched with each prior in each image, or -1.

    An object is an index into `boxes`, and -1 stands for background. Each object is matched with
    the prior that it overlaps most, even if the overlap is small. If two objects have the same best
    prior, the prior is matched with the later object. Each remaining prior is matched with the
    object that overlaps it most, if the IoU is above `MATCH_IOU`. For equal overlaps, the first
    prior or object is used.
    """
    starts = np.concatenate([[0], ends[:-1]])
    counts = ends - starts
    matches = np.full((len(ends), len(priors)), -1, np.int32)
    # Images are sorted by their number of objects, because the g-th objects of several images are
    # processed together.
    order = np.argsort(-counts, kind="stable")
    for first in range(0, len(order), IMAGES_AT_ONCE):
        images = order[first : first + IMAGES_AT_ONCE]
        matches[images] = _match_some(boxes, starts[images], counts[images], priors.corners)
    return matches


def _match_some(boxes: Float32s, starts: Int64s, counts: Int64s, corners: Float32s) -> Int32s:
    """Match the priors of images (b,) with objects, like `match`.

    `counts` must be in descending order.
    """
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


def targets(
    boxes: Float32s, labels: Int32s, ends: Int64s, priors: Priors
) -> tuple[Float32s, Int32s]:
    """Return the offsets (B, 4, P) and labels (B, P) that are the targets of the priors.

    For background priors, offsets and labels are 0. `labels` (M,) contains the classes of the
    objects, starting at 1.
    """
    matches = match(boxes, ends, priors)
    offsets = np.zeros((len(ends), 4, len(priors)), np.float32)
    image, prior = np.nonzero(matches >= 0)
    objects = matches[image, prior]
    offsets[image, :, prior] = encode(boxes[objects].T, priors.centres[:, prior]).T
    label = np.zeros(matches.shape, np.int32)
    label[image, prior] = labels[objects]
    return offsets, label
