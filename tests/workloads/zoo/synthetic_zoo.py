"""Small synthetic cases of the zoo, equal in every framework's environment."""

from unittest import mock

import numpy as np

from suite.catalog.sets import named_sets
from testing import synthetic
from workloads.api import Batch, DatasetInfo
from workloads.common import dropout
from workloads.common.networks import layer_lists, residual
from workloads.common.networks.layer_lists import Builder
from workloads.common.randomness import bits, integers, stream
from workloads.zoo import networks
from workloads.zoo.networks import KINDS, Kind
from workloads.zoo.settings import profile_defaults
from workloads.zoo.workload import Zoo

CLASSES = 10
IMAGES = 4
"""Images per step."""
MORE_IMAGES = {
    "inception_v3": 32,
    **dict.fromkeys(
        ("mixture", "inception_bn", *(f"resnet{n}" for n in (18, 34, 50, 101, 152))), 12
    ),
}
"""Images per step of networks whose last maps have 1 × 1 or 2 × 2 pixels.

With fewer images, batch norm would have too few values.
"""
RATES = {
    **{"littlecnn": 1e-4, "googlenet": 1e-5, "resnet18": 1e-5, "resnet34": 1e-5},
    **{"inception_v3": 1e-7, "resnet50": 1e-7, "vgg19": 1e-7, "resnet101": 1e-8, "resnet152": 1e-9},
}
DEFAULT_RATE = 1e-6
"""Learning rate of networks that are not in RATES.

The rates are so low that float32 rounding does not grow within five steps on different batches.
"""
COUNTS = {
    ("littlecnn", 32, "same"): (2_168_362, 12, 0.027, 0.10),
    ("littlecnn", 32, "valid"): (1_250_858, 12, 0.021, 0.09),
    ("littlecnn", 224, "same"): (102_831_658, 12, 1.30, 4.82),
    ("littlecnn", 224, "valid"): (95_622_698, 12, 1.26, 4.73),
    ("alexnet", 224, "same"): (61_100_840, 16, 0.714, 0.49),
    ("overfeat", 231, "same"): (145_920_872, 16, 2.80, 0.83),
    ("vgg11", 224, "same"): (132_863_336, 22, 7.61, 7.44),
    ("vgg16", 224, "same"): (138_357_544, 32, 15.47, 13.56),
    ("vgg19", 224, "same"): (143_667_240, 38, 19.63, 14.86),
    ("googlenet", 224, "same"): (6_998_552, 116, 1.58, 3.23),
    ("inception_bn", 224, "same"): (11_295_240, 278, 1.99, 3.64),
    ("inception_v3", 299, "same"): (23_834_568, 284, 5.71, 8.97),
    ("resnet18", 224, "same"): (11_689_512, 62, 1.81, 2.48),
    ("resnet34", 224, "same"): (21_797_672, 110, 3.66, 3.74),
    ("resnet50", 224, "same"): (25_557_032, 161, 4.09, 11.11),
    ("resnet101", 224, "same"): (44_549_160, 314, 7.80, 16.23),
    ("resnet152", 224, "same"): (60_192_808, 467, 11.51, 22.56),
}
"""Counts for each model, image size, and padding.

The counts are trained values, tensors, 10^9 multiply-adds, and 10^6 outputs of convolutions and
linear layers.
"""


IN_SHORT = {"littlecnn": 32, "googlenet": 64, "mixture": 64}
"""Networks that every framework trains in `make test`, with their image sizes.

Together they have every kind of layer.
"""


