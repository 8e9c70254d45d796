"""Which proposals are learned, and what: matched with objects, sampled by hash, in arrays of fixed size.

The positives of an image come first, then background, then unused slots of weight 0: so the first `RegionRules.positives` slots
hold everything that the mask head learns (reference modeling/roi_heads/).
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
"""Stream of the hash."""
OF_ANCHORS, OF_OBJECTS = 0, 1
"""Coordinates of the hash: what the next one counts."""


@dataclass(frozen=True)
class Regions:
    """R regions of each of B images, the first M of which may be positive."""

    box: Float32s
    """(B, R, 4)"""
    level: Int32s
    """(B, R) that each is pooled from, the finest 0."""
    label: Int32s
    """(B, R) classes from 1; 0: background, or unused."""
    weight: Float32s
    """(B, R) 1, or 0 where unused."""
    delta: Float32s
    """(B, R, 4) to learn; 0 unless positive."""
    object: Int32s
    """(B, M) place of the matched object among its image's; 0 unless positive."""

    @property
    def positive(self) -> np.ndarray:
        """(B, M) which of the first slots are positive."""
        return self.label[:, : self.object.shape[1]] > 0


def sample(
    proposals: list[Proposals], box: Float32s, label: Int32s, number: Int64s, epoch: int, seed: int, rules: RegionRules
) -> Regions:
    """The regions of a batch, from the proposals of each image and its objects.

    `box` (B, G, 4), `label` (B, G) classes from 1, 0 where there is none; `number` (B,) of each image in the data set. An
    image's objects are proposals too. The choice is a hash of seed, epoch, number and the proposal's anchor or the object's
    slot: proposals that change places by rounding change nothing.
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
        there = np.flatnonzero(label[image])
        candidates = np.concatenate([proposed.box, box[image, there]])
        matched, positive = match(candidates, box[image, there])
        coordinates = [(OF_ANCHORS, proposed.anchor), (OF_OBJECTS, there)]
        random = np.concatenate([bits(key, int(number[image]), *coordinate) for coordinate in coordinates])
        chosen = _drawn(positive, random, rules.positives)
        count = len(chosen)
        chosen = np.concatenate([chosen, _drawn(~positive, random, rules.regions - count)])
        regions.box[image, : len(chosen)] = candidates[chosen]
        regions.weight[image, : len(chosen)] = 1
        objects = there[matched[chosen[:count]]]
        regions.object[image, :count] = objects
        regions.label[image, :count] = label[image, objects]
        regions.delta[image, :count] = boxes.encode(box[image, objects], candidates[chosen[:count]], boxes.ROI_WEIGHTS)
    regions.level[:] = rules.level(regions.box)
    return regions


def hashes(seed: int, epoch: int, number: Int64s, kind: int, count: int) -> UInt64s:
    """(B, count) what `sample` draws by: of the first anchors or objects (`kind`) of images with these `number` (B,)."""
    return bits(stream(seed, KEY, epoch), number[:, None], kind, np.arange(count))


def match(candidates: Float32s, objects: Float32s) -> tuple[Int64s, np.ndarray]:
    """For candidates (n, 4): which object (g, 4) each overlaps most, of equals the first, and whether by enough to be
    positive."""
    if not len(objects):
        return np.zeros(len(candidates), np.int64), np.zeros(len(candidates), bool)
    overlap = boxes.iou(candidates, objects)
    matched = overlap.argmax(axis=1)
    return matched, overlap[np.arange(len(candidates)), matched] >= MATCH_IOU


def _drawn(allowed: np.ndarray, random: np.ndarray, most: int) -> Int64s:
    """At most so many of the allowed places, those with the lowest hashes, in their order."""
    places = np.flatnonzero(allowed)
    return places[np.argsort(random[places], kind="stable")[:most]]
