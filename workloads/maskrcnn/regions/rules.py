"""How many proposals, regions and detections there are, and from which level each region is pooled; types that all share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from workloads.api import Json
from workloads.common.arrays import Float32s, Int32s, Int64s
from workloads.maskrcnn.boxes import area, functions

Suppress = Callable[[Float32s, Float32s, float], Int64s]
"""A framework's non-maximum suppression: boxes (n, 4) whose right and bottom edges do *not* belong to them, scores (n,),
and the overlap above which the worse box goes, to the places (k,) of those that are kept, best first; of equal scores the
first place."""

PROPOSAL_NMS_IOU = 0.7
DETECTION_NMS_IOU = 0.5
SCORE_MINIMUM = 0.05
"""Scores of detections must be larger."""
MATCH_IOU = 0.5
"""A region that overlaps an object by so much or more is positive, every other one is background."""
ROUNDING = np.float32(1e-6)
"""Added to the side's ratio before its logarithm (reference poolers.py)."""


@dataclass(frozen=True)
class RegionRules:
    """Counts of a model (reference config/defaults.py)."""

    before_nms: tuple[int, int]
    """Anchors of a level and image that are decoded, in training and in evaluation."""
    after_nms: tuple[int, int]
    """Of these, how many suppression leaves."""
    of_batch: int
    """Proposals of *all* images of a device in training."""
    of_image: int
    """Proposals of one image in evaluation."""
    regions: int
    """Learned of an image."""
    positives: int
    """Of these, positive at most."""
    detections: int
    """Of an image."""
    levels: int
    """That regions are pooled from; the finest has stride 4."""
    level_size: float
    """Side in pixels of the smallest region of level `level_base`; level 2 is the finest."""
    level_base: int
    mask_side: int
    """Of a mask that the network gives."""

    @classmethod
    def of(cls, model: Mapping[str, Json], of_batch: int) -> RegionRules:
        """Those of a `model`; `of_batch`: the hyperparameter `num_image_candidates`."""
        before, after, regions = model["proposals_before_nms"], model["proposals_after_nms"], int(model["rois"])
        return cls(
            before_nms=(int(before[0]), int(before[1])),
            after_nms=(int(after[0]), int(after[1])),
            of_batch=int(of_batch),
            of_image=int(model["proposals_test"]),
            regions=regions,
            positives=int(regions * float(model["roi_positive_fraction"])),
            detections=int(model["detections"]),
            levels=len(model["trunk_blocks"]),
            level_size=float(model["roi_level_size"]),
            level_base=int(model["roi_level_base"]),
            mask_side=2 * int(model["mask_pool"]),
        )

    def level(self, boxes: Float32s) -> Int32s:
        """(…,) which level, counted from 0, boxes (…, 4) are pooled from: floor(base + log2(√area / size + 1e-6)),
        limited."""
        xp = functions(boxes)
        ratio = xp.sqrt(area(boxes)) / np.float32(self.level_size) + ROUNDING
        level = xp.floor(xp.log2(ratio) + np.float32(self.level_base)) - 2
        limited: Int32s = xp.clip(level, 0, self.levels - 1).astype(np.int32)
        return limited


def suppressed(suppress: Suppress, boxes: Float32s, scores: Float32s, most_iou: float) -> Int64s:
    """Places of the boxes (n, 4), best first, that suppression keeps: 1 is added to right and bottom, which belong to a
    box here.

    With it every framework's suppression gives the reference's result; without, small boxes overlap too little.
    """
    edges = boxes.copy()
    edges[:, 2:] += 1
    return suppress(edges, scores, most_iou)


def stacked(parts: list[Float32s]) -> Float32s:
    """Boxes (n_i, 4) of images in one array (B, most, 4), filled up with zeros; `most` is at least 1."""
    out = np.zeros((len(parts), max(1, *map(len, parts)), 4), np.float32)
    for number, part in enumerate(parts):
        out[number, : len(part)] = part
    return out
