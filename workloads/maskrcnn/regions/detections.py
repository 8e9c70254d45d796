"""Class scores and deltas of proposals to detections: score filter, suppression within a class, best of each image.

The limits are part of the metric (reference modeling/roi_heads/box_head/inference.py). Of equal scores the lower class,
then the better proposal comes first; the reference keeps all that equal the hundredth score.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workloads.common.arrays import Float32s, Int32s
from workloads.maskrcnn import boxes
from workloads.maskrcnn.regions.proposals import top
from workloads.maskrcnn.regions.rules import DETECTION_NMS_IOU, SCORE_MINIMUM, RegionRules, Suppress, suppressed


@dataclass(frozen=True)
class Detections:
    """D detections of each of B images, best first; empty slots have label 0."""

    box: Float32s
    """(B, D, 4)"""
    score: Float32s
    """(B, D)"""
    label: Int32s
    """(B, D) classes from 1."""
    level: Int32s
    """(B, D) that the mask is pooled from."""


def detect(
    proposals: list[Float32s],
    probabilities: Float32s,
    deltas: Float32s,
    sizes: Int32s,
    rules: RegionRules,
    suppress: Suppress,
) -> Detections:
    """The detections of a batch.

    `proposals` (n_i, 4) of each image; of its first n_i regions: `probabilities` (B, R, C + 1), background first, and
    `deltas` (B, R, C + 1, 4); `sizes` (B, 2) height and width of each image without padding.
    """
    shape = (len(proposals), rules.detections)
    box, score = np.zeros((*shape, 4), np.float32), np.zeros(shape, np.float32)
    label = np.zeros(shape, np.int32)
    for image, proposed in enumerate(proposals):
        of_image = _detect_one(proposed, probabilities[image], deltas[image], sizes[image], suppress)
        best = top(of_image[1], min(rules.detections, len(of_image[1])))
        for out, values in zip((box, score, label), of_image, strict=True):
            out[image, : len(best)] = values[best]
    return Detections(box, score, label, rules.level(box))


def _detect_one(
    proposed: Float32s, probabilities: Float32s, deltas: Float32s, size: Int32s, suppress: Suppress
) -> tuple[Float32s, Float32s, Int32s]:
    """Boxes, scores and labels of an image, ordered by class, then falling."""
    scores = probabilities[: len(proposed), 1:]
    classes, places = np.nonzero(scores.T > SCORE_MINIMUM)
    score = scores[places, classes]
    moved = boxes.decode(deltas[places, classes + 1], proposed[places], boxes.ROI_WEIGHTS)
    box = boxes.clip(moved, *size.tolist())
    ends = np.cumsum(np.bincount(classes, minlength=scores.shape[1]))
    kept = [np.zeros(0, np.int64)]
    for first, last in zip([0, *ends[:-1]], ends, strict=True):
        if first < last:
            kept.append(first + suppressed(suppress, box[first:last], score[first:last], DETECTION_NMS_IOU))
    chosen = np.concatenate(kept)
    return box[chosen], score[chosen], (classes[chosen] + 1).astype(np.int32)
