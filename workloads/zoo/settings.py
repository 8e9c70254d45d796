"""The zoo's settings: what a user may type, sets of hyperparameters with a source per field, what a profile means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.api import Defaults, Hyperparameter, HyperparameterSet, Json, option
from workloads.common.images.workload import ImageOptions
from workloads.zoo.networks import KINDS, MODELS, PADDINGS

IMPLEMENTATIONS = ("suite", "stock")
ARRAY_SIZES = {"cifar10": 32, "cifar-demo": 32, "fashion-mnist": 28}
"""Data set to the side of its images, in pixels: they are neither resized nor cropped."""
DEMO_SIZES = {"inception_v3": 75, "overfeat": 71}
"""Pixels of a side under profile=demo where 64 are too few."""
DEMO_SIZE = 64
TARGETS_TOP1 = {"cifar10": 0.76, "cifar-demo": 0.75, "fashion-mnist": 0.90}
"""Of LittleCNN. cifar10: what the scaling article prints for 16 images a step after 30 epochs. cifar-demo: trials
(docs/zoo.md). fashion-mnist: trials on it (same page)."""


def _set(source: str, other: Mapping[str, str], **values: Json) -> HyperparameterSet:
    return {name: Hyperparameter(value, other.get(name, source)) for name, value in values.items()}


_ARTICLE = "published: the DGX-1 scaling article with Keras"
_RMSPROP = {"optimizer": "rmsprop", "momentum": 0.0, "rho": 0.9, "epsilon": 1e-7, "weight_decay": 0.0}
_OF_KERAS = dict.fromkeys(("rho", "epsilon", "weight_decay"), "published: Keras 2.1's defaults, which the article kept")
SETS: Mapping[str, HyperparameterSet] = {
    "keras_article": _set(
        _ARTICLE,
        {**_OF_KERAS, "batch_size_global": f"{_ARTICLE}, figures 5 and 6: 128 a device"},
        **_RMSPROP,
        batch_size_global=128,
        learning_rate=1e-4,
        lr_scaling="none",
        max_epochs=30,
    ),
    "rmsprop_demo": _set(
        "presumed: trials on the generated data (docs/zoo.md)",
        _OF_KERAS,
        **_RMSPROP,
        batch_size_global=32,
        learning_rate=1e-3,
        lr_scaling="none",
        max_epochs=12,
    ),
    "rmsprop_fashion": _set(
        "presumed: trials on Fashion-MNIST, where 1e-3 stays below 0.90 (docs/zoo.md)",
        _OF_KERAS,
        **_RMSPROP,
        batch_size_global=32,
        learning_rate=3e-4,
        lr_scaling="none",
        max_epochs=12,
    ),
    "sgd": _set(
        "presumed: torchvision's recipe for networks without batch norm (references/classification)",
        {"batch_size_global": "published: the article on four GPUs and four frameworks, 64 images a step"},
        optimizer="sgd",
        momentum=0.9,
        rho=0.0,
        epsilon=0.0,
        weight_decay=1e-4,
        batch_size_global=64,
        learning_rate=0.01,
        lr_scaling="linear",
        max_epochs=90,
    ),
}
"""The rate is the same in every step."""


@dataclass(frozen=True)
class ZooHyperparameters:
    """What a set holds beside the batch size; 0 where its optimizer has no such value."""

    optimizer: str
    """`sgd` or `rmsprop`."""
    learning_rate: float
    momentum: float
    rho: float
    epsilon: float
    weight_decay: float
    """Of weights; biases, scales and shifts are not decayed."""
    max_epochs: int


@dataclass(frozen=True)
class ZooOptions(ImageOptions):
    """`workload.*` on the command line. Fields named like a hyperparameter override the set's value."""

    name: str = "zoo"
    model: str = option("littlecnn", "the network", choices=MODELS)
    image_size: int = option(0, "pixels of a side; 0: the network's, or the data set's where that is fixed", minimum=0)
    padding: str = option("same", "valid: littlecnn as Keras' example has it, with less padding", choices=PADDINGS)
    implementation: str = option(
        "suite", "suite: the suite's list of layers; stock: the framework's own network", choices=IMPLEMENTATIONS
    )
    dataset: str = option("auto", "prepared data set; auto: the profile's")
    hyperparameter_set: str = option("auto", "named set; auto: the profile's")
    learning_rate: float | None = option(None, "learning rate", minimum=0.0)
    momentum: float | None = option(None, "momentum of SGD", minimum=0.0)
    weight_decay: float | None = option(None, "L2 decay", minimum=0.0)
    max_epochs: int | None = option(None, "give up after so many epochs", minimum=1)
    target: float | None = option(None, "top-1 accuracy to reach", minimum=0.0)


def profile_defaults(profile: str, options: Mapping[str, Json]) -> Defaults:
    """What a profile means for a network; `options`: those that the user set. Raises ValueError."""
    if profile not in ("reference", "demo", "synthetic"):
        raise ValueError(f"profile={profile}: zoo has reference, demo, synthetic")
    name, kind = options.get("model", "littlecnn"), KINDS[options.get("model", "littlecnn")]
    little, demo = name == "littlecnn", profile == "demo"
    dataset = ("cifar-demo" if demo else "cifar10") if little else ("imagenet-demo" if demo else "imagenet")
    chosen = options.get("dataset", dataset) if profile != "synthetic" else dataset
    given = int(options.get("image_size", 0))
    size = given or (ARRAY_SIZES.get(chosen) if profile != "synthetic" else None)
    size = size or (DEMO_SIZES.get(name, DEMO_SIZE) if demo else kind.image_size)
    if profile != "synthetic" and ARRAY_SIZES.get(chosen, size) != size:
        raise ValueError(
            f"workload.image_size={size}: images of {chosen} have {ARRAY_SIZES[chosen]} pixels a side and are not resized; "
            f"leave it out, or type profile=synthetic"
        )
    model = {
        **{"name": name, "image_size": size, "padding": options.get("padding", "same")},
        **{"implementation": options.get("implementation", "suite"), "classes": kind.classes},
        **{"resize_size": round(size * 256 / 224), "area_minimum": 0.5 if demo else 0.05},
    }
    rmsprop = "rmsprop_fashion" if chosen == "fashion-mnist" else "rmsprop_demo" if demo else "keras_article"
    target = TARGETS_TOP1.get(chosen) if little else None
    return Defaults(
        dataset, rmsprop if little else "sgd", model, {"top1": target} if target else {}, variant_name(model)
    )


def variant_name(model: Mapping[str, Json]) -> str:
    """A model in words: `vgg16 at 224 px`; what is not the default stands there too."""
    words = [model["name"]]
    words += [f"{model['padding']} padding"] if model["padding"] != "same" else []
    words += ["stock"] if model["implementation"] == "stock" else []
    return f"{', '.join(words)} at {model['image_size']} px"
