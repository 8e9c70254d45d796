"""ResNet-50's settings: what a user may type, the named hyperparameter sets with a source per field, the model's sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.api import Defaults, Hyperparameter, HyperparameterSet, Json, option
from workloads.common.images.workload import ImageOptions

TARGETS_TOP1 = {"v0.5": 0.749, "v0.7": 0.759}
"""Rules to top-1 accuracy (rules texts of the rounds; v0.6 and later ask for 0.759)."""
DEMO_TARGET_TOP1 = 0.80

REFERENCE_MODEL: Mapping[str, Json] = {
    "blocks": [3, 4, 6, 3],
    "widths": [64, 128, 256, 512],
    "classes": 1000,
    "image_size": 224,
    "resize_size": 256,
    "area_minimum": 0.05,
}
"""Reference resnet_model.py and imagenet_preprocessing.py: crops cover 5 % of an image or more; evaluation resizes the
shorter side to 256 and cuts out the centre."""
DEMO_MODEL: Mapping[str, Json] = {
    "blocks": [1, 1, 1, 1],
    "widths": [16, 32, 64, 128],
    "classes": 10,
    "image_size": 64,
    "resize_size": 73,
    "area_minimum": 0.5,
}
"""The same code, smaller (docs/demos.md): crops of 5 % hide what decides between these classes."""


def _set(source: str, other: Mapping[str, str], **values: Json) -> HyperparameterSet:
    """A set whose fields come from `source`, but for those that `other` gives another."""
    return {name: Hyperparameter(value, other.get(name, source)) for name, value in values.items()}


_STEPS = {"optimizer": "sgd", "decay": "steps", "decay_factor": 0.1, "label_smoothing": 0.0}
_POLYNOMIAL = {"decay": "polynomial", "end_learning_rate": 1e-4, "power": 2.0}
_LARS = {
    **{**_POLYNOMIAL, "optimizer": "lars", "lars_coefficient": 0.001, "label_smoothing": 0.1},
    **{"momentum_rate": "outside", "initialisation": "gaussian_2"},
}
_EVERY_FOUR = {"evaluation_interval_epochs": 4}
_ARTICLE = "published: DGX-1 scaling article, table 1"
_LIKE_V05 = "presumed: as NVIDIA's v0.5 DGX-1 entry, whose batch and epochs the article repeats"
_OTHERS = ("learning_rate", "warmup_epochs", "decay", "decay_epochs", "decay_factor", "momentum", "weight_decay")
_MORE = ("label_smoothing", "optimizer", "evaluation_interval_epochs", "evaluation_offset_epochs", "max_epochs")
_MADE_OF = ("momentum_rate", "initialisation")
_SILENT = {
    **dict.fromkeys((*_OTHERS, *_MORE, *_MADE_OF), _LIKE_V05),
    "lr_scaling": "presumed: the linear rule of the reference",
}
_LINEAR = "published: the reference computes 0.128 per 256 images (resnet_run_loop.py)"
_V05_DGX1 = {
    **_STEPS,
    **_EVERY_FOUR,
    "momentum": 0.9,
    "weight_decay": 1e-4,
    "warmup_epochs": 5,
    "decay_epochs": [30, 60, 80],
    "evaluation_offset_epochs": 3,
    "lr_scaling": "linear",
    "max_epochs": 100,
    "momentum_rate": "inside",
    "initialisation": "gaussian_2_everywhere",
}
_REFERENCE = {
    **{**_V05_DGX1, "decay_epochs": [30, 60, 80, 90], "evaluation_offset_epochs": 4},
    **{"momentum_rate": "outside", "initialisation": "truncated_normal"},
}
_REFERENCE_V05 = {**_REFERENCE, "initialisation": "truncated_normal_glorot"}
_REFERENCE_SILENT = {
    "evaluation_interval_epochs": "published: rules, every four epochs",
    "evaluation_offset_epochs": "presumed: the rules leave 1 to 4",
    "max_epochs": "presumed: beyond the last decay",
    "lr_scaling": _LINEAR,
    "momentum_rate": "published: MLPerf reference (tf.train.MomentumOptimizer in resnet_run_loop.py)",
    "initialisation": "published: MLPerf reference (variance scaling in resnet_model.py)",
}
_REFERENCE_V05_SILENT = {
    **_REFERENCE_SILENT,
    "initialisation": "published: MLPerf reference, tag v0.5 (resnet_model.py: tf.layers.dense's own for the classifier)",
}
_NVIDIA_SILENT = {
    **dict.fromkeys(("max_epochs", "decay_epochs"), "published: NVIDIA v0.5, run_and_time.sh"),
    "momentum_rate": "published: NVIDIA v0.5, common/fit.py: MXNet's own SGD, its momentum not corrected",
    "initialisation": "published: NVIDIA v0.5, common/fit.py: Xavier(rnd_type=gaussian, factor_type=in, magnitude=2)",
    "lr_scaling": "presumed: the linear rule of the reference",
    "evaluation_offset_epochs": "derived: epochs 3, 7, … 63 in its logs",
}


def _lars_silent(round_: str) -> dict[str, str]:
    """Sources of what NVIDIA's LARS entries of a round say elsewhere than in their configuration."""
    return {
        "lr_scaling": "presumed: none, the peak was tuned for this batch",
        "momentum_rate": f"published: NVIDIA {round_}, common/fit.py: SGDwFASTLARS multiplies momentum by the rates' quotient",
        "initialisation": f"published: NVIDIA {round_}, train_imagenet.py: MLPerfInit, gaussian of magnitude 2",
        "weight_decay": f"published: NVIDIA {round_}, config_DGX1.sh; it also decays the classifier's bias (SGDwFASTLARS "
        "updates it as plain SGD), which this suite does not, like the reference's LARS",
    }


