"""Networks as framework-independent lists of layers.

Each framework has an interpreter that runs a list of layers. A `Builder` appends layers and tracks
the shape of the feature map. From the image size, the builder derives the sizes of the fully
connected layers, the number of multiply-adds, and the number of activations. Parameters have the
same names in all frameworks. Convolution weights have the shape (outputs, inputs, height, width).
Fully connected layers have weights of shape (outputs, inputs) and flatten a feature map channel by
channel.
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
"""Pair (vertical, horizontal), such as (height, width)."""


@dataclass(frozen=True)
class Convolution:
    """Convolution, followed by a batch norm if `norm` is set, and by ReLU."""

    name: str
    inputs: int
    outputs: int
    kernel: Pair
    stride: int
    padding: Pair
    """Number of zeros added on each side of the feature map, as (vertical, horizontal)."""
    norm: str | None
    """Name of the batch norm, or None without batch norm."""
    has_bias: bool
    map: Pair
    """Height and width of the output feature map."""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Return the shape of the weights: (outputs, inputs, height, width)."""
        return (self.outputs, self.inputs, *self.kernel)


@dataclass(frozen=True)
class Pool:
    """Max or average pooling.

    The averages include the zeros of the padding. Max pooling requires an input feature map without
    negative values.
    """

    kind: str
    """`max` or `avg`."""
    kernel: int
    stride: int
    padding: int
    ceil: bool
    """Whether to include pooling windows that extend partly beyond the lower or right border."""
    extra: Pair
    """Number of rows and columns by which the last pooling windows extend beyond the padded feature
    map.
    """


@dataclass(frozen=True)
class GlobalPool:
    """Mean of each channel over the feature map. The output of the layer is a vector."""


@dataclass(frozen=True)
class ResponseNorm:
    """Local response norm over `size` neighboring channels.

    The output is x / (k + alpha / size · Σ x²)^beta. Source: Krizhevsky et al. 2012, section 3.3.
    """

    size: int = 5
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0


@dataclass(frozen=True)
class Dropout:
    """Dropout during training.

    `workloads.common.dropout` computes the dropout mask in the order rows, columns, channels.
    """

    label: str
    rate: float
    map: tuple[int, ...]
    """Shape of the input: (height, width, channels) or (features,)."""

    @property
    def width(self) -> int:
        """Return the number of values in the dropout mask of an image."""
        return math.prod(self.map)


@dataclass(frozen=True)
class Linear:
    """Fully connected layer with bias. The layer flattens a feature map first."""

    name: str
    inputs: int
    outputs: int
    relu: bool


@dataclass(frozen=True)
class Residual:
    """Residual block of a residual network (`residual.Block`)."""

    block: Block
    maps: tuple[Pair, ...]
    """Output size (height, width) of each convolution. The shortcut has the same output size as the
    last convolution.
    """


@dataclass(frozen=True)
class Concatenation:
    """Parallel branches with the same input map, whose output channels are concatenated."""

    branches: tuple[tuple[Layer, ...], ...]


Layer = Convolution | Pool | GlobalPool | ResponseNorm | Dropout | Linear | Residual | Concatenation


@dataclass(frozen=True)
class Network:
    """Classifier as a list of layers.

    The input is normalized images (B, 3, S, S), and the output is logits (B, classes).
    """

    name: str
    layers: tuple[Layer, ...]
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]
    """Standard deviation of each color channel, for pixel values in 0 … 1. The normalization is
    (pixel / 255 - mean) / deviation.
    """
    epsilon: float
    momentum: float
    """Weight of the statistic of the current batch in the update of a batch norm's running
    statistic.
    """
    gain: str
    """Rule for the variance of the uniform initial weights: 2 / fan-in (`he`) or 2 / (fan-in +
    fan-out) (`glorot`). Initial biases are 0.
    """

    @property
    def classes(self) -> int:
        """Return the number of classes, which is the number of outputs of the last layer."""
        last = self.layers[-1]
        assert isinstance(last, Linear)
        return last.outputs

    @property
    def dropouts(self) -> list[Dropout]:
        """Return the dropout layers in network order. Branches contain no dropout layers."""
        return [layer for layer in self.layers if isinstance(layer, Dropout)]


