"""Conversion of the box head's outputs to detections.

The steps are a score filter, suppression within each class, and selection of the best detections of
each image. The metric depends on the limits of these steps (reference
modeling/roi_heads/box_head/inference.py). Detections with equal scores are ordered by class, then
by the rank of the proposal. In contrast, the reference keeps all detections whose score equals the
hundredth score.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workloads.common.arrays import Float32s, Int32s
from workloads.maskrcnn import boxes
from workloads.maskrcnn.regions.proposals import top
from workloads.maskrcnn.regions.rules import (
    DETECTION_NMS_IOU,
    SCORE_MINIMUM,
    RegionRules,
    Suppress,
    suppressed,
)


@dataclass(frozen=True)
class Detections:
    """D detections for each of B images, with the best detection first.

    Slots without a detection have label 0.
    """

    box: Float32s
    """Boxes (B, D, 4) of the detections."""
    score: Float32s
    """Scores (B, D) of the detections."""
    label: Int32s
    """Classes (B, D) of the detections, starting at 1."""
    level: Int32s
    """Index (B, D) of the pyramid level from which each mask is pooled. The finest level is 0."""


def detect(
    proposals: list[Float32s],
    probabilities: Float32s,
    deltas: Float32s,
    sizes: Int32s,
    rules: RegionRules,
    suppress: Suppress,
) -> Detections:
    """Return the detections of a batch.

    Args:
        proposals: Proposals (n_i, 4) of each image i, which fill the first n_i of the image's R
            regions.
        probabilities: Class probabilities (B, R, C + 1), background first.
        deltas: Box deltas (B, R, C + 1, 4).
        sizes: Height and width (B, 2) of each image without padding.
        rules: Numbers and limits of regions.
        suppress: Non-maximum suppression of the framework.
    """
    shape = (len(proposals), rules.detections)
    box, score = np.zeros((*shape, 4), np.float32), np.zeros(shape, np.float32)
    label = np.zeros(shape, np.int32)
    for image, proposed in enumerate(proposals):
        of_image = _detect_one(
            proposed, probabilities[image], deltas[image], sizes[image], suppress
        )
        best = top(of_image[1], min(rules.detections, len(of_image[1])))
        for out, values in zip((box, score, label), of_image, strict=True):
            out[image, : len(best)] = values[best]
    return Detections(box, score, label, rules.level(box))


def _detect_one(
    proposed: Float32s, probabilities: Float32s, deltas: Float32s, size: Int32s, suppress: Suppress
) -> tuple[Float32s, Float32s, Int32s]:
    """Return the boxes, scores, and labels of the detections of an image.

    The detections are ordered by class, then by descending score.
    """
    scores = probabilities[: len(proposed), 1:]
    classes, rows = np.nonzero(scores.T > SCORE_MINIMUM)
    score = scores[rows, classes]
    moved = boxes.decode(deltas[rows, classes + 1], proposed[rows], boxes.ROI_WEIGHTS)
    box = boxes.clip(moved, *size.tolist())
    ends = np.cumsum(np.bincount(classes, minlength=scores.shape[1]))
    kept = [np.zeros(0, np.int64)]
    for first, last in zip([0, *ends[:-1]], ends, strict=True):
        if first < last:
            kept.append(
                first + suppressed(suppress, box[first:last], score[first:last], DETECTION_NMS_IOU)
            )
    chosen = np.concatenate(kept)
    return box[chosen], score[chosen], (classes[chosen] + 1).astype(np.int32)
