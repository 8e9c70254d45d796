"""SSD's settings: the model's sizes, the named hyperparameter sets with a source per field, targets and schedules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.api import Defaults, Hyperparameter, HyperparameterSet, Json, option
from workloads.common.coco.average_precision import EVALUATORS
from workloads.common.images.workload import ImageOptions
from workloads.common.networks.backbones import BackboneOptions

TARGETS_MAP = {"v0.5": 0.212, "v0.7": 0.230}
"""Rules to COCO box AP (rules texts of the rounds; v0.6 and later ask for 0.230)."""
DEMO_TARGET_MAP = 0.23

EVALUATION_EPOCHS = {
    "v0.5": (33, 44, 49, 55, 60, 66),
    "v0.7": (40, 50, 55, 60, 65, 70, 75, 80),
}
"""Rules to epochs after which AP is measured, counted from 1.

v0.5: about 120,000, 160,000, 180,000, 200,000, 220,000 and 240,000 steps of 32 images; the published schedule calls these
epochs 32, 43, 48, 54, 59, 65, counted from 0."""
EVALUATION_INTERVAL_EPOCHS = 5
"""Behind the last epoch of a schedule."""

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


def _set(source: str, other: Mapping[str, str], **values: Json) -> HyperparameterSet:
    """A set whose fields come from `source`, but for those that `other` gives another."""
    return {name: Hyperparameter(value, other.get(name, source)) for name, value in values.items()}


_COMMON = {
    "optimizer": "sgd",
    "momentum": 0.9,
    "decay": "steps",
    "decay_factor": 0.1,
    "warmup_factor": 0,
    "plateau": "last_warm_up_rate",
    "max_samples": 1,
    "lr_scaling": "linear",
    "evaluation_interval_epochs": 0,
}
_EPOCHS = {**_COMMON, "decay_unit": "epochs"}
_ITERATIONS = {**_COMMON, "decay_unit": "iterations_of_32", "decay_boundaries": [160_000, 200_000]}
_LINEAR = "published: the reference computes 2.5e-3 per 32 images (train.py)"
_LIKE_REFERENCE = "published: MLPerf reference (train.py, utils.py)"
_AS_RULES = "published: rules, epochs of the round"
_REFERENCE_SILENT = {
    **dict.fromkeys(("optimizer", "momentum", "decay", "decay_unit", "decay_factor", "max_samples"), _LIKE_REFERENCE),
    "plateau": "published: MLPerf reference (lr_warmup in train.py sets no rate after its last step)",
    "lr_scaling": _LINEAR,
    "evaluation_interval_epochs": _AS_RULES,
}
_NVIDIA_SILENT = {
    **dict.fromkeys(("optimizer", "momentum", "decay", "decay_unit", "decay_factor", "max_samples"), _LIKE_REFERENCE),
    "plateau": "published: NVIDIA, lr_warmup in its PyTorch train.py of v0.5 to v0.7, as the reference's",
    "lr_scaling": "presumed: the linear rule of the reference",
    "evaluation_interval_epochs": _AS_RULES,
}
_V07_SILENT = {**_NVIDIA_SILENT, "max_epochs": "presumed: the last evaluation that the rules of v0.7 name"}
_V05 = {**_ITERATIONS, "warmup_steps": 300, "weight_decay": 5e-4, "max_epochs": 66}
_V05_LAST = {"max_epochs": "presumed: the last evaluation of v0.5's schedule"}
_ARTICLE = "published: DGX-1 scaling article, table 3"
_LIKE_V05 = "presumed: as NVIDIA's v0.5 DGX-1 entry, whose batch and epochs the article repeats"
_RULE_V05 = "derived: 1e-3 times round(2.5 · batch / 32), as that entry computes it"
_ARTICLE_SILENT = {
    **dict.fromkeys((*_V05, "learning_rate"), _LIKE_V05),
    **_V05_LAST,
    "lr_scaling": _NVIDIA_SILENT["lr_scaling"],
    "evaluation_interval_epochs": _AS_RULES,
}
_V06 = "published: NVIDIA v0.6, config_DGX1.sh and logs"

SETS: Mapping[str, HyperparameterSet] = {
    "reference": _set(
        "published: MLPerf reference, 8 V100 (config_DGX1_singlenode.sh)",
        {**_REFERENCE_SILENT, "warmup_steps": "derived: int(2.619685 · 117,266 / 1,024), as train.py computes it"},
        **_EPOCHS,
        batch_size_global=1_024,
        learning_rate=0.08,
        weight_decay=5e-4,
        warmup_steps=299,
        decay_boundaries=[40, 50],
        max_epochs=70,
    ),
    "reference_1gpu": _set(
        "published: MLPerf reference, one GPU (config_DGX1_32.sh)",
        _REFERENCE_SILENT,
        **_EPOCHS,
        batch_size_global=32,
        learning_rate=2.5e-3,
        weight_decay=5e-4,
        warmup_steps=0,
        decay_boundaries=[40, 50],
        max_epochs=70,
    ),
    "nvidia_v0.5_dgx1": _set(
        "published: NVIDIA v0.5, config_DGX1.sh and logs",
        {**_NVIDIA_SILENT, **_V05_LAST},
        **_V05,
        batch_size_global=1_216,
        learning_rate=0.095,
    ),
    "nvidia_v0.6_dgx1": _set(
        _V06,
        {**_NVIDIA_SILENT, "max_epochs": _V06},
        **_ITERATIONS,
        batch_size_global=960,
        learning_rate=0.0875,
        weight_decay=1.6e-4,
        warmup_steps=650,
        max_epochs=80,
    ),
    "nvidia_v0.7_dgx1": _set(
        "published: NVIDIA v0.7, DGX-1 logs",
        {**_V07_SILENT, "max_epochs": "published: NVIDIA v0.7, DGX-1 logs"},
        **_EPOCHS,
        batch_size_global=960,
        learning_rate=0.0875,
        weight_decay=1.6e-4,
        warmup_steps=650,
        decay_boundaries=[44, 55],
        max_epochs=80,
    ),
    "nvidia_v0.7_dgxa100": _set(
        "published: NVIDIA v0.7, DGX A100 logs",
        _V07_SILENT,
        **_EPOCHS,
        batch_size_global=912,
        learning_rate=0.09,
        weight_decay=1.3e-4,
        warmup_steps=650,
        decay_boundaries=[44, 55],
        max_epochs=80,
    ),
    "nvidia_v0.7_64xa100": _set(
        "published: NVIDIA v0.7, MXNet on 64 A100, logs",
        {**_V07_SILENT, "plateau": "published: NVIDIA v0.7, lr_scheduler.py of its MXNet entry"},
        **{**_EPOCHS, "plateau": "base"},
        batch_size_global=1_536,
        learning_rate=0.14,
        weight_decay=1.7e-4,
        warmup_steps=839,
        decay_boundaries=[44, 55],
        max_epochs=80,
    ),
    "dgx1_article_1gpu": _set(
        _ARTICLE, {**_ARTICLE_SILENT, "learning_rate": _RULE_V05}, **_V05, batch_size_global=152, learning_rate=0.012
    ),
    "dgx1_article_4gpu": _set(
        _ARTICLE, {**_ARTICLE_SILENT, "learning_rate": _RULE_V05}, **_V05, batch_size_global=608, learning_rate=0.048
    ),
    "dgx1_article_8gpu": _set(_ARTICLE, _ARTICLE_SILENT, **_V05, batch_size_global=1_216, learning_rate=0.095),
    "demo": _set(
        "presumed: trials on the generated data (docs/demos.md)",
        {},
        optimizer="sgd",
        batch_size_global=16,
        learning_rate=0.02,
        momentum=0.9,
        weight_decay=5e-4,
        warmup_steps=250,
        warmup_factor=0,
        plateau="base",
        decay="cosine",
        horizon_epochs=16,
        max_samples=1,
        evaluation_interval_epochs=2,
        lr_scaling="linear",
        max_epochs=16,
    ),
}
"""`learning_rate`: what the warm-up rises to. `decay=steps`: times `decay_factor` at each of `decay_boundaries`, in epochs or
in steps of 32 images; `decay=cosine`: to 0 at `horizon_epochs`. `max_samples`: attempts at a crop before its mode is drawn
again.
`evaluation_interval_epochs` 0: when the rules say. Sets of a fixed device count take other counts too."""


def profile_defaults(profile: str, rules: str) -> Defaults:
    """What a profile means. Raises ValueError for one that there is not."""
    if profile == "demo":
        return Defaults("coco-demo", "demo", DEMO_MODEL, {"map": DEMO_TARGET_MAP})
    if profile in ("reference", "synthetic"):
        chosen = "reference_1gpu" if profile == "synthetic" else "reference"
        return Defaults("coco2017", chosen, REFERENCE_MODEL, {"map": TARGETS_MAP.get(rules, TARGETS_MAP["v0.7"])})
    raise ValueError(f"profile={profile}: ssd has reference, demo, synthetic")


@dataclass(frozen=True)
class SSDHyperparameters:
    """What a set holds beside the batch size; 0 or empty where its decay has no such value."""

    optimizer: str
    learning_rate: float
    """What the warm-up rises to."""
    momentum: float
    weight_decay: float
    warmup_steps: int
    warmup_factor: int
    max_samples: int
    """Attempts at a crop before its mode is drawn again."""
    decay: str
    """`steps`: times `decay_factor` at each of `decay_boundaries`; `cosine`: to 0 at `horizon_epochs`."""
    plateau: str
    """The rate from the warm-up to the first decay: `base`, or `last_warm_up_rate`, base · (1 - 1 / (steps · 2^factor))."""
    evaluation_interval_epochs: int
    """0: when the rules say."""
    max_epochs: int
    decay_unit: str = ""
    """`epochs` or `iterations_of_32`, steps of 32 images."""
    decay_boundaries: tuple[float, ...] = ()
    decay_factor: float = 1.0
    horizon_epochs: int = 0


@dataclass(frozen=True)
class SSDOptions(BackboneOptions, ImageOptions):
    """`workload.*` on the command line. Fields named like a hyperparameter override the set's value."""

    name: str = "ssd"
    dataset: str = option("auto", "prepared data set; auto: the profile's")
    hyperparameter_set: str = option("auto", "named set; auto: the profile's")
    learning_rate: float | None = option(None, "rate after the warm-up", minimum=0.0)
    weight_decay: float | None = option(None, "L2 decay", minimum=0.0)
    warmup_steps: int | None = option(None, "steps of warm-up", minimum=0)
    warmup_factor: int | None = option(None, "warm-up begins at rate · (1 - 2^-factor); 0: at 0", minimum=0)
    max_samples: int | None = option(
        None, "attempts at a crop before its mode is drawn again; rules: 1 or 50", minimum=1
    )
    max_epochs: int | None = option(None, "give up after so many epochs", minimum=1)
    evaluation_batch_size: int = option(32, "images per device and evaluation step", minimum=1)
    evaluator: str = option("pycocotools", "what computes COCO's AP; both give the same number", choices=EVALUATORS)
    target: float | None = option(None, "box AP to reach", minimum=0.0)
