"""Sampling of training regions: proposals are matched with objects and drawn by hash.

The arrays have fixed sizes. The positive regions of an image come first, followed by background
regions, and then by unused slots with weight 0. The first `RegionRules.positives` slots therefore
contain all regions that train the mask head (reference modeling/roi_heads/).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workloads.common.arrays import Float32s, Int32s, Int64s
from workloads.common.randomness import UInt64s, bits, stream
from workloads.maskrcnn import boxes
from workloads.maskrcnn.regions.proposals import Proposals
from workloads.maskrcnn.regions.rules import MATCH_IOU, RegionRules

KEY = "regions"
"""Name of the random stream of the sampling hash."""
OF_ANCHORS, OF_OBJECTS = 0, 1
"""First coordinate of the sampling hash. The coordinate determines whether the next coordinate
is the index of an anchor or of an object.
"""


@dataclass(frozen=True)
class Regions:
    """R sampled regions for each of B images.

    Only the first M regions of an image can be positive.
    """

    box: Float32s
    """Boxes (B, R, 4) of the regions."""
    level: Int32s
    """Index (B, R) of the pyramid level from which each region is pooled. The finest level is 0."""
    label: Int32s
    """Classes (B, R) of the regions, starting at 1. Background regions and unused slots have
    class 0.
    """
    weight: Float32s
    """Weights (B, R) of the slots: 1 for used slots, 0 for unused slots."""
    delta: Float32s
    """Regression targets (B, R, 4), which are 0 unless the region is positive."""
    object: Int32s
    """Index (B, M) of the matched object within its image. The index is 0 unless the region is
    positive.
    """

    @property
    def positive(self) -> np.ndarray:
        """Return whether each of the first M regions is positive, (B, M)."""
        return self.label[:, : self.object.shape[1]] > 0


def sample(
    proposals: list[Proposals],
    box: Float32s,
    label: Int32s,
    number: Int64s,
    epoch: int,
    seed: int,
    rules: RegionRules,
) -> Regions:
    """Return the regions of a batch, sampled from proposals and objects of each image.

    The objects of an image are also candidates for regions. The hash depends on the seed, the
    epoch, the image number, and the anchor of the proposal or the slot of the object. The sample
    therefore does not change if rounding changes the order of the proposals.

    Args:
        proposals: Proposals of each image.
        box: Boxes (B, G, 4) of the objects.
        label: Classes (B, G) from 1, or 0 for an empty slot.
        number: Index (B,) of each image in the data set.
        epoch: Number of the epoch.
        seed: Seed of the run.
        rules: Numbers and limits of regions.
    """
    shape, key = (len(proposals), rules.regions), stream(seed, KEY, epoch)
    regions = Regions(
        np.zeros((*shape, 4), np.float32),
        np.zeros(shape, np.int32),
        np.zeros(shape, np.int32),
        np.zeros(shape, np.float32),
        np.zeros((*shape, 4), np.float32),
        np.zeros((shape[0], rules.positives), np.int32),
    )
    for image, proposed in enumerate(proposals):
        slots = np.flatnonzero(label[image])
        candidates = np.concatenate([proposed.box, box[image, slots]])
        matched, positive = match(candidates, box[image, slots])
        coordinates = [(OF_ANCHORS, proposed.anchor), (OF_OBJECTS, slots)]
        random = np.concatenate(
            [bits(key, int(number[image]), *coordinate) for coordinate in coordinates]
        )
        chosen = _drawn(positive, random, rules.positives)
        count = len(chosen)
        chosen = np.concatenate([chosen, _drawn(~positive, random, rules.regions - count)])
        regions.box[image, : len(chosen)] = candidates[chosen]
        regions.weight[image, : len(chosen)] = 1
        objects = slots[matched[chosen[:count]]]
        regions.object[image, :count] = objects
        regions.label[image, :count] = label[image, objects]
        regions.delta[image, :count] = boxes.encode(
            box[image, objects], candidates[chosen[:count]], boxes.ROI_WEIGHTS
        )
    regions.level[:] = rules.level(regions.box)
    return regions


def hashes(seed: int, epoch: int, number: Int64s, kind: int, count: int) -> UInt64s:
    """Return a hash for each of an image's first `count` anchors or objects, (B, count).

    `sample` chooses the candidates with the lowest hashes among the allowed candidates.

    `kind` is OF_ANCHORS or OF_OBJECTS. `number` (B,) contains the indices of the images in the data
    set.
    """
    return bits(stream(seed, KEY, epoch), number[:, None], kind, np.arange(count))


def match(candidates: Float32s, objects: Float32s) -> tuple[Int64s, np.ndarray]:
    """Match candidates (n, 4) with objects (g, 4).

    Returns:
        Two arrays (n,). The first array contains the index of the object that each candidate
        overlaps most. For equal overlaps, the first object is used. The second array is True for
        positive candidates, whose overlap is at least MATCH_IOU.
    """
    if not len(objects):
        return np.zeros(len(candidates), np.int64), np.zeros(len(candidates), bool)
    overlap = boxes.iou(candidates, objects)
    matched = overlap.argmax(axis=1)
    return matched, overlap[np.arange(len(candidates)), matched] >= MATCH_IOU


def _drawn(allowed: np.ndarray, random: np.ndarray, most: int) -> Int64s:
    """Return the indices of at most `most` allowed candidates with the lowest hashes.

    The indices are sorted by hash.
    """
    indices = np.flatnonzero(allowed)
    return indices[np.argsort(random[indices], kind="stable")[:most]]
