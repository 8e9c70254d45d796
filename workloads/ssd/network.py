"""SSD on a ResNet-34 trunk: layers of the extra feature maps and the heads.

This module does not depend on a framework.

The trunk (`workloads.common.networks.residual`) ends after conv4_x (`layer3`). The first block of
conv4_x has stride 1, including its shortcut, so the first feature map is 38×38. Five pairs of
convolutions with bias and ReLU, without batch norm, compute the coarser maps. Each map has two
heads without ReLU: a 3×3 convolution for the box offsets and a 3×3 convolution for the class
logits.

In the channels of a head, the coordinate (or class) is the outermost index, followed by the box
shapes of a cell. An output (B, 4·k, H, W) that is reshaped to (B, 4, k·H·W) is therefore in the
order of the priors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from workloads.api import Array, Json
from workloads.common.networks import residual
from workloads.common.networks.initial import draw
from workloads.common.networks.residual import Convolution as Convolution
from workloads.common.networks.residual import Shapes, Trunk
from workloads.ssd.priors import shapes_per_cell

BATCH_NORM_EPSILON = 1e-5
BATCH_NORM_MOMENTUM = 0.1
"""Weight of the statistic of the current batch in the running statistic (PyTorch's default, as
in the reference).
"""
MEAN = (0.485, 0.456, 0.406)
STANDARD_DEVIATION = (0.229, 0.224, 0.225)
"""Standard deviations of the color channels. Pixel values of 0 … 1 are normalized with MEAN and
STANDARD_DEVIATION (reference utils.py).
"""


@dataclass(frozen=True)
class Network(Trunk):
    """Layers of the trunk, the extra layers, and the heads.

    The feature map of the trunk and the feature map of each extra layer have heads.
    """

    extras: tuple[tuple[Convolution, Convolution], ...]
    """Pairs of convolutions that compute the coarser feature maps. A ReLU follows each
    convolution.
    """
    box_heads: tuple[Convolution, ...]
    class_heads: tuple[Convolution, ...]
    classes: int
    """Number of classes without the background."""

    @property
    def convolutions(self) -> Iterator[Convolution]:
        """Return all convolutions in parameter order."""
        yield from self.trunk_convolutions
        for pair in self.extras:
            yield from pair
        yield from self.box_heads
        yield from self.class_heads


def build(model: Mapping[str, Json]) -> Network:
    """Return the layers of a model.

    Args:
        model: Settings of the model: `blocks`, `widths`, and `strides` of the stages of the trunk;
            `extras`, (inner channels, outputs, stride, padding) of each coarser map; `ratios` (see
            priors.py); `classes`, the number of classes without background.
    """
    trunk = residual.build_trunk("basic", model["blocks"], model["widths"], model["strides"])
    extras, channels = [], [trunk.features]
    for number, (between, outputs, stride, padding) in enumerate(model["extras"], 1):
        first = Convolution(f"extra{number}.conv1", channels[-1], between, 1, 1, 0)
        extras.append(
            (first, Convolution(f"extra{number}.conv2", between, outputs, 3, stride, padding))
        )
        channels.append(outputs)
    classes = int(model["classes"])
    maps = list(enumerate(zip(channels, shapes_per_cell(model), strict=True), 1))
    return Network(
        trunk.stem,
        trunk.blocks,
        tuple(extras),
        tuple(Convolution(f"box{i}", inputs, 4 * k, 3, 1, 1) for i, (inputs, k) in maps),
        tuple(
            Convolution(f"class{i}", inputs, (classes + 1) * k, 3, 1, 1) for i, (inputs, k) in maps
        ),
        classes,
    )


def map_sizes(network: Network, image_size: int) -> list[int]:
    """Return the cells per side of each map: 38, 19, 10, 5, 3, 1 for 300 pixels.

    The list must equal the setting `map_sizes` of the priors.
    """
    *_, (_, side) = residual.map_sizes(network, image_size)
    sizes = [side]
    for pair in network.extras:
        for convolution in pair:
            side = convolution.size(side)
        sizes.append(side)
    return sizes


def shapes(network: Network) -> Shapes:
    """Return the shape of every trained parameter by name, in parameter order."""
    return residual.parameter_shapes(network.convolutions)


def statistics(network: Network) -> Shapes:
    """Return the shape of every running statistic by name."""
    return residual.statistic_shapes(network.trunk_convolutions)


def parameter_counts(network: Network) -> dict[str, int]:
    """Return the number of trained parameters in each component of the network.

    The components are `backbone`, `extras`, `box_heads`, and `class_heads`. The reference has
    19,972,534 parameters in total.
    """
    counts = dict.fromkeys(("backbone", "extras", "box_heads", "class_heads"), 0)
    parts = {"extra": "extras", "box": "box_heads", "class": "class_heads"}
    for name, shape in shapes(network).items():
        part = next((parts[start] for start in parts if name.startswith(start)), "backbone")
        counts[part] += math.prod(shape)
    return counts


def initial_weights(network: Network, seed: int) -> Iterator[tuple[str, Array]]:
    """Yield (name, float32 array) for every parameter.

    The initial weights of the trunk are used only if no published weights replace them. The trunk's
    convolutions are normal with variance 2 / (outputs · kernel²), as in torchvision's resnet.py,
    and batch norms have scale 1 and shift 0. Weights of extra layers and heads are Xavier uniform.
    The biases of extra layers and heads are uniform in ±1 / √fan-in. This distribution is PyTorch's
    default for convolutions, which the reference does not change (ssd300.py).
    """
    for layer in network.trunk_convolutions:
        yield from residual.normed_weights(
            layer, seed, "normal", math.sqrt(2 / (layer.outputs * layer.kernel**2))
        )
    for layer in network.convolutions:
        if layer.norm is None:
            area, weight, bias = layer.kernel**2, f"{layer.name}.weight", f"{layer.name}.bias"
            fan_in, fan_out = layer.inputs * area, layer.outputs * area
            yield (
                weight,
                draw(seed, weight, layer.shape, "uniform", math.sqrt(6 / (fan_in + fan_out))),
            )
            yield bias, draw(seed, bias, (layer.outputs,), "uniform", 1 / math.sqrt(fan_in))
