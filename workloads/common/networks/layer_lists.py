"""Networks as framework-independent lists of layers, which each framework's interpreter runs.

A `Builder` appends layers and tracks the shape of the feature map. From the image size it derives
the sizes of fully connected layers, the multiply-adds and the activations. Parameters have
canonical names. Weights are (outputs, inputs, height, width) for convolutions and (outputs, inputs)
for fully connected layers, which flatten a map channel by channel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from workloads.api import Array
from workloads.common.networks import residual
from workloads.common.networks.initial import draw
from workloads.common.networks.residual import Block, Shapes

Pair = tuple[int, int]
"""A value for rows and a value for columns."""


@dataclass(frozen=True)
class Convolution:
    """A convolution, a batch norm if `norm` is set, and ReLU."""

    name: str
    inputs: int
    outputs: int
    kernel: Pair
    stride: int
    padding: Pair
    """Number of zeros on each side."""
    norm: str | None
    """Name of the batch norm."""
    has_bias: bool
    map: Pair
    """Height and width of the output."""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(outputs, inputs, height, width) of the weights."""
        return (self.outputs, self.inputs, *self.kernel)


@dataclass(frozen=True)
class Pool:
    """Pooling.

    Averages include the zeros of the padding. Maps for max pooling have no negative values.
    """

    kind: str
    """`max` or `avg`."""
    kernel: int
    stride: int
    padding: int
    ceil: bool
    """Whether windows that extend partly beyond the lower or right border are included."""
    extra: Pair
    """Rows and columns by which the last windows extend beyond the padded map."""


@dataclass(frozen=True)
class GlobalPool:
    """Mean of each channel, which results in a feature vector."""


@dataclass(frozen=True)
class ResponseNorm:
    """x / (k + alpha / size · Σ x²)^beta over `size` neighboring channels.

    Source: Krizhevsky et al. 2012, section 3.3.
    """

    size: int = 5
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0


@dataclass(frozen=True)
class Dropout:
    """Dropout of values during training.

    `workloads.common.dropout` computes the mask, in the order rows, columns, channels.
    """

    label: str
    rate: float
    map: tuple[int, ...]
    """(height, width, channels) or (features,)."""

    @property
    def width(self) -> int:
        """Number of values in the mask of an image."""
        return math.prod(self.map)


@dataclass(frozen=True)
class Linear:
    """Fully connected layer with bias. A map is flattened first."""

    name: str
    inputs: int
    outputs: int
    relu: bool


@dataclass(frozen=True)
class Residual:
    """Residual block of a trunk (`residual.Block`)."""

    block: Block
    maps: tuple[Pair, ...]
    """Output size of each convolution. The shortcut has the output size of the last convolution."""


@dataclass(frozen=True)
class Concatenation:
    """Branches with the same input map, whose output channels are concatenated."""

    branches: tuple[tuple[Layer, ...], ...]


Layer = Convolution | Pool | GlobalPool | ResponseNorm | Dropout | Linear | Residual | Concatenation


@dataclass(frozen=True)
class Network:
    """Classifier as layers from normalized images (B, 3, S, S) to logits (B, classes)."""

    name: str
    layers: tuple[Layer, ...]
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]
    """Standard deviation of pixel values in 0 … 1. The normalization is (pixel / 255 - mean) /
    deviation."""
    epsilon: float
    momentum: float
    """Weight of the new batch statistic in the running statistic of batch norms."""
    gain: str
    """Variance of the uniform initial weights: 2 / fan-in (`he`) or 2 / (fan-in + fan-out)
    (`glorot`). Biases are 0."""

    @property
    def classes(self) -> int:
        """Number of outputs of the last layer."""
        last = self.layers[-1]
        assert isinstance(last, Linear)
        return last.outputs

    @property
    def dropouts(self) -> list[Dropout]:
        """Dropout layers in their order. Branches contain no dropout."""
        return [layer for layer in self.layers if isinstance(layer, Dropout)]


class Small(ValueError):
    """Raised if the image is too small for the network, so that a map would have no pixels."""


