"""Conversion of the heads' outputs to detections.

The steps are a score filter, selection of the best candidates of each class, non-maximum
suppression, and selection of the best detections of each image. The metric depends on the limits of
these steps (reference utils.py, decode_batch). Candidates with equal scores are ordered by class,
then by prior index.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from workloads.common.arrays import Bools, Float32s, Int32s, Int64s
from workloads.ssd.boxes import decode, iou
from workloads.ssd.priors import Priors

SCORE_MINIMUM = 0.05
"""Score that a detection must exceed."""
PER_CLASS = 200
"""Maximum number of best candidates that are kept per class before suppression."""
SUPPRESSION_IOU = 0.5
"""IoU at which a box is dropped if a better box of the same class was kept."""
PER_IMAGE = 200
_ROUNDING = 1e-3
"""Tolerance of the first filters on logits and scores. With this tolerance, rounding errors do not
drop a candidate.
"""
_AT_ONCE = 256
"""Number of boxes that non-maximum suppression compares at a time. With 256 boxes, the arrays
fit into the L2 cache.
"""


@dataclass(frozen=True)
class Detections:
    """All n detections in the images of a batch."""

    image: Int32s
    """Index (n,) of each detection's image in the batch."""
    box: Float32s
    """Boxes (n, 4) as left, top, right, bottom, in fractions of the image.

    A box may extend beyond the image.
    """
    label: Int32s
    """Class (n,) of each detection, starting at 1."""
    score: Float32s
    """Softmax scores (n,), in descending order within an image."""


def detect(logits: Float32s, offsets: Float32s, priors: Priors) -> Detections:
    """Return the detections of a batch.

    Args:
        logits: Class logits (B, C + 1, P), background first.
        offsets: Box offsets (B, 4, P).
        priors: The P priors.
    """
    per_image = [
        _detect_one(image_logits, offsets[number], priors)
        for number, image_logits in enumerate(logits)
    ]
    image = np.repeat(
        np.arange(len(per_image), dtype=np.int32), [len(score) for _, _, score in per_image]
    )
    empty = (np.zeros((0, 4), np.float32), np.zeros(0, np.int32), np.zeros(0, np.float32))
    box, label, score = (
        (np.concatenate(parts) for parts in zip(empty, *per_image, strict=True))
        if per_image
        else empty
    )
    return Detections(image, box, label, score)


def _detect_one(
    logits: Float32s, offsets: Float32s, priors: Priors
) -> tuple[Float32s, Int32s, Float32s]:
    """Return the boxes, labels, and scores of an image's detections."""
    label, prior, score = _candidates(logits)
    best = _best_of_classes(label, score)
    best = best[np.argsort(-score[best], kind="stable")]
    label, prior, score = label[best], prior[best], score[best]
    box = decode(offsets[:, prior], priors.centres[:, prior]).T
    kept = suppress(box, label)
    return box[kept], label[kept].astype(np.int32), score[kept]


def _candidates(logits: Float32s) -> tuple[Int64s, Int64s, Float32s]:
    """Return class, prior, and score of every candidate above the minimum score.

    The candidates are ordered by class, then by prior. If a class has a score above 0.05, the
    background has a score below 0.95. The softmax is therefore computed only for priors whose
    largest class logit is close enough to the background logit. In a trained network, only few
    priors satisfy this condition.
    """
    least = math.log(SCORE_MINIMUM / (1 - SCORE_MINIMUM)) - _ROUNDING
    largest = logits[1:].max(axis=0)
    possible = np.flatnonzero(largest - logits[0] > least)
    exponentials = (
        logits.astype(np.float32)
        if len(possible) == len(largest)
        else logits[:, possible].astype(np.float32)
    )
    exponentials -= np.maximum(largest, logits[0])[possible]
    np.exp(exponentials, out=exponentials)
    total = exponentials.sum(axis=0)
    passed = np.flatnonzero(exponentials[1:] > total * np.float32(SCORE_MINIMUM * (1 - _ROUNDING)))
    label, column = np.divmod(passed, max(len(possible), 1))
    score = exponentials[label + 1, column] / total[column]
    above = score > SCORE_MINIMUM
    return label[above] + 1, possible[column[above]], score[above]


def _best_of_classes(label: Int64s, score: Float32s) -> Int64s:
    """Return the indices of the candidates that are among the best 200 of their class.

    The candidates (n,) must be ordered by class, then by prior. The indices are in ascending order.
    """
    counts = np.bincount(label)
    ends = np.cumsum(counts)
    parts = [np.zeros(0, np.int64)]
    for first, stop in zip(ends - counts, ends, strict=True):
        rows = np.arange(first, stop)
        if stop - first > PER_CLASS:
            rows = np.sort(first + np.argsort(-score[first:stop], kind="stable")[:PER_CLASS])
        parts.append(rows)
    return np.concatenate(parts)


def suppress(boxes: Float32s, labels: Int64s) -> Int64s:
    """Return the indices of the boxes (n, 4) that non-maximum suppression keeps.

    The boxes must be sorted, with the best box first. A box is dropped if its IoU with a better
    kept box of the same class is 0.5 or more. The search ends after 200 kept boxes, because worse
    boxes cannot change the detections of the image.
    """
    kept = np.zeros(0, np.int64)
    for first in range(0, len(boxes), _AT_ONCE):
        rows = np.arange(first, min(first + _AT_ONCE, len(boxes)))
        rows = rows[~_clash(boxes, labels, rows, kept).any(axis=1)]
        clash = np.triu(_clash(boxes, labels, rows, rows), 1)
        alive = np.ones(len(rows), bool)
        # Only a box that clashes with a later box can suppress a box. The loop therefore skips all
        # other boxes.
        for number in np.flatnonzero(clash.any(axis=1)):
            if alive[number]:
                alive &= ~clash[number]
        kept = np.concatenate([kept, rows[alive]])[:PER_IMAGE]
        if len(kept) == PER_IMAGE:
            break
    return kept


def _clash(boxes: Float32s, labels: Int64s, first: Int64s, second: Int64s) -> Bools:
    """Return whether boxes `first` and boxes `second` suppress each other, (n, m).

    Two boxes suppress each other if they have the same class and an IoU of 0.5 or more. `first`
    (n,) and `second` (m,) are indices into `boxes`.
    """
    same_class = labels[first, None] == labels[second]
    return np.asarray(same_class & (iou(boxes[first], boxes[second]) >= SUPPRESSION_IOU))
