"""Networks as lists of layers, without a framework: what every framework's interpreter walks.

A `Builder` appends layers and keeps track of the map, so that sizes of fully connected layers, multiply-adds and activations
follow from the image's size. Parameters have canonical names; weights of convolutions are (outputs, inputs, height, width),
of fully connected layers (outputs, inputs), where a map is flattened channel by channel.
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
"""Of rows and of columns."""


@dataclass(frozen=True)
class Convolution:
    """A convolution; a batch norm after it if `norm` names one; ReLU."""

    name: str
    inputs: int
    outputs: int
    kernel: Pair
    stride: int
    padding: Pair
    """Zeros on both sides."""
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
    """Pooling. An average counts the zeros of the padding; maxima are of maps without negative values."""

    kind: str
    """`max` or `avg`."""
    kernel: int
    stride: int
    padding: int
    ceil: bool
    """A window that lies partly beyond the lower or right border counts too."""
    extra: Pair
    """Rows and columns by which the last windows go beyond the padded map."""


@dataclass(frozen=True)
class GlobalPool:
    """The mean of each channel: a vector of features."""


@dataclass(frozen=True)
class ResponseNorm:
    """x / (k + alpha / size · Σ x²)^beta over `size` neighbouring channels (Krizhevsky et al. 2012, section 3.3)."""

    size: int = 5
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0


@dataclass(frozen=True)
class Dropout:
    """Values are dropped in training; the mask is that of `workloads.common.dropout`, rows, columns, channels in this order."""

    label: str
    rate: float
    map: tuple[int, ...]
    """(height, width, channels), or (features,)."""

    @property
    def width(self) -> int:
        """Values of an image's mask."""
        return math.prod(self.map)


@dataclass(frozen=True)
class Linear:
    """Fully connected, with bias; a map is flattened first."""

    name: str
    inputs: int
    outputs: int
    relu: bool


@dataclass(frozen=True)
class Residual:
    """A block of the suite's residual trunk."""

    block: Block
    maps: tuple[Pair, ...]
    """Of each convolution's output; the shortcut's is that of the last one."""


@dataclass(frozen=True)
class Concatenation:
    """Branches that see the same map; their channels stand one after another."""

    branches: tuple[tuple[Layer, ...], ...]


Layer = Convolution | Pool | GlobalPool | ResponseNorm | Dropout | Linear | Residual | Concatenation


@dataclass(frozen=True)
class Network:
    """A classifier: layers from normalised images (B, 3, S, S) to logits (B, classes)."""

    name: str
    layers: tuple[Layer, ...]
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]
    """Of pixels of 0 … 1: images are normalised to (pixel / 255 - mean) / deviation."""
    epsilon: float
    momentum: float
    """Of batch norms; share of the new statistic in the running one."""
    gain: str
    """Start weights are uniform with variance 2 / fan-in (`he`) or 2 / (fan-in + fan-out) (`glorot`); biases are 0."""

    @property
    def classes(self) -> int:
        """Of the last layer."""
        last = self.layers[-1]
        assert isinstance(last, Linear)
        return last.outputs

    @property
    def dropouts(self) -> list[Dropout]:
        """In the order of the layers; none lies in a branch."""
        return [layer for layer in self.layers if isinstance(layer, Dropout)]


class Small(ValueError):
    """The image is too small for the network: a map has no pixel left."""


