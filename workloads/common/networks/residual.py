"""Residual networks as framework-independent lists of layers.

ResNet classifiers and detectors share this module. Parameters have torchvision's names (`conv1`,
`bn1`, `layer1.0.conv1`, `layer1.0.downsample.0`, …), so that torchvision's published weights can be
loaded. The convolutions have no bias and are followed by a batch norm. All convolutions add (kernel
- 1) / 2 zeros of padding on every side. The 3×3 max pool after the first convolution has stride 2
and padding 1. Weights have the shape (outputs, inputs, height, width).
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
"""Block type and number of blocks in each stage, by the depth of the network (He et al. 2015, table
1).
"""
WIDTHS = (64, 128, 256, 512)
STRIDES = (1, 2, 2, 2)
"""Stride of each stage. All depths in `BLOCKS` use the same strides."""
EXPANSION: Mapping[str, int] = {"basic": 1, "bottleneck": 4}
"""Ratio of the number of output channels of a block to the width of the block, for each block
type.
"""

Shapes = dict[str, tuple[int, ...]]
"""Shape of each parameter by name, in parameter order."""


@dataclass(frozen=True)
class Convolution:
    """Convolution that has either a batch norm or a bias."""

    name: str
    """Name of the convolution, for example `layer1.0.conv1`."""
    inputs: int
    outputs: int
    kernel: int
    stride: int
    padding: int
    """Number of zeros added on every side of the feature map."""
    norm: str | None = None
    """Name of the batch norm, for example `layer1.0.bn1`. None if the convolution has a bias
    instead of a batch norm.
    """

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Return the shape of the weights: (outputs, inputs, kernel, kernel)."""
        return (self.outputs, self.inputs, self.kernel, self.kernel)

    @property
    def has_bias(self) -> bool:
        """Return True if the convolution has a bias instead of a batch norm."""
        return self.norm is None

    def size(self, side: int) -> int:
        """Return the output's height or width, given the input's height or width `side`."""
        return (side + 2 * self.padding - self.kernel) // self.stride + 1


@dataclass(frozen=True)
class Block:
    """Residual block: convolutions with batch norm and ReLU, and a shortcut.

    The shortcut is added before the last ReLU. A basic block has two 3×3 convolutions. A bottleneck
    block has a 1×1, a 3×3, and a 1×1 convolution, in this order.
    """

    convolutions: tuple[Convolution, ...]
    shortcut: Convolution | None
    """1×1 projection if the block changes the resolution or the number of channels. None means an
    identity shortcut.
    """


@dataclass(frozen=True)
class Trunk:
    """Residual network without a classifier.

    The trunk consists of a first convolution (stem), a max pool, and residual blocks.
    """

    stem: Convolution
    blocks: tuple[Block, ...]

    @property
    def trunk_convolutions(self) -> Iterator[Convolution]:
        """Return the convolutions of the trunk in parameter order."""
        yield self.stem
        for block in self.blocks:
            yield from block.convolutions
            if block.shortcut is not None:
                yield block.shortcut

    @property
    def features(self) -> int:
        """Return the number of output channels of the last block."""
        return self.blocks[-1].convolutions[-1].outputs


def build_trunk(
    kind: str,
    blocks: Sequence[int],
    widths: Sequence[int] = WIDTHS,
    strides: Sequence[int] = STRIDES,
    stride_on_1x1: bool = False,
) -> Trunk:
    """Build a trunk from the blocks, widths, and strides of its stages.

    The stem has the width of the first stage. The stride of a stage applies to one convolution of
    the stage's first block. In a basic block, the stride applies to the first convolution. In a
    bottleneck block, the stride applies to the 3×3 convolution by default ("v1.5", torchvision).
    With `stride_on_1x1`, the stride applies to the first convolution of the bottleneck block (the
    paper and Detectron's weights).

    Args:
        kind: Block type, `basic` or `bottleneck`.
        blocks: Number of blocks in each stage.
        widths: Width of each stage.
        strides: Stride of each stage.
        stride_on_1x1: Whether the stride applies to the first convolution of a bottleneck block.

    Raises:
        KeyError: `kind` is not a block type.
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
    """Yield each convolution of the trunk with the height or width of its output.

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
    """Return the number of output elements of the trunk's convolutions for one image.

    The outputs use most of the memory that the backward pass needs. ResNet-50 has 11,113,984 output
    elements at 224 x 224 pixels.
    """
    rows, columns = map_sizes(trunk, height), map_sizes(trunk, width)
    return sum(
        layer.outputs * row * column
        for (layer, row), (_, column) in zip(rows, columns, strict=True)
    )


def parameter_shapes(convolutions: Iterable[AnyConvolution], frozen_norm: bool = False) -> Shapes:
    """Return the shape of every trained parameter.

    Trained parameters are the weights, the biases (if any), and the scale and shift of batch norms.
    With `frozen_norm`, the mapping does not contain the scale and shift.
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
    """Return the shape of every batch norm's scale and shift.

    In a frozen batch norm, the running statistics are merged into the scale and the shift. Frozen
    scales and shifts are not trained, so they are buffers and not parameters.
    """
    return _of_norms(convolutions, ("weight", "bias"))


def statistic_shapes(convolutions: Iterable[AnyConvolution]) -> Shapes:
    """Return the shape of every running statistic of the batch norms."""
    return _of_norms(convolutions, ("running_mean", "running_var"))


def _of_norms(convolutions: Iterable[AnyConvolution], kinds: tuple[str, str]) -> Shapes:
    normed = [layer for layer in convolutions if layer.norm is not None]
    return {f"{layer.norm}.{kind}": (layer.outputs,) for layer in normed for kind in kinds}


def normed_weights(
    layer: Convolution, seed: int, kind: str, deviation: float
) -> Iterator[tuple[str, Array]]:
    """Yield the names and initial values of a convolution's weights and its batch norm.

    All values are float32 arrays. `initial.draw` draws the weights. The scale of the batch norm is
    1, and the shift is 0.
    """
    weight = f"{layer.name}.weight"
    yield weight, draw(seed, weight, layer.shape, kind, deviation)
    yield f"{layer.norm}.weight", np.ones(layer.outputs, np.float32)
    yield f"{layer.norm}.bias", np.zeros(layer.outputs, np.float32)
