"""What is decided between the two halves of a network on a CPU, arrays to arrays: proposals, then what is learned of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workloads.api import Array, Arrays, Json
from workloads.common.arrays import Float32s
from workloads.maskrcnn import anchors, masks
from workloads.maskrcnn.regions.proposals import Proposals, propose
from workloads.maskrcnn.regions.rois import sample
from workloads.maskrcnn.regions.rules import RegionRules, Suppress

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
    """What a batch learns: `sampled` but for `object`, and `mask` (B, M, 28, 28) of zeros and ones, float32."""
    made = sampled(proposed, arrays, seed, rules, every_slot)
    mask = mask_targets(made["box"], made["label"], made.pop("object"), arrays, rules.mask_side)
    return {**made, "mask": mask}


def sampled(
    proposed: list[Proposals], arrays: Arrays, seed: int, rules: RegionRules, every_slot: bool = False
) -> dict[str, Array]:
    """The fields of a batch's `Regions`; `object` (B, M) with M as many slots as the batch needs, rounded up (`slots`), or
    all of them with `every_slot`."""
    coordinates = arrays["number"], int(arrays["epoch"][0]), seed
    regions = sample(proposed, arrays["box"], arrays["label"], *coordinates, rules)
    most = rules.positives if every_slot else slots(regions.positive)
    return {**vars(regions), "object": regions.object[:, :most]}


def mask_targets(box: Float32s, label: Array, owner: Array, arrays: Arrays, side: int) -> Float32s:
    """(B, M, side, side) zeros and ones: what the positives among regions (B, R, 4), with `label` (B, R), see of their object.

    `owner` (B, M): its place among the image's.
    """
    image, slot = np.nonzero(label[:, : owner.shape[1]] > 0)
    mask = np.zeros((*owner.shape, side, side), np.float32)
    polygons = masks.Polygons(arrays["points"], arrays["polygon_ends"], arrays["object_ends"])
    objects = image * arrays["box"].shape[1] + owner[image, slot]
    mask[image, slot] = masks.targets(box[image, slot], objects, polygons, side)
    return mask


def slots(used: Array) -> int:
    """How many of the slots (B, M), the first of which are used, an image needs at most; at least one, rounded up."""
    most, there = int(used.sum(1).max(initial=1)), int(used.shape[1])
    return min(-(-most // SLOTS_ROUNDED) * SLOTS_ROUNDED, there)