class Small(ValueError):
    """Error for an image that is so small that a feature map would have no pixels."""


class Builder:
    """Builder for a list of layers that tracks the shape of the last layer's output."""

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
        """Add a convolution with ReLU. By default, it has a bias if `norm` is None."""
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
        """Add global pooling, which computes the mean of each channel."""
        self._grow(GlobalPool(), (self.channels, 1, 1))
        self.flat = True
        return self

    def dropout(self, rate: float) -> Builder:
        """Add dropout for a feature map of the current shape."""
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

        Each branch is a function that appends layers to a new builder. The new builder starts with
        the current shape of the feature map.
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
    """Return (value, value) for an integer. Return a pair unchanged."""
    return (value, value) if isinstance(value, int) else value


def _windows(side: int, kernel: int, stride: int, padding: int, ceil: bool) -> tuple[int, int]:
    """Return the number of pooling windows along one axis, and the overhang.

    The overhang is the number of pixels by which the last window extends beyond the padded feature
    map.
    """
    free = side + 2 * padding - kernel
    if free < 0 and not ceil:
        raise Small
    count = (-(-free // stride) if ceil else free // stride) + 1
    return count, max(0, (count - 1) * stride + kernel - (side + 2 * padding))


def convolutions(
    layers: Sequence[Layer],
) -> Iterator[tuple[Convolution | residual.Convolution, Pair]]:
    """Yield each convolution with its output size, in parameter order.

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
    """Return the shape of every trained parameter by name."""
    shape_of = residual.parameter_shapes(layer for layer, _ in convolutions(network.layers))
    for layer in linears(network):
        shape_of |= {
            f"{layer.name}.weight": (layer.outputs, layer.inputs),
            f"{layer.name}.bias": (layer.outputs,),
        }
    return shape_of


def statistics(network: Network) -> Shapes:
    """Return the shape of every running statistic by name."""
    return residual.statistic_shapes(layer for layer, _ in convolutions(network.layers))


def norms(network: Network) -> frozenset[str]:
    """Return the names of the batch norms."""
    return frozenset(
        layer.norm for layer, _ in convolutions(network.layers) if layer.norm is not None
    )


def parameter_count(network: Network) -> int:
    """Return the number of elements of all trainable parameters in the network."""
    return sum(math.prod(shape) for shape in shapes(network).values())


def multiply_adds(network: Network) -> int:
    """Return the number of multiply-adds in a forward pass of one image.

    Only the multiply-adds of convolutions and fully connected layers are counted.
    """
    maps = sum(
        math.prod(layer.shape) * rows * columns
        for layer, (rows, columns) in convolutions(network.layers)
    )
    return maps + sum(layer.inputs * layer.outputs for layer in linears(network))


def activation_values(network: Network) -> int:
    """Return the number of activations of one image.

    Only the outputs of convolutions and fully connected layers are counted.
    """
    maps = sum(
        layer.outputs * rows * columns for layer, (rows, columns) in convolutions(network.layers)
    )
    return maps + sum(layer.outputs for layer in linears(network))


def initial_weights(network: Network, seed: int) -> Iterator[tuple[str, Array]]:
    """Yield the name and the initial float32 array of every parameter.

    `gain` determines the distribution of the weights. Batch norm scales start at 1, and biases and
    shifts start at 0.
    """
    scales = {f"{name}.weight" for name in norms(network)}
    for name, shape in shapes(network).items():
        if len(shape) == 1:
            yield name, np.full(shape, float(name in scales), np.float32)
        else:
            outputs, inputs, *kernel = shape
            fans = (inputs + outputs * (network.gain == "glorot")) * math.prod(
                kernel
            )  # `he` ignores the fan-out.
            yield name, draw(seed, name, shape, "uniform", math.sqrt(6 / fans))
