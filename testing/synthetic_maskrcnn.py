"""Small synthetic Mask R-CNN test cases, identical in every framework's environment."""

import dataclasses

import numpy as np

from suite.catalog.sets import named_sets
from testing import synthetic
from workloads.api import Batch, DatasetInfo
from workloads.common.coco.masks import Polygons
from workloads.common.randomness import bits, integers, stream, uniform
from workloads.maskrcnn import anchors, boxes, network
from workloads.maskrcnn.settings import DEMO_MODEL, REFERENCE_MODEL
from workloads.maskrcnn.workload import MaskRCNN

NARROW = {
    **{
        "trunk_blocks": [1, 2, 1, 1],
        "trunk_width": 16,
        "fpn_channels": 24,
        "anchor_sizes": [16, 28, 48, 80, 128],
    },
    **{
        "padded_shapes": [[96, 128], [128, 96]],
        "rpn_samples": 48,
        "rois": 40,
        "proposals_before_nms": [120, 80],
    },
    **{
        "proposals_after_nms": [60, 40],
        "proposals_test": 60,
        "detections": 20,
        "roi_level_size": 40,
    },
    **{"box_features": 64, "mask_convolutions": 3, "mask_channels": 20},
}
CASES = {
    "frozen": {"model": {**REFERENCE_MODEL, **NARROW}, "classes": 7, "batch": 2, "candidates": 70},
    "demo": {"model": DEMO_MODEL, "classes": 10, "batch": 4, "candidates": 160},
}
"""Model, classes, images per step, and proposals per device of each test case.

The case `frozen` has the same layers as the reference model, but fewer channels.
"""
STRIDES = (4, 8, 16)
"""Strides of the feature maps that `maps_and_regions` returns."""
RATE, DECAY = 1e-3, 0.05
OBJECTS = 5
LOUD = {
    "frozen": {
        "rpn.cls_logits": 30,
        "rpn.bbox_pred": 10,
        "box.cls_score": 10,
        "box.bbox_pred": 100,
    },
    "demo": {"rpn.cls_logits": 3, "box.bbox_pred": 2, "mask.mask_fcn_logits": 0.1},
}
"""Factors by which the initial weights of some layers are multiplied.

The outputs of these layers then vary as much as those of a trained network, so that rounding does
not change the order of scores. The factors are small enough that scores are below 1.
"""


def workload(
    case: str, framework: str, devices: int = 1, compile: str = "", **changes: object
) -> MaskRCNN:
    """Return the workload of a test case, with a constant learning rate and no warm-up."""
    chosen = CASES[case]
    changed = {"learning_rate": RATE, "weight_decay": DECAY, "warmup_steps": 0}
    changed["num_image_candidates"] = chosen["candidates"]
    values = synthetic.hyperparameters(named_sets(MaskRCNN)["demo"], **changed)
    settings = synthetic.settings(
        "maskrcnn", framework=framework, devices=devices,
        global_batch_size=chosen["batch"] * devices, seed=5, dataset="coco-demo",
        model=chosen["model"], targets={"BBOX": 0.3, "SEGM": 0.3}, hyperparameters=values,
        options={
            "evaluation_batch_size": chosen["batch"],
            "compile": synthetic.compiled(framework, compile),
        },
    )  # fmt: skip
    sizes = {"classes": chosen["classes"], "objects_per_image_most": OBJECTS}
    dataset_info = DatasetInfo(synthetic.IMAGES, synthetic.IMAGES, sizes, "synthetic")
    return MaskRCNN(dataclasses.replace(settings, **changes), dataset_info)


def weights(workload: MaskRCNN) -> dict[str, np.ndarray]:
    """Return initial weights that resemble those of a trained network.

    The predictors' weights are multiplied by LOUD. Noise is added to scales, shifts, and biases.
    """
    case = "frozen" if workload.network.frozen else "demo"
    factors = {f"{name}.weight": factor for name, factor in LOUD[case].items()}
    return synthetic.shaken(
        (name, factors.get(name, 1) * value) for name, value in workload.initial_weights(7)
    )


def statistics(workload: MaskRCNN) -> dict[str, np.ndarray]:
    """Return running statistics that resemble those of a trained network.

    Frozen batch-norm layers have no running statistics.
    """
    return synthetic.statistics(network.statistics(workload.network))


