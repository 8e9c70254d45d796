"""ResNet v1.5: a trunk of bottlenecks, a global average pool and a classifier `fc`, without a framework.

Layers, names and their order: `workloads.common.networks.residual`. The stride of a bottleneck sits on its 3×3 convolution.
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
"""Share of the new statistic in the running one: 1 minus the reference's decay of 0.9."""


@dataclass(frozen=True)
class Initialisation:
    """How the first weights are drawn."""

    kind: str
    """Of the convolutions: `truncated` or `normal` (`workloads.common.networks.initial.draw`)."""
    gain: float
    """The variance of a convolution's weights is gain / fan-in."""
    classifier: str = "normal"
    """Of the classifier's weights: `normal`, of deviation 0.01; `glorot`, uniform in ±√(6 / (inputs + outputs)); `alike`, as
    if it were a convolution."""


INITIALISATIONS: Mapping[str, Initialisation] = {
    "truncated_normal": Initialisation("truncated", 1.0),
    "truncated_normal_glorot": Initialisation("truncated", 1.0, "glorot"),
    "truncated_normal_2": Initialisation("truncated", 2.0),
    "gaussian_2": Initialisation("normal", 2.0),
    "gaussian_2_everywhere": Initialisation("normal", 2.0, "alike"),
}
"""What a hyperparameter set can name.

truncated_normal: the reference (variance scaling in resnet_model.py; the classifier as in its v0.7-era code).
truncated_normal_glorot: the reference at its tag v0.5, where `tf.layers.dense` is given no initializer and takes its own.
gaussian_2_everywhere: NVIDIA v0.5, MXNet's `Xavier(rnd_type="gaussian", factor_type="in", magnitude=2)` (common/fit.py).
gaussian_2: NVIDIA v0.6 and v0.7, the same with the classifier's 0.01 (`MLPerfInit` in train_imagenet.py). Its first layer has
a fourth, empty input channel, which lowers that layer's deviation to √(3/4) of ours. truncated_normal_2: the demo's.
"""
MEAN = (123.68, 116.78, 103.94)
"""Subtracted from RGB values of 0 … 255; the reference does not divide (imagenet_preprocessing.py)."""


@dataclass(frozen=True)
class Network(Trunk):
    """The trunk, then a global average pool and the classifier `fc`."""

    classes: int


def build(model: Mapping[str, Json]) -> Network:
    """`model`: `blocks` (bottlenecks of each stage), `widths` (of each stage), `classes`. 50 layers: [3, 4, 6, 3]."""
    widths = model["widths"]
    trunk = residual.build_trunk("bottleneck", model["blocks"], widths, [1] + [2] * (len(widths) - 1))
    return Network(trunk.stem, trunk.blocks, int(model["classes"]))


def shapes(network: Network) -> Shapes:
    """Canonical name to shape of every trained parameter, in order."""
    classifier = {"fc.weight": (network.classes, network.features), "fc.bias": (network.classes,)}
    return {**residual.parameter_shapes(network.trunk_convolutions), **classifier}


def statistics(network: Network) -> Shapes:
    """Canonical name to shape of every running statistic."""
    return residual.statistic_shapes(network.trunk_convolutions)


def parameter_count(network: Network) -> int:
    """Number of trained values; 25,557,032 for 50 layers and 1,000 classes."""
    return sum(math.prod(shape) for shape in shapes(network).values())


def is_norm(name: str, network: Network) -> bool:
    """True for a batch norm's scale or shift."""
    return name.rpartition(".")[0] in {convolution.norm for convolution in network.trunk_convolutions}


def initial_weights(network: Network, name: str, seed: int) -> Iterator[tuple[str, Array]]:
    """(name, float32 array) of every parameter, as the initialisation of this name has it.

    Batch norm: scale 1 everywhere, shift 0. The classifier's bias is 0. Running statistics start at mean 0, variance 1 in
    every framework.
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
    yield "fc.weight", draw(seed, "fc.weight", (network.classes, network.features), *kinds[chosen.classifier])
    yield "fc.bias", np.zeros(network.classes, np.float32)