class Builder:
    """Layers so far, and the shape of what they give."""

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
        """A convolution with ReLU; by default with a bias where no norm follows."""
        size, zeros = pair(kernel), pair(padding)
        rows = (self.rows + 2 * zeros[0] - size[0]) // stride + 1
        columns = (self.columns + 2 * zeros[1] - size[1]) // stride + 1
        has_bias = norm is None if bias is None else bias
        self._grow(
            Convolution(name, self.channels, outputs, size, stride, zeros, norm, has_bias, (rows, columns)),
            (outputs, rows, columns),
        )
        return self

    def pool(self, kind: str, kernel: int, stride: int, padding: int = 0, ceil: bool = False) -> Builder:
        counted = [_windows(side, kernel, stride, padding, ceil) for side in (self.rows, self.columns)]
        extra = (counted[0][1], counted[1][1])
        self._grow(Pool(kind, kernel, stride, padding, ceil, extra), (self.channels, counted[0][0], counted[1][0]))
        return self

    def response_norm(self) -> Builder:
        """Local response norm with Caffe's constants (bvlc_googlenet/train_val.prototxt)."""
        self.layers.append(ResponseNorm())
        return self

    def global_pool(self) -> Builder:
        """The mean of each channel."""
        self._grow(GlobalPool(), (self.channels, 1, 1))
        self.flat = True
        return self

    def dropout(self, rate: float) -> Builder:
        """Dropout of what there is."""
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
        """Branches, each of which appends its layers to a builder that begins here."""
        grown = [branch(Builder(self.channels, self.rows, self.columns)) for branch in branches]
        first = grown[0]
        assert all((one.rows, one.columns) == (first.rows, first.columns) for one in grown)
        channels = sum(one.channels for one in grown)
        self._grow(Concatenation(tuple(tuple(one.layers) for one in grown)), (channels, first.rows, first.columns))
        return self

    def _grow(self, layer: Layer, shape: tuple[int, int, int]) -> None:
        if min(shape) < 1:
            raise Small
        self.layers.append(layer)
        self.channels, self.rows, self.columns = shape


def pair(value: int | Pair) -> Pair:
    """The same for rows and columns, unless given for each."""
    return (value, value) if isinstance(value, int) else value


def _windows(side: int, kernel: int, stride: int, padding: int, ceil: bool) -> tuple[int, int]:
    """Windows along a side, and by how many pixels the last one goes beyond the padded map."""
    free = side + 2 * padding - kernel
    if free < 0 and not ceil:
        raise Small
    count = (-(-free // stride) if ceil else free // stride) + 1
    return count, max(0, (count - 1) * stride + kernel - (side + 2 * padding))


def convolutions(layers: Sequence[Layer]) -> Iterator[tuple[Convolution | residual.Convolution, Pair]]:
    """Each convolution with the size of its output, in the order of the parameters; those of branches and blocks too."""
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
    """The fully connected layers; all come after the convolutions."""
    return [layer for layer in network.layers if isinstance(layer, Linear)]


def shapes(network: Network) -> Shapes:
    """Canonical name to shape of every trained parameter."""
    shape_of = residual.parameter_shapes(layer for layer, _ in convolutions(network.layers))
    for layer in linears(network):
        shape_of |= {f"{layer.name}.weight": (layer.outputs, layer.inputs), f"{layer.name}.bias": (layer.outputs,)}
    return shape_of


def statistics(network: Network) -> Shapes:
    """Canonical name to shape of every running statistic."""
    return residual.statistic_shapes(layer for layer, _ in convolutions(network.layers))


def norms(network: Network) -> frozenset[str]:
    """Names of the batch norms."""
    return frozenset(layer.norm for layer, _ in convolutions(network.layers) if layer.norm is not None)


def parameter_count(network: Network) -> int:
    """Number of trained values."""
    return sum(math.prod(shape) for shape in shapes(network).values())


def multiply_adds(network: Network) -> int:
    """Of convolutions and fully connected layers, for one image, forward."""
    maps = sum(math.prod(layer.shape) * rows * columns for layer, (rows, columns) in convolutions(network.layers))
    return maps + sum(layer.inputs * layer.outputs for layer in linears(network))


def activation_values(network: Network) -> int:
    """Numbers that convolutions and fully connected layers give for one image."""
    maps = sum(layer.outputs * rows * columns for layer, (rows, columns) in convolutions(network.layers))
    return maps + sum(layer.outputs for layer in linears(network))


def initial_weights(network: Network, seed: int) -> Iterator[tuple[str, Array]]:
    """(name, float32 array) of every parameter: weights as `gain` says, biases and shifts 0, scales 1."""
    scales = {f"{name}.weight" for name in norms(network)}
    for name, shape in shapes(network).items():
        if len(shape) == 1:
            yield name, np.full(shape, float(name in scales), np.float32)
        else:
            outputs, inputs, *kernel = shape
            fans = (inputs + outputs * (network.gain == "glorot")) * math.prod(kernel)  # of `he` fan-in alone
            yield name, draw(seed, name, shape, "uniform", math.sqrt(6 / fans))
