"""Sampling of regions for training: proposals are matched with objects and sampled by hash.

The arrays have fixed sizes. The positives of an image come first, then background, then unused
slots of weight 0. The first `RegionRules.positives` slots therefore contain all regions that train
the mask head (reference modeling/roi_heads/).
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
"""Random stream of the hash."""
OF_ANCHORS, OF_OBJECTS = 0, 1
"""Coordinate of the hash that determines whether the next coordinate counts anchors or objects."""


@dataclass(frozen=True)
class Regions:
    """R regions for each of B images. Only the first M regions of an image can be positive."""

    box: Float32s
    """(B, R, 4)"""
    level: Int32s
    """(B, R) level from which each region is pooled, the finest 0."""
    label: Int32s
    """(B, R) classes from 1, or 0 for background and unused slots."""
    weight: Float32s
    """(B, R) 1, or 0 for unused slots."""
    delta: Float32s
    """(B, R, 4) regression targets, 0 unless the region is positive."""
    object: Int32s
    """(B, M) index of the matched object in its image, 0 unless the region is positive."""

    @property
    def positive(self) -> np.ndarray:
        """Return an array (B, M) that is True for the positive regions."""
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
    """Return the regions of a batch, sampled from the proposals and the objects of each image.

    The objects of an image are also candidates for regions. The hash depends on seed, epoch, image
    number, and the anchor of the proposal or the slot of the object. If rounding changes the order
    of the proposals, the sample stays the same.

    Args:
        proposals: Proposals of each image.
        box: (B, G, 4) objects.
        label: (B, G) classes from 1, or 0 for an empty slot.
        number: (B,) index of each image in the data set.
        epoch: Number of the epoch.
        seed: Seed of the run.
        rules: Counts of the model.
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
    """Return a hash for each of the first `count` anchors or objects of each image, (B, count).

    `sample` chooses the allowed candidates with the lowest hashes.

    `kind` is OF_ANCHORS or OF_OBJECTS. `number` (B,) are the indices of the images in the data set.
    """
    return bits(stream(seed, KEY, epoch), number[:, None], kind, np.arange(count))


def match(candidates: Float32s, objects: Float32s) -> tuple[Int64s, np.ndarray]:
    """Match candidates (n, 4) with objects (g, 4).

    Returns:
        The object (n,) with the largest overlap for each candidate, the first if several are equal,
        and whether each candidate (n,) is positive, that is, its overlap is at least MATCH_IOU.
    """
    if not len(objects):
        return np.zeros(len(candidates), np.int64), np.zeros(len(candidates), bool)
    overlap = boxes.iou(candidates, objects)
    matched = overlap.argmax(axis=1)
    return matched, overlap[np.arange(len(candidates)), matched] >= MATCH_IOU


def _drawn(allowed: np.ndarray, random: np.ndarray, most: int) -> Int64s:
    """Return the indices of the `most` candidates with the lowest hashes, in order."""
    indices = np.flatnonzero(allowed)
    return indices[np.argsort(random[indices], kind="stable")[:most]]