def batch(workload: MaskRCNN, step: int, replica: int = 0, empty: bool = False) -> Batch:
    """Return a replica's batch of random data.

    The batch contains smooth random images, random objects, and sampled anchors. If `empty` is
    true, the images contain no objects.
    """
    settings, count = workload.settings, workload.images_per_replica
    numbers = synthetic.numbers_of(settings, step, replica, count)
    height, width = workload.image_shapes[step % 2]
    cut = integers(bits(stream(21, "cut"), numbers[:, None], np.arange(2)), 20)
    size = (np.array([height, width]) - cut).astype(np.int32)
    arrays = {
        "image": synthetic.pictures(numbers, max(height, width))[:, :height, :width],
        "size": size,
    }
    arrays |= {
        "number": numbers,
        "epoch": np.array([step], np.int64),
        **objects(workload, numbers, size, empty),
    }
    arrays |= sampled_anchors(workload, numbers, (height, width), arrays)
    arrays |= {"valid": np.ones(count, bool), "width": size[:, 1] * 5, "height": size[:, 0] * 5}
    return Batch(
        arrays, float(count), float(settings.global_batch_size), settings.global_batch_size
    )


def objects(
    workload: MaskRCNN, numbers: np.ndarray, size: np.ndarray, empty: bool
) -> dict[str, np.ndarray]:
    """Return random boxes, their labels, and octagons inside of the boxes.

    Each image has a fixed number of slots for objects. The objects fill only the first slots.
    """
    shape = (len(numbers), OBJECTS)
    random = uniform(
        bits(
            stream(22, "objects"), numbers[:, None, None], np.arange(OBJECTS)[:, None], np.arange(4)
        )
    )
    limits = (size[:, None, ::-1] - 1).astype(np.float64)
    corner, side = random[..., :2] * limits * 0.7, 8 + random[..., 2:] * limits * 0.5
    box = np.concatenate([corner, np.minimum(corner + side, limits)], axis=-1).astype(np.float32)
    count = 0 if empty else 1 + integers(bits(stream(23, "count"), numbers), OBJECTS)
    used = np.arange(OBJECTS) < np.broadcast_to(count, len(numbers))[:, None]
    label = 1 + integers(
        bits(stream(24, "labels"), numbers[:, None], np.arange(OBJECTS)), workload.network.classes
    )
    angles = 2 * np.pi * (np.arange(8) + 0.3) / 8
    octagon = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    middle, half = (box[..., :2] + box[..., 2:]) / 2, (box[..., 2:] - box[..., :2]) / 2
    points = middle[used][:, None] + half[used][:, None] * octagon
    return {
        "box": np.where(used[..., None], box, 0),
        "label": np.where(used, label, 0).astype(np.int32),
        "points": points.reshape(-1, 2).astype(np.float32),
        "polygon_ends": 8 * np.arange(1, used.sum() + 1),
        "object_ends": np.cumsum(used.ravel()).reshape(shape).ravel(),
    }


def some_objects(
    rng: np.random.Generator, counts: list[int]
) -> tuple[list[list[np.ndarray]], Polygons]:
    """Return objects with `counts` polygons each, as nested lists and as flat arrays.

    An object may have 0 polygons.
    """
    plain = [
        [
            (rng.uniform(-5, 105, 2) + rng.uniform(-30, 30, (rng.integers(3, 9), 2))).astype(
                np.float32
            )
            for _ in range(n)
        ]
        for n in counts
    ]
    every = [points for polygons in plain for points in polygons]
    ends = np.cumsum([len(points) for points in every])
    return plain, Polygons(np.concatenate(every), ends, np.cumsum(counts))