def mixture(net: Builder, classes: int) -> None:
    """Add narrow layers of every kind that LittleCNN and GoogLeNet do not have."""
    basic = residual.build_trunk("basic", (0, 0, 1, 1), (8, 8, 8, 8), (1, 1, 1, 2)).blocks
    bottlenecks = residual.build_trunk("bottleneck", (1, 2), (8, 8), (1, 2)).blocks

    def normed(b: Builder, name: str, *shape: object, bias: bool = False) -> Builder:
        return b.conv(f"{name}.conv", 8, *shape, norm=f"{name}.bn", bias=bias)

    net.fork(
        lambda b: (
            b.conv("alexnet", 8, 11, 4, 2)
            .conv("overfeat", 8, 5)
            .conv("valid1", 8, 3)
            .conv("valid2", 8, 3)
        ),
        lambda b: b.conv("overfeat1", 8, 11, 4).pool("max", 2, 2),
        lambda b: normed(normed(b, "bn7", 7, 2, 3, bias=True).pool("max", 3, 2), "v3_3", 3, 2),
        lambda b: normed(normed(b, "resnet7", 7, 2, 3).pool("max", 3, 2), "v3_0", 3, 2),
        lambda b: normed(normed(b, "v3_1", 3, 2), "v3_2", 3).pool("max", 3, 2).pool("max", 2, 2),
    )
    net.fork(
        lambda b: normed(normed(b, "bn1", 1, bias=True), "bn3", 3, 1, 1, bias=True),
        lambda b: normed(normed(normed(b, "v3_4", 1), "v3_5", 3, 1, 1), "v3_6", 5, 1, 2),
        lambda b: normed(normed(b, "row7", (1, 7), 1, (0, 3)), "column7", (7, 1), 1, (3, 0)),
        lambda b: b.pool("avg", 3, 1, 1).fork(
            lambda c: normed(c, "row3", (1, 3), 1, (0, 1)),
            lambda c: normed(c, "column3", (3, 1), 1, (1, 0)),
        ),
    )
    net.fork(
        lambda b: normed(b, "bn3_2", 3, 2, 1, bias=True),
        lambda b: b.pool("max", 3, 2, 1),
        lambda b: normed(b, "narrow", 1).residual(basic[0]).residual(basic[1]),
    )
    normed(net, "narrow_too", 1)
    for block in bottlenecks:
        net.residual(block)
    net.global_pool().linear("fc", classes)


def images(model: str) -> int:
    """Return the number of small images per step."""
    return MORE_IMAGES.get(model, IMAGES)


def rate(model: str) -> float:
    """Return the learning rate of the five steps."""
    return RATES.get(model, DEFAULT_RATE)


def workload(
    model: str, framework: str, image_size: int = 0, chosen: str = "sgd", **changes: object
) -> Zoo:
    """Return a workload with a network at its default image size, or with small images.

    `changes` are options of the workload.
    """
    with mock.patch.dict(KINDS, mixture=Kind(64, mixture)):
        return _workload(model, framework, image_size, chosen, **changes)


def _workload(model: str, framework: str, image_size: int, chosen: str, **changes: object) -> Zoo:
    options = {"model": model, **({"image_size": image_size} if image_size else {}), **changes}
    defaults = profile_defaults("synthetic", options)
    classes = CLASSES if image_size else KINDS[model].classes
    settings = synthetic.settings(
        "zoo",
        framework=framework,
        profile="synthetic",
        global_batch_size=images(model) if image_size else 1,
        dataset="imagenet",
        model=defaults.model,
        variant=defaults.variant,
        hyperparameter_set=chosen,
        hyperparameters=synthetic.hyperparameters(
            named_sets(Zoo)[chosen], learning_rate=rate(model)
        ),
        options={
            "evaluation_batch_size": 1,
            "compile": synthetic.compiled(framework, ""),
            **options,
        },
    )
    return Zoo(settings, DatasetInfo(64, 16, {"classes": classes}, "synthetic"))


def small(model: str, image_size: int) -> layer_lists.Network:
    """Return a network for small images. `mixture` is one of the models."""
    with mock.patch.dict(KINDS, mixture=Kind(64, mixture)):
        return networks.build(model, image_size, CLASSES)


def weights(zoo: Zoo) -> dict[str, np.ndarray]:
    """Return initial weights with changed biases, scales, and shifts."""
    return synthetic.shaken(zoo.initial_weights(7))


def statistics(zoo: Zoo) -> dict[str, np.ndarray]:
    """Return running statistics that differ from 0 and 1."""
    return synthetic.statistics(layer_lists.statistics(zoo.network))


def batch(zoo: Zoo, step: int) -> Batch:
    """Return smooth random images of a step."""
    count = zoo.images_per_replica
    numbers = np.arange(step * count, (step + 1) * count)
    image = synthetic.pictures(numbers, int(zoo.settings.model["image_size"]))
    label = integers(bits(stream(5, "labels"), numbers), zoo.network.classes).astype(np.int32)
    arrays = {"image": image, "label": label, "dropout_key": dropout.keys(5, 0, numbers)}
    return Batch({**arrays, "valid": np.ones(count, bool)}, float(count), float(count), count)
