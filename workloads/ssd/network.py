"""SSD on a ResNet-34 trunk: layers, parameters and initial values, without a framework.

The trunk ends behind conv4_x (`layer3`), whose first block has stride 1, on its shortcut too: the first map is 38×38. Names of
the trunk are torchvision's, so that its published weights fit. Five pairs of convolutions with bias and ReLU, without batch
norm, give the coarser maps; on each map a 3×3 convolution gives box offsets and another the class logits, both linear.

A head's channels: coordinate (or class) outermost, then the box shapes of a cell. So (B, 4·k, H, W) reshaped to (B, 4, k·H·W)
is in the order of the priors. Weights are (outputs, inputs, height, width).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from workloads.api import Array, Json
from workloads.common.initial import draw
from workloads.ssd.priors import shapes_per_cell

NEGATIVES_PER_POSITIVE = 3
"""Background priors in the loss, for each positive one (reference base_model.py)."""
BATCH_NORM_EPSILON = 1e-5
BATCH_NORM_MOMENTUM = 0.1
"""Share of the new statistic in the running one (PyTorch's default, which the reference keeps)."""
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)
"""Pixels of 0 … 1 minus the mean, over the deviation (reference utils.py)."""


@dataclass(frozen=True)
class Convolution:
    """A convolution; behind it a batch norm, or a bias."""

    name: str
    inputs: int
    outputs: int
    kernel: int
    stride: int
    padding: int
    norm: str | None = None
    """Name of the batch norm; None: the convolution has a bias instead."""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(outputs, inputs, kernel, kernel)."""
        return (self.outputs, self.inputs, self.kernel, self.kernel)

    def size(self, side: int) -> int:
        """Side of the output for an input of `side`."""
        return (side + 2 * self.padding - self.kernel) // self.stride + 1


@dataclass(frozen=True)
class Block:
    """Basic block: 3×3 (with the stride), ReLU, 3×3; the shortcut is added, then ReLU."""

    convolutions: tuple[Convolution, Convolution]
    shortcut: Convolution | None
    """1×1 projection where stride or width change; None: the input itself."""


@dataclass(frozen=True)
class Network:
    """Stem, 3×3 max pool (stride 2, padding 1), blocks, extras; heads on the blocks' output and on each extra's."""

    stem: Convolution
    blocks: tuple[Block, ...]
    extras: tuple[tuple[Convolution, Convolution], ...]
    """ReLU behind each convolution."""
    box_heads: tuple[Convolution, ...]
    class_heads: tuple[Convolution, ...]
    classes: int
    """Without the background."""

    @property
    def trunk(self) -> Iterator[Convolution]:
        """The convolutions with batch norm, in order of the parameters."""
        yield self.stem
        for block in self.blocks:
            yield from block.convolutions
            if block.shortcut is not None:
                yield block.shortcut

    @property
    def convolutions(self) -> Iterator[Convolution]:
        """All of them, in order of the parameters."""
        yield from self.trunk
        for pair in self.extras:
            yield from pair
        yield from self.box_heads
        yield from self.class_heads


def build(model: Mapping[str, Json]) -> Network:
    """The layers of a model.

    `model`: `blocks`, `widths` and `strides` of the trunk's stages; `extras`, for each further map (channels between,
    outputs, stride, padding); `ratios` (see priors.py); `classes` without background.
    """
    widths = [int(width) for width in model["widths"]]
    stem = Convolution("conv1", 3, widths[0], 7, 2, 3, "bn1")
    blocks, channels = [], widths[0]
    for stage, (count, width, stride) in enumerate(zip(model["blocks"], widths, model["strides"], strict=True), 1):
        for number in range(int(count)):
            blocks.append(_block(f"layer{stage}.{number}", channels, width, 1 if number else int(stride)))
            channels = width
    extras, of_maps = [], [channels]
    for number, (between, outputs, stride, padding) in enumerate(model["extras"], 1):
        first = Convolution(f"extra{number}.conv1", of_maps[-1], between, 1, 1, 0)
        extras.append((first, Convolution(f"extra{number}.conv2", between, outputs, 3, stride, padding)))
        of_maps.append(outputs)
    classes = int(model["classes"])
    shapes = list(zip(of_maps, shapes_per_cell(model), strict=True))
    return Network(
        stem,
        tuple(blocks),
        tuple(extras),
        tuple(Convolution(f"box{i}", inputs, 4 * k, 3, 1, 1) for i, (inputs, k) in enumerate(shapes, 1)),
        tuple(Convolution(f"class{i}", inputs, (classes + 1) * k, 3, 1, 1) for i, (inputs, k) in enumerate(shapes, 1)),
        classes,
    )


def _block(name: str, inputs: int, width: int, stride: int) -> Block:
    first = Convolution(f"{name}.conv1", inputs, width, 3, stride, 1, f"{name}.bn1")
    second = Convolution(f"{name}.conv2", width, width, 3, 1, 1, f"{name}.bn2")
    if inputs == width and stride == 1:
        return Block((first, second), None)
    projection = Convolution(f"{name}.downsample.0", inputs, width, 1, stride, 0, f"{name}.downsample.1")
    return Block((first, second), projection)


def map_sizes(network: Network, image_size: int) -> list[int]:
    """Cells on a side of each map; 38, 19, 10, 5, 3, 1 for 300 pixels. The priors must have the same."""
    side = network.stem.size(image_size)
    side = (side + 2 - 3) // 2 + 1
    for block in network.blocks:
        for convolution in block.convolutions:
            side = convolution.size(side)
    sizes = [side]
    for pair in network.extras:
        for convolution in pair:
            side = convolution.size(side)
        sizes.append(side)
    return sizes


def activation_values(network: Network, image_size: int) -> int:
    """What the trunk's convolutions give for one image: most of what is kept for the backward pass."""
    side = network.stem.size(image_size)
    values = network.stem.outputs * side**2
    side = (side + 2 - 3) // 2 + 1
    for block in network.blocks:
        for convolution in block.convolutions:
            side = convolution.size(side)
            values += convolution.outputs * side**2
        values += block.shortcut.outputs * side**2 if block.shortcut else 0
    return values