class Builder:
    """The layers added so far and the shape of their output."""

    def __init__(self, channels: int, rows: int, columns: int) -> None:
        self.channels, self.rows, self.columns = channels, rows, columns
        self.layers: list[Layer] = []
        self.flat = False

    def conv(
        self,
        name: str,
        outputs: int,
        kernel: int | Pair,
        stride: int = 1,
        padding: int | Pair = 0,
        norm: str | None = None,
        bias: bool | None = None,
    ) -> Builder:
        """Add a convolution with ReLU. By default it has a bias unless a norm follows."""
        size, zeros = pair(kernel), pair(padding)
        rows = (self.rows + 2 * zeros[0] - size[0]) // stride + 1
        columns = (self.columns + 2 * zeros[1] - size[1]) // stride + 1
        has_bias = norm is None if bias is None else bias
        self._grow(
            Convolution(
                name, self.channels, outputs, size, stride, zeros, norm, has_bias, (rows, columns)
            ),
            (outputs, rows, columns),
        )
        return self

    def pool(
        self, kind: str, kernel: int, stride: int, padding: int = 0, ceil: bool = False
    ) -> Builder:
        counted = [
            _windows(side, kernel, stride, padding, ceil) for side in (self.rows, self.columns)
        ]
        extra = (counted[0][1], counted[1][1])
        self._grow(
            Pool(kind, kernel, stride, padding, ceil, extra),
            (self.channels, counted[0][0], counted[1][0]),
        )
        return self

    def response_norm(self) -> Builder:
        """Add a local response norm with Caffe's constants (bvlc_googlenet/train_val.prototxt)."""
        self.layers.append(ResponseNorm())
        return self

    def global_pool(self) -> Builder:
        """Add the mean of each channel."""
        self._grow(GlobalPool(), (self.channels, 1, 1))
        self.flat = True
        return self

    def dropout(self, rate: float) -> Builder:
        """Add dropout with the current shape."""
        number = sum(isinstance(layer, Dropout) for layer in self.layers)
        size = (self.channels,) if self.flat else (self.rows, self.columns, self.channels)
        self.layers.append(Dropout(f"dropout_{number}", rate, size))
        return self

    def linear(self, name: str, outputs: int, relu: bool = False) -> Builder:
        inputs = self.channels * self.rows * self.columns
        self._grow(Linear(name, inputs, outputs, relu), (outputs, 1, 1))
        self.flat = True
        return self

    def residual(self, block: Block) -> Builder:
        maps, rows, columns = [], self.rows, self.columns
        for layer in block.convolutions:
            rows, columns = layer.size(rows), layer.size(columns)
            maps.append((rows, columns))
        self._grow(Residual(block, tuple(maps)), (block.convolutions[-1].outputs, rows, columns))
        return self

    def fork(self, *branches: Callable[[Builder], Builder]) -> Builder:
        """Add parallel branches.

        Each function appends its layers to a builder that starts at this point.
        """
        built = [branch(Builder(self.channels, self.rows, self.columns)) for branch in branches]
        first = built[0]
        assert all(
            (builder.rows, builder.columns) == (first.rows, first.columns) for builder in built
        )
        channels = sum(builder.channels for builder in built)
        self._grow(
            Concatenation(tuple(tuple(builder.layers) for builder in built)),
            (channels, first.rows, first.columns),
        )
        return self

    def _grow(self, layer: Layer, shape: tuple[int, int, int]) -> None:
        if min(shape) < 1:
            raise Small
        self.layers.append(layer)
        self.channels, self.rows, self.columns = shape


def pair(value: int | Pair) -> Pair:
    """Return (value, value) for an integer and a pair unchanged."""
    return (value, value) if isinstance(value, int) else value


def _windows(side: int, kernel: int, stride: int, padding: int, ceil: bool) -> tuple[int, int]:
    """Return the number of windows along a side.

    Also returns the pixels by which the last window extends beyond the map.

    The map includes its padding.
    """
    free = side + 2 * padding - kernel
    if free < 0 and not ceil:
        raise Small
    count = (-(-free // stride) if ceil else free // stride) + 1
    return count, max(0, (count - 1) * stride + kernel - (side + 2 * padding))


def convolutions(
    layers: Sequence[Layer],
) -> Iterator[tuple[Convolution | residual.Convolution, Pair]]:
    """Yield each convolution with its output size, in the order of the parameters.

    Convolutions of branches and residual blocks are included.
    """
    for layer in layers:
        if isinstance(layer, Convolution):
            yield layer, layer.map
        elif isinstance(layer, Concatenation):
            for branch in layer.branches:
                yield from convolutions(branch)
        elif isinstance(layer, Residual):
            yield from zip(layer.block.convolutions, layer.maps, strict=True)
            if layer.block.shortcut is not None:
                yield layer.block.shortcut, layer.maps[-1]


def linears(network: Network) -> list[Linear]:
    """Return the fully connected layers, which all follow the convolutions."""
    return [layer for layer in network.layers if isinstance(layer, Linear)]


def shapes(network: Network) -> Shapes:
    """Return the shape of every trained parameter by canonical name."""
    shape_of = residual.parameter_shapes(layer for layer, _ in convolutions(network.layers))
    for layer in linears(network):
        shape_of |= {
            f"{layer.name}.weight": (layer.outputs, layer.inputs),
            f"{layer.name}.bias": (layer.outputs,),
        }
    return shape_of


def statistics(network: Network) -> Shapes:
    """Return the shape of every running statistic by canonical name."""
    return residual.statistic_shapes(layer for layer, _ in convolutions(network.layers))


def norms(network: Network) -> frozenset[str]:
    """Return the names of the batch norms."""
    return frozenset(
        layer.norm for layer, _ in convolutions(network.layers) if layer.norm is not None
    )


def parameter_count(network: Network) -> int:
    """Return the number of trained values."""
    return sum(math.prod(shape) for shape in shapes(network).values())


def multiply_adds(network: Network) -> int:
    """Return the multiply-adds of a forward pass of one image.

    Only convolutions and fully connected layers are included.
    """
    maps = sum(
        math.prod(layer.shape) * rows * columns
        for layer, (rows, columns) in convolutions(network.layers)
    )
    return maps + sum(layer.inputs * layer.outputs for layer in linears(network))


def activation_values(network: Network) -> int:
    """Return the number of outputs of convolutions and fully connected layers for one image."""
    maps = sum(
        layer.outputs * rows * columns for layer, (rows, columns) in convolutions(network.layers)
    )
    return maps + sum(layer.outputs for layer in linears(network))


def initial_weights(network: Network, seed: int) -> Iterator[tuple[str, Array]]:
    """Yield (name, float32 array) of every parameter.

    Weights follow `gain`, scales are 1, biases and shifts are 0.
    """
    scales = {f"{name}.weight" for name in norms(network)}
    for name, shape in shapes(network).items():
        if len(shape) == 1:
            yield name, np.full(shape, float(name in scales), np.float32)
        else:
            outputs, inputs, *kernel = shape
            fans = (inputs + outputs * (network.gain == "glorot")) * math.prod(
                kernel
            )  # `he` uses only fan-in
            yield name, draw(seed, name, shape, "uniform", math.sqrt(6 / fans))
