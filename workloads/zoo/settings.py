"""Settings of the zoo: options, and defaults of the profiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.api import Defaults, Json, WorkloadOptions, hyperparameter, option
from workloads.common.cores import DataThreadsOptions
from workloads.common.images.workload import ImageOptions
from workloads.zoo.networks import KINDS, MODELS, PADDINGS

IMPLEMENTATIONS = ("suite", "stock")
ARRAY_SIZES = {"cifar10": 32, "cifar-demo": 32, "fashion-mnist": 28}
"""Image side in pixels by data set.

The images of these data sets are neither resized nor cropped.
"""
DEMO_SIZES = {"inception_v3": 75, "overfeat": 71}
"""Image side in pixels with `profile=demo`, for networks that need larger images than
`DEMO_SIZE`.
"""
DEMO_SIZE = 64
TARGETS_TOP1 = {"cifar10": 0.76, "cifar-demo": 0.75, "fashion-mnist": 0.90}
"""Target accuracies of LittleCNN by data set. The target of cifar10 is the accuracy that the
scaling article reports for 16 images per step after 30 epochs. The targets of cifar-demo and
fashion-mnist are from measured runs (docs/reference/workloads/zoo.md).
"""


@dataclass(frozen=True, kw_only=True)
class ZooOptions(ImageOptions, DataThreadsOptions, WorkloadOptions):
    """Options `workload.*` of the zoo.

    Options that the selected optimizer does not use are 0. The learning rate of all optimizers is
    constant.
    """

    name: str = "zoo"
    model: str = option("littlecnn", "the network", choices=MODELS)
    image_size: int = option(
        0, "pixels of a side; 0: the network's, or the data set's where that is fixed", minimum=0
    )
    padding: str = option(
        "same", "valid: littlecnn as Keras' example has it, with less padding", choices=PADDINGS
    )
    implementation: str = option(
        "suite",
        "suite: the suite's list of layers; stock: the framework's own network",
        choices=IMPLEMENTATIONS,
    )
    optimizer: str = hyperparameter("update rule", choices=("sgd", "rmsprop"), overridable=False)
    learning_rate: float = hyperparameter("learning rate", minimum=0.0)
    momentum: float = hyperparameter("momentum of SGD", minimum=0.0)
    rho: float = hyperparameter(
        "RMSprop's decay of the mean of squared gradients", minimum=0.0, overridable=False
    )
    epsilon: float = hyperparameter("RMSprop's epsilon", minimum=0.0, overridable=False)
    weight_decay: float = hyperparameter(
        "L2 decay of weights; biases, scales and shifts have none", minimum=0.0
    )
    target: float | None = option(
        None, "top-1 accuracy to reach; littlecnn alone has one", minimum=0.0
    )


def profile_defaults(profile: str, options: Mapping[str, Json]) -> Defaults:
    """Return the defaults of a profile for the network and options that the user set.

    Raises:
        ValueError: The profile is invalid, or the image size does not match the data set.
    """
    if profile not in ("reference", "demo", "synthetic"):
        raise ValueError(f"profile={profile}: zoo has reference, demo, synthetic")
    name, kind = options.get("model", "littlecnn"), KINDS[options.get("model", "littlecnn")]
    little, demo = name == "littlecnn", profile == "demo"
    dataset = (
        ("cifar-demo" if demo else "cifar10")
        if little
        else ("imagenet-demo" if demo else "imagenet")
    )
    chosen = options.get("dataset", dataset) if profile != "synthetic" else dataset
    user_size = int(options.get("image_size", 0))
    size = user_size or ARRAY_SIZES.get(chosen)
    size = size or (DEMO_SIZES.get(name, DEMO_SIZE) if demo else kind.image_size)
    if profile != "synthetic" and ARRAY_SIZES.get(chosen, size) != size:
        raise ValueError(
            f"workload.image_size={size}: images of {chosen} have {ARRAY_SIZES[chosen]} pixels a"
            " side and are not resized. Leave it out, or set profile=synthetic"
        )
    model = {
        "name": name,
        "image_size": size,
        "padding": options.get("padding", "same"),
        "implementation": options.get("implementation", "suite"),
        "classes": kind.classes,
        "resize_size": round(size * 256 / 224),
        "area_minimum": 0.5 if demo else 0.05,
    }
    rmsprop = (
        "rmsprop_fashion"
        if chosen == "fashion-mnist"
        else "rmsprop_demo"
        if demo
        else "keras_article"
    )
    target = TARGETS_TOP1.get(chosen) if little else None
    return Defaults(
        dataset,
        rmsprop if little else "sgd",
        model,
        {"top1": target} if target else {},
        variant_name(model),
    )


def variant_name(model: Mapping[str, Json]) -> str:
    """Return a description of a model, such as `vgg16 at 224 px`.

    The description includes the padding and the implementation if they differ from their defaults.
    """
    parts = [model["name"]]
    parts += [f"{model['padding']} padding"] if model["padding"] != "same" else []
    parts += ["stock"] if model["implementation"] == "stock" else []
    return f"{', '.join(parts)} at {model['image_size']} px"
