"""Head outputs to detections: score filter, best of each class, non-maximum suppression, best of each image.

The limits are part of the metric (reference utils.py, decode_batch). Of equal scores the lower class, then the lower
prior, comes first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from workloads.common.arrays import Bools, Float32s, Int32s, Int64s
from workloads.ssd.boxes import decode, iou
from workloads.ssd.priors import Priors

SCORE_MINIMUM = 0.05
"""Scores must be larger."""
PER_CLASS = 200
"""The best of a class, before suppression."""
SUPPRESSION_IOU = 0.5
"""A box is dropped if a better one that was kept overlaps it by so much or more."""
PER_IMAGE = 200
_ROUNDING = 1e-3
"""By so much (of a logit, of a score) the first filters are too generous, so that rounding cannot lose anything."""
_AT_ONCE = 256
"""Boxes that suppression compares with each other at once: the arrays stay in a core's second-level cache."""


@dataclass(frozen=True)
class Detections:
    """n detections of one or more images."""

    image: Int32s
    """(n,) place of the image in its batch."""
    box: Float32s
    """(n, 4) left, top, right, bottom in shares of the image; may reach beyond it."""
    label: Int32s
    """(n,) classes from 1."""
    score: Float32s
    """(n,) softmax; falling within an image."""


def detect(logits: Float32s, offsets: Float32s, priors: Priors) -> Detections:
    """Detections of a batch from its class logits (B, C + 1, P), background first, and offsets (B, 4, P)."""
    per_image = [_detect_one(image_logits, offsets[number], priors) for number, image_logits in enumerate(logits)]
    image = np.repeat(np.arange(len(per_image), dtype=np.int32), [len(score) for _, _, score in per_image])
    empty = (np.zeros((0, 4), np.float32), np.zeros(0, np.int32), np.zeros(0, np.float32))
    box, label, score = (np.concatenate(parts) for parts in zip(empty, *per_image, strict=True)) if per_image else empty
    return Detections(image, box, label, score)


def _detect_one(logits: Float32s, offsets: Float32s, priors: Priors) -> tuple[Float32s, Int32s, Float32s]:
    """Boxes, labels and scores of one image."""
    label, prior, score = _candidates(logits)
    best = _best_of_classes(label, score)
    best = best[np.argsort(-score[best], kind="stable")]
    label, prior, score = label[best], prior[best], score[best]
    box = decode(offsets[:, prior], priors.centres[:, prior]).T
    kept = suppress(box, label)
    return box[kept], label[kept].astype(np.int32), score[kept]


def _candidates(logits: Float32s) -> tuple[Int64s, Int64s, Float32s]:
    """Class, prior and score of everything above the minimum; ordered by class, then by prior.

    A class with more than 0.05 leaves less than 0.95 to the background: only priors with a logit close enough to the
    background's need a softmax. In a trained network those are few.
    """
    least = math.log(SCORE_MINIMUM / (1 - SCORE_MINIMUM)) - _ROUNDING
    largest = logits[1:].max(axis=0)
    possible = np.flatnonzero(largest - logits[0] > least)
    some = logits.astype(np.float32) if len(possible) == len(largest) else logits[:, possible].astype(np.float32)
    some -= np.maximum(largest, logits[0])[possible]
    np.exp(some, out=some)
    total = some.sum(axis=0)
    passed = np.flatnonzero(some[1:] > total * np.float32(SCORE_MINIMUM * (1 - _ROUNDING)))
    label, place = np.divmod(passed, max(len(possible), 1))
    score = some[label + 1, place] / total[place]
    above = score > SCORE_MINIMUM
    return label[above] + 1, possible[place[above]], score[above]


def _best_of_classes(label: Int64s, score: Float32s) -> Int64s:
    """Which candidates (n,), ordered by class, then by prior, are among the best 200 of their class; in that order."""
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
    """Which of boxes (n, 4), best first, are kept: those that no better kept one of their class overlaps by 0.5 or more.

    No more than the best 200: worse boxes cannot change them, so they are not looked at.
    """
    kept = np.zeros(0, np.int64)
    for first in range(0, len(boxes), _AT_ONCE):
        rows = np.arange(first, min(first + _AT_ONCE, len(boxes)))
        rows = rows[~_clash(boxes, labels, rows, kept).any(axis=1)]
        clash = np.triu(_clash(boxes, labels, rows, rows), 1)
        alive = np.ones(len(rows), bool)
        # Only boxes that clash with a later one can drop anything.
        for number in np.flatnonzero(clash.any(axis=1)):
            if alive[number]:
                alive &= ~clash[number]
        kept = np.concatenate([kept, rows[alive]])[:PER_IMAGE]
        if len(kept) == PER_IMAGE:
            break
    return kept


def _clash(boxes: Float32s, labels: Int64s, first: Int64s, second: Int64s) -> Bools:
    """(n, m) whether rows (n,) and rows (m,) are of one class and overlap by 0.5 or more."""
    same_class = labels[first, None] == labels[second]
    return np.asarray(same_class & (iou(boxes[first], boxes[second]) >= SUPPRESSION_IOU))
