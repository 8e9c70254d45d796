"""ResNet v1.5: layers, parameters and initial values, without a framework. Names are torchvision's.

In a bottleneck with stride 2 the stride sits on the 3×3 convolution. Convolutions have no bias and pad (kernel - 1) / 2
on every side; the 3×3 max pool behind the stem pads 1 on every side. Weights are (outputs, inputs, height, width).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from workloads.api import Array, Json
from workloads.common.initial import draw

EXPANSION = 4
"""Output channels of a bottleneck over its width."""
BATCH_NORM_EPSILON = 1e-5
BATCH_NORM_MOMENTUM = 0.1
"""Share of the new statistic in the running one: 1 minus the reference's decay of 0.9."""
DENSE_DEVIATION = 0.01
"""Standard deviation of the classifier's initial weights (reference, v0.7-era code)."""
MEAN = (123.68, 116.78, 103.94)
"""Subtracted from RGB values of 0 … 255; the reference does not divide (imagenet_preprocessing.py)."""


@dataclass(frozen=True)
class Convolution:
    """A convolution with the batch norm behind it."""

    name: str
    """Of the convolution: `layer1.0.conv1`."""
    norm: str
    """Of the batch norm: `layer1.0.bn1`."""
    inputs: int
    outputs: int
    kernel: int
    stride: int

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(outputs, inputs, kernel, kernel)."""
        return (self.outputs, self.inputs, self.kernel, self.kernel)

    @property
    def padding(self) -> int:
        """Zeros on every side."""
        return (self.kernel - 1) // 2


@dataclass(frozen=True)
class Bottleneck:
    """1×1, 3×3 (with the stride), 1×1; ReLU behind each, behind the last after the shortcut is added."""

    convolutions: tuple[Convolution, Convolution, Convolution]
    shortcut: Convolution | None
    """1×1 projection in the first block of a stage; None: the input itself."""


@dataclass(frozen=True)
class Network:
    """The layers in their order: stem, 3×3 max pool of stride 2, blocks, global average pool, classifier `fc`."""

    stem: Convolution
    blocks: tuple[Bottleneck, ...]
    features: int
    """Channels before the classifier."""
    classes: int

    @property
    def convolutions(self) -> Iterator[Convolution]:
        """All of them, in order of the parameters."""
        yield self.stem
        for block in self.blocks:
            yield from block.convolutions
            if block.shortcut is not None:
                yield block.shortcut


def build(model: Mapping[str, Json]) -> Network:
    """`model`: `blocks` (bottlenecks of each stage), `widths` (of each stage), `classes`. 50 layers: [3, 4, 6, 3]."""
    widths = [int(width) for width in model["widths"]]
    channels = widths[0]
    stem = Convolution("conv1", "bn1", 3, channels, 7, 2)
    blocks = []
    for stage, (count, width) in enumerate(zip(model["blocks"], widths, strict=True), start=1):
        for number in range(int(count)):
            stride = 2 if stage > 1 and number == 0 else 1
            blocks.append(_bottleneck(f"layer{stage}.{number}", channels, width, stride, number == 0))
            channels = width * EXPANSION
    return Network(stem, tuple(blocks), channels, int(model["classes"]))


def _bottleneck(name: str, inputs: int, width: int, stride: int, project: bool) -> Bottleneck:
    outputs = width * EXPANSION
    shapes = ((inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1))
    first, second, third = (
        Convolution(f"{name}.conv{number}", f"{name}.bn{number}", *shape)
        for number, shape in enumerate(shapes, start=1)
    )
    shortcut = Convolution(f"{name}.downsample.0", f"{name}.downsample.1", inputs, outputs, 1, stride)
    return Bottleneck((first, second, third), shortcut if project else None)


def activation_values(network: Network, image_size: int) -> int:
    """What the convolutions give for one image: 11,113,984 values for 50 layers at 224 pixels."""
    side = _half(image_size)  # behind the stem
    values = network.stem.outputs * side**2
    side = _half(side)  # behind the max pool
    for block in network.blocks:
        narrow, spatial, wide = block.convolutions
        values += narrow.outputs * side**2
        side = _half(side) if spatial.stride == 2 else side
        values += (spatial.outputs + wide.outputs + (block.shortcut.outputs if block.shortcut else 0)) * side**2
    return values


def _half(side: int) -> int:
    """Rows behind a layer of stride 2 that pads evenly."""
    return (side + 1) // 2


def shapes(network: Network) -> dict[str, tuple[int, ...]]:
    """Canonical name to shape of every trained parameter, in order."""
    found: dict[str, tuple[int, ...]] = {}
    for convolution in network.convolutions:
        found[f"{convolution.name}.weight"] = convolution.shape
        found[f"{convolution.norm}.weight"] = found[f"{convolution.norm}.bias"] = (convolution.outputs,)
    return {**found, "fc.weight": (network.classes, network.features), "fc.bias": (network.classes,)}


def statistics(network: Network) -> dict[str, tuple[int, ...]]:
    """Canonical name to shape of every running statistic: they are state, not parameters."""
    return {
        f"{convolution.norm}.running_{kind}": (convolution.outputs,)
        for convolution in network.convolutions
        for kind in ("mean", "var")
    }


def parameter_count(network: Network) -> int:
    """Number of trained values; 25,557,032 for 50 layers and 1,000 classes."""
    return sum(math.prod(shape) for shape in shapes(network).values())


def is_norm(name: str, network: Network) -> bool:
    """True for a batch norm's scale or shift."""
    return name.rpartition(".")[0] in {convolution.norm for convolution in network.convolutions}


def initial_weights(network: Network, gain: float, seed: int) -> Iterator[tuple[str, Array]]:
    """(name, float32 array) of every parameter.

    Convolutions: truncated normal of variance gain / fan-in (reference: gain 1). Batch norm: scale 1 everywhere, shift
    0. Classifier: normal of deviation 0.01, bias 0. Running statistics start at mean 0, variance 1 in every framework.
    """
    for name, shape in shapes(network).items():
        if name == "fc.weight":
            yield name, draw(seed, name, shape, "normal", DENSE_DEVIATION)
        elif len(shape) == 4:
            yield name, draw(seed, name, shape, "truncated", math.sqrt(gain / math.prod(shape[1:])))
        else:
            yield name, np.full(shape, 0.0 if name.endswith(".bias") else 1.0, np.float32)