def regions_of(
    plain: list[list[np.ndarray]], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return thirty indices of objects, and regions near these objects.

    The objects are those of `some_objects`, and each object must have at least one polygon. The
    indices have shape (30,), and the regions have shape (30, 4).
    """
    objects = rng.integers(0, len(plain), 30)
    low = np.array([plain[number][0].min(0) for number in objects]) + rng.uniform(-10, 10, (30, 2))
    return objects, np.concatenate([low, low + rng.uniform(0.2, 60, (30, 2))], 1).astype(np.float32)


def sampled_anchors(
    workload: MaskRCNN,
    numbers: np.ndarray,
    shape: tuple[int, int],
    of_objects: dict[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """Return random sampled anchors for each image.

    In images with objects, 1/8 of the sampled anchors are positive. The last few slots for anchors
    are unused.
    """
    every = np.concatenate(anchors.level_anchors(workload.settings.model, *shape))
    samples = int(workload.settings.model["rpn_samples"])
    anchor = integers(bits(stream(25, "anchors"), numbers[:, None], np.arange(samples)), len(every))
    used = np.arange(samples) < samples - 3 * (1 + numbers[:, None] % 3)
    positive = used & (np.arange(samples) < samples // 8) & of_objects["label"].any(1)[:, None]
    offset = boxes.encode(
        of_objects["box"][:, :1] + np.float32(1), every[anchor], boxes.RPN_WEIGHTS
    )
    return {
        "anchor": np.where(used, anchor, 0).astype(np.int32),
        "anchor_label": positive.astype(np.float32),
        "anchor_weight": used.astype(np.float32),
        "anchor_offset": np.where(positive[..., None], offset, 0).astype(np.float32),
    }


def maps_and_regions(side: int) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
    """Return feature maps, boxes, levels, and gradients for tests of region pooling.

    The shapes are: three feature maps (2, 5, h, w), boxes (2, 40, 4) including extreme boxes, the
    feature-map levels of the boxes (2, 40), and gradients (80, 5, side, side) of the pooled
    regions.
    """
    rng = np.random.default_rng(3)
    maps = [
        rng.normal(size=(2, 5, 96 // stride, 128 // stride)).astype(np.float32)
        for stride in STRIDES
    ]
    corner = rng.uniform(-8, 110, (2, 40, 2))
    box = np.concatenate([corner, corner + rng.uniform(0, 90, (2, 40, 2))], -1).astype(np.float32)
    box[0, :4] = [[0, 0, 0, 0], [127, 95, 127, 95], [0, 0, 127, 95], [-40, -40, -30, -30]]
    level = rng.integers(0, 3, (2, 40))
    return maps, box, level, rng.normal(size=(80, 5, side, side)).astype(np.float32)


def clustered(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return boxes (count, 4) in clusters of 20, and their scores in descending order.

    Many of the scores are equal.
    """
    rng = np.random.default_rng(9)
    middles = (
        rng.uniform(0, 600, (count // 20, 2)).repeat(20, axis=0) + rng.normal(size=(count, 2)) * 6
    )
    sides = rng.uniform(8, 60, (count // 20, 2)).repeat(20, axis=0) + rng.uniform(0, 9, (count, 2))
    box = np.concatenate([middles, middles + sides], 1).astype(np.float32)
    return box, np.sort(np.round(rng.uniform(size=count), 2).astype(np.float32))[::-1].copy()


def by_anchor(proposals: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return the image, the anchor, and the box of each proposal as an array (n, 6).

    The proposals are sorted by image and anchor instead of by score. `proposals` contains a pair
    (boxes, anchors) for each image.
    """
    found = [
        np.column_stack([np.full(len(box), image), anchor, box])
        for image, (box, anchor) in enumerate(proposals)
    ]
    return np.concatenate([rows[np.argsort(rows[:, 1])] for rows in found])


def torchvision_name(name: str) -> str:
    """Return the name that torchvision's MaskRCNN uses for a parameter."""
    part, _, rest = name.partition(".")
    layer, _, kind = rest.rpartition(".")
    if part == "fpn":
        return f"backbone.fpn.{layer[:-1]}_blocks.{layer[-1]}.0.{kind}"
    if part == "rpn":
        return f"rpn.head.conv.0.0.{kind}" if layer == "conv" else f"rpn.head.{rest}"
    if part == "box":
        return (
            f"roi_heads.box_head.{rest}"
            if layer.startswith("fc")
            else f"roi_heads.box_predictor.{rest}"
        )
    if part == "mask":
        in_head = layer[:4] == "conv" and layer[4:] in "0123"
        return (
            f"roi_heads.mask_head.{layer[-1]}.0.{kind}"
            if in_head
            else f"roi_heads.mask_predictor.{rest}"
        )
    return f"backbone.body.{name}"
