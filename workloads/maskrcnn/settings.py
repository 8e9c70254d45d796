"""Settings of Mask R-CNN: model sizes, targets, and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.api import Json, WorkloadOptions, hyperparameter, option
from workloads.common.coco.workload import DetectionOptions
from workloads.common.cores import DataThreadsOptions
from workloads.common.images.workload import ImageOptions
from workloads.common.networks.backbones import BackboneOptions

DEMO_TARGETS: Mapping[str, float] = {"BBOX": 0.35, "SEGM": 0.28}
"""Targets of the demo for the COCO AP of boxes and masks, by log name.

A single evaluation must reach both targets.
"""

REFERENCE_MODEL: Mapping[str, Json] = {
    "image_size": 800,
    "image_size_most": 1333,
    "padded_shapes": [[800, 1344], [800, 1216], [800, 1088], [1344, 800], [1216, 800], [1088, 800]],
    "trunk_blocks": [3, 4, 6, 3],
    "trunk_width": 64,
    "trunk_norm": "frozen",
    "fpn_channels": 256,
    "anchor_sizes": [32, 64, 128, 256, 512],
    "anchor_ratios": [0.5, 1.0, 2.0],
    "strides": [4, 8, 16, 32, 64],
    "rpn_samples": 256,
    "rois": 512,
    "roi_positive_fraction": 0.25,
    "proposals_before_nms": [2000, 1000],
    "proposals_after_nms": [2000, 1000],
    "proposals_test": 1000,
    "detections": 100,
    "roi_level_size": 224,
    "roi_level_base": 4,
    "box_features": 1024,
    "mask_convolutions": 4,
    "mask_channels": 256,
    "box_pool": 7,
    "mask_pool": 14,
    "classes": 80,
}
"""Model settings of the reference (config/defaults.py and configs/e2e_mask_rcnn_R_50_FPN_1x.yaml).
Only `padded_shapes` differs from the reference. Each padded shape is (height, width). A batch is
padded to the smallest padded shape into which all images of the batch fit. In contrast, the
reference pads to the largest image of the batch. The settings of proposals are pairs (training,
test).
"""
DEMO_MODEL: Mapping[str, Json] = {
    **REFERENCE_MODEL,
    "image_size": 96,
    "image_size_most": 128,
    "padded_shapes": [[96, 128], [128, 96]],
    "trunk_blocks": [1, 1, 1],
    "trunk_width": 16,
    "trunk_norm": "batch",
    "fpn_channels": 32,
    "anchor_sizes": [17, 26, 38, 58],
    "strides": [4, 8, 16, 32],
    "rpn_samples": 64,
    "rois": 32,
    "proposals_before_nms": [100, 100],
    "proposals_after_nms": [100, 100],
    "proposals_test": 50,
    "detections": 50,
    "roi_level_size": 24,
    "roi_level_base": 3,
    "box_features": 128,
    "mask_convolutions": 2,
    "mask_channels": 32,
    "classes": 10,
}
"""Smaller model for demos (docs/reference/workloads/maskrcnn.md)."""


def with_shapes(model: Mapping[str, Json], text: str) -> Mapping[str, Json]:
    """Return the model settings with the padded shapes of the string `text`.

    An example is `800x1344+1344x800`. The string `auto` does not change the model settings.

    Raises:
        ValueError: A side length is not a multiple of 32, or an orientation has no shape.
    """
    if text == "auto":
        return model
    shapes = [tuple(int(side) for side in shape.split("x")) for shape in text.split("+")]
    invalid = [side for shape in shapes for side in shape if side % 32 or not side]
    if invalid:
        raise ValueError(
            f"workload.padded_shapes={text}: {invalid[0]} is not a multiple of 32. Set"
            f" {default_shapes(model)}"
        )
    if (
        min(width - height for height, width in shapes) >= 0
        or max(width - height for height, width in shapes) <= 0
    ):
        raise ValueError(
            f"workload.padded_shapes={text}: landscape and portrait images need a shape each. Set"
            f" {default_shapes(model)}"
        )
    ordered = sorted(
        set(shapes), key=lambda shape: (shape[0] > shape[1], -shape[0] * shape[1], shape)
    )
    return {**model, "padded_shapes": [list(shape) for shape in ordered]}


def default_shapes(model: Mapping[str, Json]) -> str:
    """Return the padded shapes of a model as a string for `workload.padded_shapes`."""
    return "+".join(f"{height}x{width}" for height, width in model["padded_shapes"])


@dataclass(frozen=True, kw_only=True)
class MaskRCNNOptions(
    DetectionOptions, BackboneOptions, ImageOptions, DataThreadsOptions, WorkloadOptions
):
    """Options `workload.*` of Mask R-CNN."""

    name: str = "maskrcnn"
    weight_decay: float = hyperparameter("L2 decay; biases have none", minimum=0.0)
    warmup_start: float = hyperparameter(
        "the first rate, as a share of the rate; rules: 1 - 2^-k for a whole k", minimum=0.0
    )
    num_image_candidates: int = hyperparameter(
        "proposals of a device's batch that training goes on with; rules: a multiple of 1000",
        minimum=1,
    )
    evaluation_interval_epochs: int = hyperparameter(
        "epochs between evaluations", minimum=1, overridable=False
    )
    decay_boundaries: tuple[float, ...] = hyperparameter(
        "of decay=steps, in steps of 16 images", default=(), minimum=0.0, overridable=False
    )
    padded_shapes: str = option(
        "auto",
        "HEIGHTxWIDTH+… of the shapes that batches are padded to, multiples of 32; auto: the"
        " profile's",
        pattern=r"auto|\d+x\d+(\+\d+x\d+)*",
        example="800x1344+1344x800",
    )
    evaluation_batch_size: int = option(8, "images per device and evaluation step", minimum=1)
    target: float | None = option(
        None, "workload.target.BBOX and workload.target.SEGM: AP to reach", minimum=0.0
    )