SETS: Mapping[str, HyperparameterSet] = {
    "reference": _set(
        "published: MLPerf reference, 8 GPUs (comment in resnet-tf1/run.sh, resnet_run_loop.py)",
        _REFERENCE_SILENT,
        **_REFERENCE,
        batch_size_global=1_024,
        learning_rate=0.512,
    ),
    "reference_1gpu": _set(
        "published: MLPerf reference, one P100 (resnet-tf1/run.sh)",
        _REFERENCE_SILENT,
        **_REFERENCE,
        batch_size_global=64,
        learning_rate=0.032,
    ),
    "reference_v0.5": _set(
        "published: MLPerf reference, 8 GPUs (comment in resnet-tf1/run.sh, resnet_run_loop.py)",
        _REFERENCE_V05_SILENT,
        **_REFERENCE_V05,
        batch_size_global=1_024,
        learning_rate=0.512,
    ),
    "reference_v0.5_1gpu": _set(
        "published: MLPerf reference, one P100 (resnet-tf1/run.sh)",
        _REFERENCE_V05_SILENT,
        **_REFERENCE_V05,
        batch_size_global=64,
        learning_rate=0.032,
    ),
    "nvidia_v0.5_dgx1": _set(
        "published: NVIDIA v0.5, config_DGX1.sh and logs",
        _NVIDIA_SILENT,
        **_V05_DGX1,
        batch_size_global=1_664,
        learning_rate=0.6,
    ),
    "nvidia_v0.6_dgx1": _set(
        "published: NVIDIA v0.6, config_DGX1.sh and logs",
        _lars_silent("v0.6"),
        **_LARS,
        **_EVERY_FOUR,
        batch_size_global=1_664,
        learning_rate=5.0,
        momentum=0.9,
        weight_decay=2e-4,
        warmup_epochs=5,
        horizon_epochs=72,
        evaluation_offset_epochs=4,
        lr_scaling="none",
        max_epochs=72,
    ),
    "nvidia_v0.7_dgx1": _set(
        "published: NVIDIA v0.7, config_DGX1.sh and logs",
        _lars_silent("v0.7"),
        **_LARS,
        **_EVERY_FOUR,
        batch_size_global=1_664,
        learning_rate=7.4,
        momentum=0.9,
        weight_decay=1e-4,
        warmup_epochs=2,
        horizon_epochs=37,
        evaluation_offset_epochs=1,
        lr_scaling="none",
        max_epochs=37,
    ),
    "dgx1_article_1gpu": _set(
        _ARTICLE,
        {**_SILENT, "learning_rate": "derived: 0.1 per 256 images, as the rules of v0.5 allow"},
        **_V05_DGX1,
        batch_size_global=512,
        learning_rate=0.2,
    ),
    "dgx1_article_4gpu": _set(_ARTICLE, _SILENT, **_V05_DGX1, batch_size_global=1_664, learning_rate=0.6),
    "dgx1_article_8gpu": _set(_ARTICLE, _SILENT, **_V05_DGX1, batch_size_global=1_664, learning_rate=0.6),
    "demo": _set(
        "presumed: trials on the generated data (docs/demos.md)",
        {},
        **_POLYNOMIAL,
        optimizer="sgd",
        label_smoothing=0.0,
        batch_size_global=32,
        learning_rate=0.05,
        momentum=0.9,
        weight_decay=5e-4,
        warmup_epochs=3,
        horizon_epochs=24,
        evaluation_interval_epochs=1,
        evaluation_offset_epochs=1,
        lr_scaling="linear",
        max_epochs=24,
        momentum_rate="outside",
        initialisation="truncated_normal_2",
    ),
}
"""`learning_rate`: peak. `decay=steps`: times `decay_factor` at each of `decay_epochs`. `decay=polynomial`: from the end of
the warm-up to `end_learning_rate` at `horizon_epochs`. Sets of a fixed device count take other counts too."""


