"""Settings of SSD: model sizes, targets, and schedules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.api import Defaults, Json, WorkloadOptions, hyperparameter, option
from workloads.common.coco.workload import DetectionOptions
from workloads.common.cores import DataThreadsOptions
from workloads.common.images.workload import ImageOptions
from workloads.common.networks.backbones import BackboneOptions

REFERENCE_MODEL: Mapping[str, Json] = {
    "blocks": [3, 4, 6],
    "widths": [64, 128, 256],
    "strides": [1, 2, 1],
    "extras": [
        [256, 512, 2, 1],
        [256, 512, 2, 1],
        [128, 256, 2, 1],
        [128, 256, 1, 0],
        [128, 256, 1, 0],
    ],
    "classes": 80,
    "image_size": 300,
    "map_sizes": [38, 19, 10, 5, 3, 1],
    "steps": [8, 16, 32, 64, 100, 300],
    "scales": [21, 45, 99, 153, 207, 261, 315],
    "ratios": [[2], [2, 3], [2, 3], [2, 3], [2], [2]],
    "crop_chance": 1.0,
    "crop_side_minimum": 0.3,
    "crop_overlap": True,
    "jitter": [0.125, 0.5, 0.5, 0.05],
}
"""Model settings of the reference (ssd300.py, base_model.py, utils.py). `jitter` contains the
strengths of brightness, contrast, saturation, and hue.
"""
DEMO_MODEL: Mapping[str, Json] = {
    "blocks": [1, 1, 2],
    "widths": [24, 48, 96],
    "strides": [1, 2, 1],
    "extras": [[48, 96, 2, 1], [48, 96, 2, 1], [48, 96, 2, 1]],
    "classes": 10,
    "image_size": 128,
    "map_sizes": [16, 8, 4, 2],
    "steps": [8, 16, 32, 64],
    "scales": [15.36, 25.6, 40.96, 58.88, 81.92],
    "ratios": [[2], [2, 3], [2], [2]],
    "crop_chance": 0.5,
    "crop_side_minimum": 0.5,
    "crop_overlap": False,
    "jitter": [0.125, 0.3, 0.0, 0.0],
}
"""Smaller model for demos (docs/reference/workloads/ssd.md).

In the demo, half of the images are cropped, without a minimum IoU.
"""


DEMO = Defaults("coco-demo", "demo", DEMO_MODEL, {"map": 0.23})


@dataclass(frozen=True, kw_only=True)
class SSDOptions(
    DetectionOptions, BackboneOptions, ImageOptions, DataThreadsOptions, WorkloadOptions
):
    """Options `workload.*` of SSD."""

    name: str = "ssd"
    warmup_factor: int = hyperparameter(
        "warm-up begins at rate · (1 - 2^-factor); 0: at 0", minimum=0
    )
    max_samples: int = hyperparameter(
        "attempts at a crop before its mode is drawn again; rules: 1 or 50", minimum=1
    )
    negatives_per_positive: int = hyperparameter(
        "background priors in the loss, for each positive prior of an image; rules: 3",
        default=3,
        minimum=1,
    )
    plateau: str = hyperparameter(
        "rate from the warm-up to the first decay: base, or last_warmup_rate, base · (1 - 1 /"
        " (steps · 2^factor))",
        choices=("base", "last_warmup_rate"),
        overridable=False,
    )
    evaluation_interval_epochs: int = hyperparameter(
        "epochs between evaluations; 0: when the rules say", minimum=0, overridable=False
    )
    decay_unit: str = hyperparameter(
        "of decay_boundaries: epochs, or steps of 32 images",
        default="",
        choices=("epochs", "iterations_of_32"),
        overridable=False,
    )
    evaluation_batch_size: int = option(32, "images per device and evaluation step", minimum=1)
    target: float | None = option(None, "box AP to reach; null: the profile's", minimum=0.0)
