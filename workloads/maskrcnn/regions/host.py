"""Proposals and training targets, computed on the CPU between the two network stages."""

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
"""Multiple to which the number of positive slots is rounded up, so that kernels are called with
only a few shapes.
"""


def proposals(
    arrays: Arrays,
    objectness: Float32s,
    deltas: Float32s,
    model: Mapping[str, Json],
    rules: RegionRules,
    suppress: Suppress,
    training: bool,
) -> list[Proposals]:
    """Return the proposals of each image from the RPN's outputs.

    The RPN's outputs are `objectness` (B, A) and `deltas` (B, A, 4). `arrays` contains the arrays
    of the batch.
    """
    levels = anchors.level_anchors(model, *arrays["image"].shape[1:3])
    return propose(objectness, deltas, levels, arrays["size"], rules, suppress, training)


def learned(
    proposed: list[Proposals],
    arrays: Arrays,
    seed: int,
    rules: RegionRules,
    every_slot: bool = False,
) -> dict[str, Array]:
    """Return the training targets of a batch.

    The dict contains the arrays of `sampled` except `object`, and `mask`, float32 (B, M, 28, 28) of
    zeros and ones.
    """
    regions = sampled(proposed, arrays, seed, rules, every_slot)
    mask = mask_targets(
        regions["box"], regions["label"], regions.pop("object"), arrays, rules.mask_side
    )
    return {**regions, "mask": mask}


def sampled(
    proposed: list[Proposals],
    arrays: Arrays,
    seed: int,
    rules: RegionRules,
    every_slot: bool = False,
) -> dict[str, Array]:
    """Return the fields of `Regions` for a batch.

    The shape of `object` is (B, M). By default, M is the number of slots that the batch needs,
    rounded up by `slots`. With `every_slot`, M is the number of all slots.
    """
    coordinates = arrays["number"], int(arrays["epoch"][0]), seed
    regions = sample(proposed, arrays["box"], arrays["label"], *coordinates, rules)
    most = rules.positives if every_slot else slots(regions.positive)
    return {**vars(regions), "object": regions.object[:, :most]}


def mask_targets(box: Float32s, label: Array, owner: Array, arrays: Arrays, side: int) -> Float32s:
    """Return mask targets (B, M, side, side) of zeros and ones for the positive regions.

    Args:
        box: Regions (B, R, 4).
        label: Classes (B, R) of the regions.
        owner: Index (B, M) of each region's object among the objects of its image.
        arrays: Arrays of the batch.
        side: Width and height of a mask.
    """
    image, slot = np.nonzero(label[:, : owner.shape[1]] > 0)
    mask = np.zeros((*owner.shape, side, side), np.float32)
    polygons = masks.Polygons(arrays["points"], arrays["polygon_ends"], arrays["object_ends"])
    objects = image * arrays["box"].shape[1] + owner[image, slot]
    mask[image, slot] = masks.targets(box[image, slot], objects, polygons, side)
    return mask


def slots(used: Array) -> int:
    """Return the number of slots that a batch needs, rounded up.

    The image with the most used slots determines the number. `used` (B, M) marks the used slots,
    which come first. The number is at least 1 and at most M.
    """
    most, available = int(used.sum(1).max(initial=1)), int(used.shape[1])
    return min(-(-most // SLOTS_ROUNDED) * SLOTS_ROUNDED, available)
