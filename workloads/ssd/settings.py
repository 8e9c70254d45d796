"""SSD's settings: the model's sizes, targets and schedules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.api import Defaults, Json, Round, hyperparameter, option
from workloads.common.coco.average_precision import EVALUATORS
from workloads.common.images.workload import ImageOptions
from workloads.common.networks.backbones import BackboneOptions

DEMO_TARGET_MAP = 0.23

EVALUATION_ITERATIONS = (120_000, 160_000, 180_000, 200_000, 220_000, 240_000)
"""Of 32 images, counted from 0: AP is measured after each under v0.5 (reference and NVIDIA's train.py, `--evaluation`).

They lie within epochs: in NVIDIA's logs 32, 43, 48, 54, 59 and 65, counted from 0."""
EVALUATION_EPOCHS = (40, 50, 55, 60, 65, 70, 75, 80)
"""Counted from 1: AP is measured after each under v0.7 (rules, Quality measure)."""

REFERENCE_MODEL: Mapping[str, Json] = {
    "blocks": [3, 4, 6],
    "widths": [64, 128, 256],
    "strides": [1, 2, 1],
    "extras": [[256, 512, 2, 1], [256, 512, 2, 1], [128, 256, 2, 1], [128, 256, 1, 0], [128, 256, 1, 0]],
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
"""Reference ssd300.py, base_model.py, utils.py. `jitter`: brightness, contrast, saturation, hue."""
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
"""The same code, smaller (docs/demos.md): half of the images are cropped, without a test of the overlap."""


def profile_defaults(profile: str, of_round: Round) -> Defaults:
    """What a profile means in a round. Raises ValueError for one that there is not."""
    if profile == "demo":
        return Defaults("coco-demo", "demo", DEMO_MODEL, {"map": DEMO_TARGET_MAP})
    if profile in ("reference", "synthetic"):
        return of_round.defaults(profile, REFERENCE_MODEL)
    raise ValueError(f"profile={profile}: ssd has reference, demo, synthetic")


@dataclass(frozen=True, kw_only=True)
class SSDOptions(BackboneOptions, ImageOptions):
    """`workload.*`. 0 or empty where a set's decay has no such value."""

    name: str = "ssd"
    optimizer: str = hyperparameter("update rule", choices=("sgd",), typed=False)
    learning_rate: float = hyperparameter("rate after the warm-up", minimum=0.0)
    momentum: float = hyperparameter("momentum", minimum=0.0, typed=False)
    weight_decay: float = hyperparameter("L2 decay", minimum=0.0)
    warmup_steps: int = hyperparameter("steps of warm-up", minimum=0)
    warmup_factor: int = hyperparameter("warm-up begins at rate · (1 - 2^-factor); 0: at 0", minimum=0)
    max_samples: int = hyperparameter("attempts at a crop before its mode is drawn again; rules: 1 or 50", minimum=1)
    decay: str = hyperparameter(
        "steps: times decay_factor at each of decay_boundaries; cosine: to 0 at horizon_epochs",
        choices=("steps", "cosine"),
        typed=False,
    )
    plateau: str = hyperparameter(
        "rate from the warm-up to the first decay: base, or last_warm_up_rate, base · (1 - 1 / (steps · 2^factor))",
        choices=("base", "last_warm_up_rate"),
        typed=False,
    )
    evaluation_interval_epochs: int = hyperparameter(
        "epochs between evaluations; 0: when the rules say", minimum=0, typed=False
    )
    decay_unit: str = hyperparameter(
        "of decay_boundaries: epochs, or steps of 32 images",
        default="",
        choices=("epochs", "iterations_of_32"),
        typed=False,
    )
    decay_boundaries: tuple[float, ...] = hyperparameter("of decay=steps", default=(), minimum=0.0, typed=False)
    decay_factor: float = hyperparameter("of decay=steps", default=1.0, minimum=0.0, typed=False)
    horizon_epochs: int = hyperparameter("of decay=cosine", default=0, minimum=0, typed=False)
    evaluation_batch_size: int = option(32, "images per device and evaluation step", minimum=1)
    evaluator: str = option("pycocotools", "what computes COCO's AP; both give the same number", choices=EVALUATORS)
    target: float | None = option(None, "box AP to reach; null: the profile's", minimum=0.0)
