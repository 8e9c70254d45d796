"""Numbers of proposals, regions, and detections, and the pooling level of a region."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from workloads.api import Json
from workloads.common.arrays import Float32s, Int32s, Int64s
from workloads.maskrcnn.boxes import area, functions

Suppress = Callable[[Float32s, Float32s, float], Int64s]
"""Non-maximum suppression of a framework.

The arguments are boxes (n, 4), scores (n,), and a maximum overlap. In these arguments, the boxes do
*not* include their right and bottom edges. If the overlap of two boxes is larger than the maximum,
the box with the lower score is dropped. The function returns the indices (k,) of the kept boxes,
with the best box first. For equal scores, the box with the lower index is better.
"""

PROPOSAL_NMS_IOU = 0.7
DETECTION_NMS_IOU = 0.5
SCORE_MINIMUM = 0.05
"""Score that a detection must exceed."""
MATCH_IOU = 0.5
"""Minimum IoU of a region and an object for a positive region.

All other regions are background regions.
"""
ROUNDING = np.float32(1e-6)
"""Number that is added to the ratio of the side lengths before taking the logarithm (reference
poolers.py).
"""


@dataclass(frozen=True)
class RegionRules:
    """Numbers and limits of a model's regions (reference config/defaults.py)."""

    before_nms: tuple[int, int]
    """Number of anchors decoded per level and image, in training and in evaluation."""
    after_nms: tuple[int, int]
    """Number of anchors kept per level and image after suppression, in training and in
    evaluation.
    """
    of_batch: int
    """Number of proposals for *all* images of a device together, in training."""
    of_image: int
    """Number of proposals per image in evaluation."""
    regions: int
    """Number of regions sampled per image in training."""
    positives: int
    """Maximum number of positive regions per image."""
    detections: int
    """Number of detections per image."""
    levels: int
    """Number of pyramid levels from which regions are pooled. The finest level has stride 4."""
    level_size: float
    """Side length in pixels of the smallest region of level `level_base`."""
    level_base: int
    """Level of a region with side length `level_size`. Levels are numbered as in the reference,
    so the finest level is 2.
    """
    mask_side: int
    """Width and height of the masks that the network returns."""

    @classmethod
    def of(cls, model: Mapping[str, Json], of_batch: int) -> RegionRules:
        """Return the numbers and limits in the settings `model`.

        `of_batch` is the hyperparameter `num_image_candidates`.
        """
        before, after, regions = (
            model["proposals_before_nms"],
            model["proposals_after_nms"],
            int(model["rois"]),
        )
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
        """Return the pyramid level (…,) from which each of the boxes (…, 4) is pooled.

        The level is floor(base + log2(√area / size + 1e-6)) - 2, clipped to the existing levels.
        The finest level is 0.
        """
        xp = functions(boxes)
        ratio = xp.sqrt(area(boxes)) / np.float32(self.level_size) + ROUNDING
        level = xp.floor(xp.log2(ratio) + np.float32(self.level_base)) - 2
        limited: Int32s = xp.clip(level, 0, self.levels - 1).astype(np.int32)
        return limited


def suppressed(suppress: Suppress, boxes: Float32s, scores: Float32s, most_iou: float) -> Int64s:
    """Return the indices of the boxes (n, 4) that remain after non-maximum suppression.

    The indices are sorted by score, with the best box first. A box includes its right and bottom
    edge pixels, so the function adds 1 to these edges before calling `suppress`. With this
    addition, every framework keeps the same boxes as the reference. Without the addition, the
    computed overlap of small boxes would be too small.
    """
    edges = boxes.copy()
    edges[:, 2:] += 1
    return suppress(edges, scores, most_iou)


def stacked(parts: list[Float32s]) -> Float32s:
    """Return the boxes (n_i, 4) of B images as an array (B, n, 4), padded with zeros.

    n is the largest n_i, but at least 1.
    """
    out = np.zeros((len(parts), max(1, *map(len, parts)), 4), np.float32)
    for number, part in enumerate(parts):
        out[number, : len(part)] = part
    return out
