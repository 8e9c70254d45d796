"""Settings of ResNet-50: options and model sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.api import Defaults, Json, WorkloadOptions, hyperparameter, option
from workloads.common.cores import DataThreadsOptions
from workloads.common.images.workload import ImageOptions
from workloads.resnet50.network import INITIALISATIONS

REFERENCE_MODEL: Mapping[str, Json] = {
    "blocks": [3, 4, 6, 3],
    "widths": [64, 128, 256, 512],
    "classes": 1000,
    "image_size": 224,
    "resize_size": 256,
    "area_minimum": 0.05,
}
"""Model settings of the reference (resnet_model.py and imagenet_preprocessing.py).

Crops cover at least 5 % of an image. Evaluation resizes the shorter side to 256 pixels and crops
the center.
"""
DEMO_MODEL: Mapping[str, Json] = {
    "blocks": [1, 1, 1, 1],
    "widths": [16, 32, 64, 128],
    "classes": 10,
    "image_size": 64,
    "resize_size": 73,
    "area_minimum": 0.5,
}
"""Smaller model for demos (docs/reference/workloads/resnet50.md).

Crops as small as 5 % of an image would not show the features that distinguish the classes of the
demo.
"""


DEMO = Defaults("imagenet-demo", "demo", DEMO_MODEL, {"top1": 0.80})


@dataclass(frozen=True, kw_only=True)
class ResNet50Options(ImageOptions, DataThreadsOptions, WorkloadOptions):
    """Options `workload.*` of ResNet-50.

    Options that the selected optimizer or decay does not use are 0 or empty.
    """

    name: str = "resnet50"
    optimizer: str = hyperparameter("update rule", choices=("sgd", "lars"), overridable=False)
    learning_rate: float = hyperparameter("peak learning rate", minimum=0.0)
    momentum: float = hyperparameter("momentum", minimum=0.0)
    weight_decay: float = hyperparameter("L2 decay", minimum=0.0)
    label_smoothing: float = hyperparameter("share of the uniform label", minimum=0.0)
    warmup_epochs: int = hyperparameter("epochs of linear warm-up", minimum=0)
    decay: str = hyperparameter(
        "steps: times decay_factor at each of decay_epochs; polynomial: from the end of the warm-up"
        " to end_learning_rate at horizon_epochs",
        choices=("steps", "polynomial"),
        overridable=False,
    )
    evaluation_interval_epochs: int = hyperparameter(
        "epochs between evaluations", minimum=1, overridable=False
    )
    evaluation_offset_epochs: int = hyperparameter(
        "epoch of the first evaluation", minimum=1, overridable=False
    )
    lr_in_momentum: bool = hyperparameter(
        "apply the learning rate inside the momentum buffer (OptimizerSettings)", overridable=False
    )
    initialisation: str = hyperparameter(
        "first weights", choices=tuple(INITIALISATIONS), overridable=False
    )
    decay_epochs: tuple[int, ...] = hyperparameter(
        "of decay=steps", default=(), minimum=1, overridable=False
    )
    decay_factor: float = hyperparameter(
        "of decay=steps", default=1.0, minimum=0.0, overridable=False
    )
    horizon_epochs: int = hyperparameter(
        "of decay=polynomial", default=0, minimum=0, overridable=False
    )
    end_learning_rate: float = hyperparameter(
        "of decay=polynomial", default=0.0, minimum=0.0, overridable=False
    )
    power: float = hyperparameter(
        "of decay=polynomial", default=1.0, minimum=0.0, overridable=False
    )
    lars_coefficient: float = hyperparameter(
        "of optimizer=lars", default=0.0, minimum=0.0, overridable=False
    )
    target: float | None = option(None, "top-1 accuracy to reach; null: the profile's", minimum=0.0)
