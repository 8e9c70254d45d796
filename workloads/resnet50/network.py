"""ResNet v1.5: a trunk of bottlenecks, global average pooling, and a classifier `fc`.

This module does not depend on a framework. `workloads.common.networks.residual` describes layers,
names, and their order. In a bottleneck block, the 3×3 convolution has the stride.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from workloads.api import Array, Json
from workloads.common.networks import residual
from workloads.common.networks.initial import draw
from workloads.common.networks.residual import Shapes, Trunk

BATCH_NORM_EPSILON = 1e-5
BATCH_NORM_MOMENTUM = 0.1
"""Weight of the statistic of the current batch in the running statistic: 1 minus the reference's
decay of 0.9.
"""


@dataclass(frozen=True)
class Initialisation:
    """Distribution of the initial weights."""

    kind: str
    """Distribution of the convolution weights: `truncated` or `normal`, as in
    `networks.initial.draw`.
    """
    gain: float
    """Product of the variance and the fan-in of a convolution's weights."""
    classifier: str = "normal"
    """Distribution of the classifier's weights.

    `normal` has a standard deviation of 0.01. `glorot` is uniform in ±√(6 / (inputs + outputs)).
    `alike` is the distribution of the convolution weights.
    """


INITIALISATIONS: Mapping[str, Initialisation] = {
    "truncated_normal": Initialisation("truncated", 1.0),
    "truncated_normal_glorot": Initialisation("truncated", 1.0, "glorot"),
    "truncated_normal_2": Initialisation("truncated", 2.0),
    "gaussian_2": Initialisation("normal", 2.0),
    "gaussian_2_everywhere": Initialisation("normal", 2.0, "alike"),
}
"""Initializations that a hyperparameter set can select.

- truncated_normal: Initialization of the reference (variance scaling in resnet_model.py). The
  classifier is initialized as in the reference's code around v0.7.
- truncated_normal_glorot: Initialization of the reference at its tag v0.5, in which
  `tf.layers.dense` uses its default initializer.
- truncated_normal_2: Initialization of the demo.
- gaussian_2: Initialization of NVIDIA v0.6 and v0.7. In contrast to `gaussian_2_everywhere`, the
  classifier has a standard deviation of 0.01 (`MLPerfInit` in train_imagenet.py). The first layer
  of NVIDIA's network has a fourth, empty input channel, so its standard deviation is √(3/4) times
  the standard deviation in the suite.
- gaussian_2_everywhere: Initialization of NVIDIA v0.5, MXNet's `Xavier(rnd_type="gaussian",
  factor_type="in", magnitude=2)` (common/fit.py).
"""
MEAN = (123.68, 116.78, 103.94)
"""Means that are subtracted from RGB pixel values of 0 … 255.

The pixel values are not divided by a standard deviation (reference imagenet_preprocessing.py).
"""


@dataclass(frozen=True)
class Network(Trunk):
    """Layers of the trunk, followed by global average pooling and the classifier `fc`."""

    classes: int


def build(model: Mapping[str, Json]) -> Network:
    """Return the layers of a model.

    Args:
        model: Model settings `blocks` (number of bottleneck blocks per stage, [3, 4, 6, 3] for 50
            layers), `widths` (per stage), and `classes`.
    """
    widths = model["widths"]
    trunk = residual.build_trunk(
        "bottleneck", model["blocks"], widths, [1] + [2] * (len(widths) - 1)
    )
    return Network(trunk.stem, trunk.blocks, int(model["classes"]))


def shapes(network: Network) -> Shapes:
    """Return the shape of every trained parameter by name, in parameter order."""
    classifier = {"fc.weight": (network.classes, network.features), "fc.bias": (network.classes,)}
    return {**residual.parameter_shapes(network.trunk_convolutions), **classifier}


def statistics(network: Network) -> Shapes:
    """Return the shape of every running statistic by name."""
    return residual.statistic_shapes(network.trunk_convolutions)


def parameter_count(network: Network) -> int:
    """Return the number of elements of all parameters.

    The network with 50 layers and 1,000 classes has 25,557,032 parameters.
    """
    return sum(math.prod(shape) for shape in shapes(network).values())


def is_norm(name: str, network: Network) -> bool:
    """Return whether a parameter is the scale or shift of a batch norm."""
    return name.rpartition(".")[0] in {
        convolution.norm for convolution in network.trunk_convolutions
    }


def initial_weights(network: Network, name: str, seed: int) -> Iterator[tuple[str, Array]]:
    """Yield (name, float32 array) for every parameter, drawn with initialization `name`.

    The initial scale of all batch norms is 1, and the initial shift is 0. The bias of the
    classifier is 0. Running means are initially 0, and running variances are initially 1 in every
    framework.
    """
    chosen = INITIALISATIONS[name]
    for layer in network.trunk_convolutions:
        deviation = math.sqrt(chosen.gain / math.prod(layer.shape[1:]))
        yield from residual.normed_weights(layer, seed, chosen.kind, deviation)
    kinds = {
        "normal": ("normal", 0.01),
        "glorot": ("uniform", math.sqrt(6 / (network.features + network.classes))),
        "alike": (chosen.kind, math.sqrt(chosen.gain / network.features)),
    }
    yield (
        "fc.weight",
        draw(seed, "fc.weight", (network.classes, network.features), *kinds[chosen.classifier]),
    )
    yield "fc.bias", np.zeros(network.classes, np.float32)
