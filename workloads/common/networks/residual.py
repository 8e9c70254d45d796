"""Residual networks as framework-independent lists of layers, shared by ResNets and detectors.

Names are torchvision's (`conv1`, `bn1`, `layer1.0.conv1`, `layer1.0.downsample.0`, …), so its
published weights can be loaded. Convolutions of a trunk have no bias and are followed by a batch
norm. All pad (kernel - 1) / 2 on every side. The 3×3 max pool after the stem has stride 2 and a
padding of 1. Weights are (outputs, inputs, height, width).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from workloads.api import Array
from workloads.common.networks.initial import draw

if TYPE_CHECKING:
    from workloads.common.networks import layer_lists

    AnyConvolution: TypeAlias = "Convolution | layer_lists.Convolution"

BLOCKS: Mapping[int, tuple[str, tuple[int, ...]]] = {
    18: ("basic", (2, 2, 2, 2)),
    34: ("basic", (3, 4, 6, 3)),
    50: ("bottleneck", (3, 4, 6, 3)),
    101: ("bottleneck", (3, 4, 23, 3)),
    152: ("bottleneck", (3, 8, 36, 3)),
}
"""Kind of block and number of blocks of each stage, by number of layers (He et al. 2015, table 1).
"""
WIDTHS = (64, 128, 256, 512)
STRIDES = (1, 2, 2, 2)
"""Stride of each stage, equal for all depths in `BLOCKS`."""
EXPANSION: Mapping[str, int] = {"basic": 1, "bottleneck": 4}
"""Ratio of the output channels of a block to its width, by kind of block."""

Shapes = dict[str, tuple[int, ...]]
"""Shape by canonical name, in the order of the parameters."""


@dataclass(frozen=True)
class Convolution:
    """A convolution with a batch norm or with a bias."""

    name: str
    """For example `layer1.0.conv1`."""
    inputs: int
    outputs: int
    kernel: int
    stride: int
    padding: int
    """Number of zeros on every side."""
    norm: str | None = None
    """Name of the batch norm, for example `layer1.0.bn1`. None if the convolution has a bias."""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(outputs, inputs, kernel, kernel)."""
        return (self.outputs, self.inputs, self.kernel, self.kernel)

    @property
    def has_bias(self) -> bool:
        """True if no batch norm follows."""
        return self.norm is None

    def size(self, side: int) -> int:
        """Return the side of the output for an input of `side`."""
        return (side + 2 * self.padding - self.kernel) // self.stride + 1


@dataclass(frozen=True)
class Block:
    """Residual block: convolutions with batch norm and ReLU, and a shortcut.

    The shortcut is added before the last ReLU. A basic block has the kernels 3×3, 3×3. A bottleneck
    has 1×1, 3×3, 1×1.
    """

    convolutions: tuple[Convolution, ...]
    shortcut: Convolution | None
    """1×1 projection if the stride or the number of channels changes. None stands for the identity.
    """


@dataclass(frozen=True)
class Trunk:
    """A stem, a max pool, and residual blocks."""

    stem: Convolution
    blocks: tuple[Block, ...]

    @property
    def trunk_convolutions(self) -> Iterator[Convolution]:
        """Convolutions in the order of the parameters."""
        yield self.stem
        for block in self.blocks:
            yield from block.convolutions
            if block.shortcut is not None:
                yield block.shortcut

    @property
    def features(self) -> int:
        """Number of channels of the last block's output."""
        return self.blocks[-1].convolutions[-1].outputs


def build_trunk(
    kind: str,
    blocks: Sequence[int],
    widths: Sequence[int] = WIDTHS,
    strides: Sequence[int] = STRIDES,
    stride_on_1x1: bool = False,
) -> Trunk:
    """Build a trunk from the blocks, widths and strides of its stages.

    The stem is as wide as the first stage. A stage's stride applies to its first block: on the 3×3
    convolution of a bottleneck ("v1.5", torchvision), on its first convolution with `stride_on_1x1`
    (the paper and Detectron's weights), and on the first convolution of a basic block.

    Args:
        kind: `basic` or `bottleneck`.
        blocks: Number of blocks of each stage.
        widths: Width of each stage.
        strides: Stride of each stage.
        stride_on_1x1: Whether a bottleneck's first convolution has the stride.

    Raises:
        KeyError: `kind` has a different value.
        ValueError: The lists have different lengths.
    """
    channels = int(widths[0])
    stem = normed("conv1", "bn1", 3, channels, 7, 2)
    built = []
    for stage, (count, width, stride) in enumerate(
        zip(blocks, widths, strides, strict=True), start=1
    ):
        for number in range(int(count)):
            first_stride = 1 if number else int(stride)
            built.append(
                _block(
                    f"layer{stage}.{number}",
                    kind,
                    channels,
                    int(width),
                    first_stride,
                    stride_on_1x1,
                )
            )
            channels = int(width) * EXPANSION[kind]
    return Trunk(stem, tuple(built))