def profile_defaults(profile: str, rules: str) -> Defaults:
    """What a profile means. Raises ValueError for one that there is not."""
    if profile == "demo":
        return Defaults("imagenet-demo", "demo", DEMO_MODEL, {"top1": DEMO_TARGET_TOP1})
    if profile in ("reference", "synthetic"):
        chosen = "reference_v0.5" if rules == "v0.5" else "reference"
        chosen += "_1gpu" if profile == "synthetic" else ""
        return Defaults("imagenet", chosen, REFERENCE_MODEL, {"top1": TARGETS_TOP1.get(rules, TARGETS_TOP1["v0.7"])})
    raise ValueError(f"profile={profile}: resnet50 has reference, demo, synthetic")


@dataclass(frozen=True)
class ResNet50Hyperparameters:
    """What a set holds beside the batch size; 0 or empty where its optimizer or its decay has no such value."""

    optimizer: str
    """`sgd` or `lars`."""
    learning_rate: float
    """The peak."""
    momentum: float
    weight_decay: float
    label_smoothing: float
    warmup_epochs: int
    decay: str
    """`steps`: times `decay_factor` at each of `decay_epochs`. `polynomial`: from the end of the warm-up to
    `end_learning_rate` at `horizon_epochs`."""
    evaluation_interval_epochs: int
    evaluation_offset_epochs: int
    max_epochs: int
    momentum_rate: str
    """`outside` or `inside` of the momentum's buffer (`OptimizerSettings`)."""
    initialisation: str
    """A name of `network.INITIALISATIONS`."""
    decay_epochs: tuple[int, ...] = ()
    decay_factor: float = 1.0
    horizon_epochs: int = 0
    end_learning_rate: float = 0.0
    power: float = 1.0
    lars_coefficient: float = 0.0


@dataclass(frozen=True)
class ResNet50Options(ImageOptions):
    """`workload.*` on the command line. Fields named like a hyperparameter override the set's value."""

    name: str = "resnet50"
    dataset: str = option("auto", "prepared data set; auto: the profile's")
    hyperparameter_set: str = option("auto", "named set; auto: the profile's")
    learning_rate: float | None = option(None, "peak learning rate", minimum=0.0)
    momentum: float | None = option(None, "momentum", minimum=0.0)
    weight_decay: float | None = option(None, "L2 decay", minimum=0.0)
    label_smoothing: float | None = option(None, "share of the uniform label", minimum=0.0)
    warmup_epochs: int | None = option(None, "epochs of linear warm-up", minimum=0)
    max_epochs: int | None = option(None, "give up after so many epochs", minimum=1)
    target: float | None = option(None, "top-1 accuracy to reach", minimum=0.0)
