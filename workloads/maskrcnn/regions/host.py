"""What is decided between the two halves of a network on a CPU, arrays to arrays: proposals, then what is learned of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workloads.api import Array, Arrays, Json
from workloads.maskrcnn import anchors, masks
from workloads.maskrcnn.regions.proposals import Proposals, propose
from workloads.maskrcnn.regions.rois import sample
from workloads.maskrcnn.regions.rules import Float32s, RegionRules, Suppress

SLOTS_ROUNDED = 8
"""Positive slots are cut to a multiple of this: kernels are made for few shapes."""


def proposals(
    arrays: Arrays,
    objectness: Float32s,
    deltas: Float32s,
    model: Mapping[str, Json],
    rules: RegionRules,
    suppress: Suppress,
    training: bool,
) -> list[Proposals]:
    """Those of each image of a batch's `arrays`, from RPN's `objectness` (B, A) and `deltas` (B, A, 4)."""
    levels = anchors.level_anchors(model, *arrays["image"].shape[1:3])
    return propose(objectness, deltas, levels, arrays["size"], rules, suppress, training)


def learned(
    proposed: list[Proposals], arrays: Arrays, seed: int, rules: RegionRules, every_slot: bool = False
) -> dict[str, Array]:
    """What a batch learns: the fields of `Regions` but `object`, and `mask` (B, M, 28, 28) of zeros and ones, float32.

    M is as many positive slots as the batch needs, rounded up (`slots`), or all of them with `every_slot`.
    """
    coordinates = arrays["number"], int(arrays["epoch"][0]), seed
    regions = sample(proposed, arrays["box"], arrays["label"], *coordinates, rules)
    image, slot = np.nonzero(regions.positive)
    side, most = rules.mask_side, rules.positives if every_slot else slots(regions.positive)
    mask = np.zeros((len(proposed), most, side, side), np.float32)
    objects = image * arrays["box"].shape[1] + regions.object[image, slot]
    polygons = masks.Polygons(arrays["points"], arrays["polygon_ends"], arrays["object_ends"])
    mask[image, slot] = masks.targets(regions.box[image, slot], objects, polygons, side)
    return {**{name: getattr(regions, name) for name in ("box", "level", "label", "weight", "delta")}, "mask": mask}


def slots(used: Array) -> int:
    """How many of the slots (B, M), the first of which are used, an image needs at most; at least one, rounded up."""
    most, there = int(used.sum(1).max(initial=1)), int(used.shape[1])
    return min(-(-most // SLOTS_ROUNDED) * SLOTS_ROUNDED, there)