def shapes(network: Network) -> dict[str, tuple[int, ...]]:
    """Canonical name to shape of every trained parameter, in order."""
    found: dict[str, tuple[int, ...]] = {}
    for convolution in network.convolutions:
        found[f"{convolution.name}.weight"] = convolution.shape
        if convolution.norm is None:
            found[f"{convolution.name}.bias"] = (convolution.outputs,)
        else:
            found[f"{convolution.norm}.weight"] = found[f"{convolution.norm}.bias"] = (convolution.outputs,)
    return found


def statistics(network: Network) -> dict[str, tuple[int, ...]]:
    """Canonical name to shape of every running statistic: they are state, not parameters."""
    return {
        f"{convolution.norm}.running_{kind}": (convolution.outputs,)
        for convolution in network.trunk
        for kind in ("mean", "var")
    }


def parameter_counts(network: Network) -> dict[str, int]:
    """Trained values of `backbone`, `extras`, `box_heads`, `class_heads`; 19,972,534 in all in the reference."""
    counts = dict.fromkeys(("backbone", "extras", "box_heads", "class_heads"), 0)
    parts = {"extra": "extras", "box": "box_heads", "class": "class_heads"}
    for name, shape in shapes(network).items():
        part = next((parts[start] for start in parts if name.startswith(start)), "backbone")
        counts[part] += math.prod(shape)
    return counts


def initial_weights(network: Network, seed: int) -> Iterator[tuple[str, Array]]:
    """(name, float32 array) of every parameter.

    Trunk, where no published weights replace it: normal of variance 2 / (outputs · kernel²) as in torchvision's resnet.py;
    batch norm 1 and 0. Extras and heads: Xavier uniform; their biases uniform in ±1 / √fan-in, PyTorch's default for
    convolutions, which the reference leaves as it is (ssd300.py).
    """
    for convolution in network.convolutions:
        area = convolution.kernel**2
        fan_in, fan_out = convolution.inputs * area, convolution.outputs * area
        weight, shape = f"{convolution.name}.weight", convolution.shape
        if convolution.norm is None:
            yield weight, draw(seed, weight, shape, "uniform", math.sqrt(6 / (fan_in + fan_out)))
            bias = f"{convolution.name}.bias"
            yield bias, draw(seed, bias, shape[:1], "uniform", 1 / math.sqrt(fan_in))
        else:
            yield weight, draw(seed, weight, shape, "normal", math.sqrt(2 / fan_out))
            yield f"{convolution.norm}.weight", np.ones(shape[:1], np.float32)
            yield f"{convolution.norm}.bias", np.zeros(shape[:1], np.float32)
