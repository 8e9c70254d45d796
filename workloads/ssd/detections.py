"""Head outputs to detections: score filter, best of each class, non-maximum suppression, best of each image.

The limits are part of the metric (reference utils.py, decode_batch). Of equal scores the lower class, then the lower
prior, comes first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workloads.ssd.boxes import decode, iou
from workloads.ssd.priors import Priors

Float32s = npt.NDArray[np.float32]

SCORE_MINIMUM = 0.05
"""Scores must be larger."""
PER_CLASS = 200
"""The best of a class, before suppression."""
SUPPRESSION_IOU = 0.5
"""A box is dropped if a better one that was kept overlaps it by so much or more."""
PER_IMAGE = 200
_ROUNDING = 1e-3
"""By so much (of a logit) the first filter is too generous, so that rounding cannot lose anything."""


@dataclass(frozen=True)
class Detections:
    """n detections of one or more images."""

    image: npt.NDArray[np.int32]
    """(n,) place of the image in its batch."""
    box: Float32s
    """(n, 4) left, top, right, bottom in shares of the image; may reach beyond it."""
    label: npt.NDArray[np.int32]
    """(n,) classes from 1."""
    score: Float32s
    """(n,) softmax; falling within an image."""


def detect(logits: Float32s, offsets: Float32s, priors: Priors) -> Detections:
    """Detections of a batch from its class logits (B, C + 1, P), background first, and offsets (B, 4, P)."""
    found = [_detect_one(of_image, offsets[number], priors) for number, of_image in enumerate(logits)]
    image = np.repeat(np.arange(len(found), dtype=np.int32), [len(score) for _, _, score in found])
    empty = (np.zeros((0, 4), np.float32), np.zeros(0, np.int32), np.zeros(0, np.float32))
    box, label, score = (np.concatenate(parts) for parts in zip(empty, *found, strict=True)) if found else empty
    return Detections(image, box, label, score)


def _detect_one(
    logits: Float32s, offsets: Float32s, priors: Priors
) -> tuple[Float32s, npt.NDArray[np.int32], Float32s]:
    """Boxes, labels and scores of one image."""
    label, prior, score = _candidates(logits)
    kept = []
    for number in np.unique(label):
        rows = np.flatnonzero(label == number)
        rows = rows[np.argsort(-score[rows], kind="stable")][:PER_CLASS]
        box = decode(offsets[:, prior[rows]], priors.centres[:, prior[rows]]).T
        fine = suppress(box)
        kept.append((box[fine], label[rows[fine]], score[rows[fine]]))
    if not kept:
        return np.zeros((0, 4), np.float32), np.zeros(0, np.int32), np.zeros(0, np.float32)
    boxes, labels, scores = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    best = np.argsort(-scores, kind="stable")[:PER_IMAGE]
    return boxes[best], labels[best].astype(np.int32), scores[best]


def _candidates(logits: Float32s) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Float32s]:
    """Class, prior and score of everything above the minimum; ordered by class, then by prior.

    A class with more than 0.05 leaves less than 0.95 to the background: only priors with a logit close enough to the
    background's need a softmax, and those are few.
    """
    least = math.log(SCORE_MINIMUM / (1 - SCORE_MINIMUM)) - _ROUNDING
    possible = np.flatnonzero(logits[1:].max(axis=0) - logits[0] > least)
    some = logits[:, possible].astype(np.float32)
    some -= some.max(axis=0)
    np.exp(some, out=some)
    some /= some.sum(axis=0)
    label, place = np.nonzero(some[1:] > SCORE_MINIMUM)
    return label + 1, possible[place], some[label + 1, place]


def suppress(boxes: Float32s) -> npt.NDArray[np.int64]:
    """Which of boxes (n, 4), best first, are kept: those that no better kept one overlaps by 0.5 or more."""
    clash = np.triu(iou(boxes, boxes) >= SUPPRESSION_IOU, 1)
    alive = np.ones(len(boxes), bool)
    # Only boxes that clash with a later one can drop anything.
    for number in np.flatnonzero(clash.any(axis=1)):
        if alive[number]:
            alive &= ~clash[number]
    return np.flatnonzero(alive)