def normed(
    name: str, norm: str, inputs: int, outputs: int, kernel: int, stride: int = 1
) -> Convolution:
    """Return a convolution with batch norm and symmetric padding."""
    return Convolution(name, inputs, outputs, kernel, stride, (kernel - 1) // 2, norm)


def _block(
    name: str, kind: str, inputs: int, width: int, stride: int, stride_on_1x1: bool
) -> Block:
    outputs = width * EXPANSION[kind]
    if kind == "basic":
        layers = [(inputs, width, 3, stride), (width, width, 3, 1)]
    else:
        first, second = (stride, 1) if stride_on_1x1 else (1, stride)
        layers = [(inputs, width, 1, first), (width, width, 3, second), (width, outputs, 1, 1)]
    convolutions = tuple(
        normed(f"{name}.conv{number}", f"{name}.bn{number}", *layer)
        for number, layer in enumerate(layers, start=1)
    )
    if inputs == outputs and stride == 1:
        return Block(convolutions, None)
    return Block(
        convolutions,
        normed(f"{name}.downsample.0", f"{name}.downsample.1", inputs, outputs, 1, stride),
    )


def map_sizes(trunk: Trunk, side: int) -> Iterator[tuple[Convolution, int]]:
    """Yield each convolution of the trunk with the side of its output.

    `side` is the height or width of the image in pixels.
    """
    side = trunk.stem.size(side)
    yield trunk.stem, side
    side = (side + 2 - 3) // 2 + 1
    for block in trunk.blocks:
        for convolution in block.convolutions:
            side = convolution.size(side)
            yield convolution, side
        if block.shortcut is not None:
            yield block.shortcut, side


def activation_values(trunk: Trunk, height: int, width: int) -> int:
    """Return the number of output values of the trunk's convolutions for one image.

    Most of the memory for the backward pass holds these values. ResNet-50 has 11,113,984 at 224 x
    224 pixels.
    """
    rows, columns = map_sizes(trunk, height), map_sizes(trunk, width)
    return sum(
        layer.outputs * row * column
        for (layer, row), (_, column) in zip(rows, columns, strict=True)
    )


def parameter_shapes(convolutions: Iterable[AnyConvolution], frozen_norm: bool = False) -> Shapes:
    """Return the shape of every parameter.

    Parameters are weights, biases (if any), and a batch norm's scale and shift unless frozen.
    """
    shapes: Shapes = {}
    for layer in convolutions:
        shapes[f"{layer.name}.weight"] = layer.shape
        if layer.has_bias:
            shapes[f"{layer.name}.bias"] = (layer.outputs,)
        if not frozen_norm:
            shapes |= affine_shapes([layer])
    return shapes


def affine_shapes(convolutions: Iterable[AnyConvolution]) -> Shapes:
    """Return the shape of every norm's scale and shift.

    In frozen norms, they include the statistics and belong to the state, not to the parameters.
    """
    return _of_norms(convolutions, ("weight", "bias"))


def statistic_shapes(convolutions: Iterable[AnyConvolution]) -> Shapes:
    """Return the shape of every running statistic of batch norms, which belong to the state."""
    return _of_norms(convolutions, ("running_mean", "running_var"))


def _of_norms(convolutions: Iterable[AnyConvolution], kinds: tuple[str, str]) -> Shapes:
    normed = [layer for layer in convolutions if layer.norm is not None]
    return {f"{layer.norm}.{kind}": (layer.outputs,) for layer in normed for kind in kinds}


def normed_weights(
    layer: Convolution, seed: int, kind: str, deviation: float
) -> Iterator[tuple[str, Array]]:
    """Yield (name, float32 array) of a convolution with batch norm.

    Weights are drawn by `initial.draw`, the scale is 1 and the shift is 0.
    """
    weight = f"{layer.name}.weight"
    yield weight, draw(seed, weight, layer.shape, kind, deviation)
    yield f"{layer.norm}.weight", np.ones(layer.outputs, np.float32)
    yield f"{layer.norm}.bias", np.zeros(layer.outputs, np.float32)
