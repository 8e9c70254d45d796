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
DENSE_STANDARD_DEVIATION = 0.01
"""Standard deviation of the classifier's initial weights (reference, v0.7-era code)."""
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


def activation_values(network: Network, image_size: int) -> int:
    """Numbers that the convolutions give for one image of `image_size` pixels on each side."""
    return residual.activation_values(network, image_size, image_size)


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


def initial_weights(network: Network, gain: float, seed: int) -> Iterator[tuple[str, Array]]:
    """(name, float32 array) of every parameter.

    Convolutions: truncated normal of variance gain / fan-in (reference: gain 1). Batch norm: scale 1 everywhere, shift
    0. Classifier: normal of deviation 0.01, bias 0. Running statistics start at mean 0, variance 1 in every framework.
    """
    for layer in network.trunk_convolutions:
        deviation = math.sqrt(gain / math.prod(layer.shape[1:]))
        yield from residual.normed_weights(layer, seed, "truncated", deviation)
    yield "fc.weight", draw(seed, "fc.weight", (network.classes, network.features), "normal", DENSE_STANDARD_DEVIATION)
    yield "fc.bias", np.zeros(network.classes, np.float32)
