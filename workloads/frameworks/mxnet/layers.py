"""Layers of convolutional networks in MXNet, NCHW (oneDNN arranges channels in blocks by itself).

Shapes: B images of a replica, S pixels of a side.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np

from workloads.api import Array
from workloads.frameworks.mxnet.flat import Shapes
from workloads.frameworks.mxnet.graphs import Model, Tensor

Layer = Any
"""A convolution of `workloads.common.networks`: of residual trunks, or of lists of layers."""
Block = Any
"""A workload's residual block: `convolutions`, and a `shortcut` or None."""

BLOCK = 16
"""Channels that oneDNN puts together with AVX-512."""


class ImageModel(Model):
    """A convolutional network of uint8 images (B, S, S, 3).

    Constants normalise images: `scale` (3, 3, 1, 1) and `shift` (3,). Weights of a convolution are `<name>.weight`, of a batch
    norm `<name>.weight` and so on.
    """

    scale: tuple[float, ...]
    shift: tuple[float, ...]
    """Pixels of 0 … 255 times the scale plus the shift are the network's input."""
    epsilon: float
    momentum: float
    """Of batch norm; share of the old statistic in the running one."""
    frozen_norms = False
    """Norms are a scale and a shift, into which the statistics are folded."""

    def __init__(self, shapes: Shapes, statistics: Shapes, half: bool, on_cpu: bool) -> None:
        self.shapes, self.statistics = shapes, statistics
        self.dtype, self.on_cpu = "float16" if half else "float32", on_cpu

    # -- for subclasses -------------------------------------------------------------------------------------------

    def normalised(self, images: Tensor) -> Tensor:
        """Return the images in planes, (B, 3, S, S)."""
        F = self.F
        images = F.transpose(F.cast(images, "float32"), (0, 3, 1, 2))
        # Normalised by a convolution of one pixel: `broadcast_sub` takes 14 times as long.
        images = F.Convolution(images, self.arrays["scale"], self.arrays["shift"], kernel=(1, 1), num_filter=3)
        return F.cast(F.BlockGrad(images), self.dtype)

    def trunk(self, x: Tensor, stem: Layer, blocks: Iterable[Block]) -> Tensor:
        """Apply the stem, a max pool and residual blocks to normalised images: the last block's map."""
        return self.stage_maps(x, stem, blocks)[-1]

    def stage_maps(self, x: Tensor, stem: Layer, blocks: Iterable[Block]) -> list[Tensor]:
        """Return the same, with the last map of every stage, the finest first."""
        maps: dict[str, Tensor] = {}
        x = self.unit(x, stem, relu=True)
        x = self.F.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max", pooling_convention="valid")
        for block in blocks:
            x = maps[block.convolutions[0].name.partition(".")[0]] = self.residual(x, block)
        return list(maps.values())

    def residual(self, x: Tensor, block: Block) -> Tensor:
        out = x
        for layer in block.convolutions[:-1]:
            out = self.unit(out, layer, relu=True)
        out = self.unit(out, block.convolutions[-1], relu=False)
        shortcut = x if block.shortcut is None else self.unit(x, block.shortcut, relu=False)
        return rectified(self.F, out + shortcut)

    def unit(self, x: Tensor, layer: Layer, relu: bool) -> Tensor:
        """Apply a convolution, batch norm if the layer has one, and possibly ReLU."""
        F, inputs = self.F, self.arrays
        x = self.convolution(x, layer)
        if layer.norm is None or self.frozen_norms:
            return rectified(F, x) if relu else x
        kinds = ("weight", "bias", "running_mean", "running_var")
        arrays = [x, *(inputs[f"{layer.norm}.{kind}"] for kind in kinds)]
        constants = {"eps": self.epsilon, "momentum": self.momentum, "fix_gamma": False, "name": layer.norm}
        if self.on_cpu and not _keeps_blocks(layer):
            # Brings it into plain order, which batch norm rearranges as it needs.
            arrays[0] = F.reshape(x, (0, 0, 0, 0))
        elif self.on_cpu and relu:
            return F.contrib.BatchNormWithReLU(*arrays, **constants)
        x = F.BatchNorm(*arrays, **constants)
        return rectified(F, x) if relu else x

    def convolution(self, x: Tensor, layer: Layer) -> Tensor:
        """Alone, with the layer's bias if it has no batch norm; with scale and shift of a frozen one.

        The scale is multiplied into the weights, which are many times smaller than the maps.
        """
        F, inputs = self.F, self.arrays
        frozen = self.frozen_norms and layer.norm is not None
        kinds = ("weight", "bias") if layer.has_bias else ("weight",)
        arrays = [F.cast(inputs[f"{layer.name}.{kind}"], self.dtype) for kind in kinds]
        if frozen:
            scale, shift = (F.cast(inputs[f"{layer.norm}.{kind}"], self.dtype) for kind in ("weight", "bias"))
            arrays = [F.broadcast_mul(arrays[0], F.reshape(scale, (-1, 1, 1, 1))), shift]
        values = {"kernel": layer.kernel, "stride": layer.stride, "pad": layer.padding}
        sizes = {name: value if isinstance(value, tuple) else (value, value) for name, value in values.items()}
        return F.Convolution(x, *arrays, num_filter=layer.outputs, no_bias=len(arrays) == 1, **sizes)

    def norm_output(self, name: str) -> str:
        """What the graph calls the output of a batch norm."""
        return f"{name}_output"

    def constants(self) -> dict[str, Array]:
        scale = np.diag(np.array(self.scale, np.float32)).reshape(3, 3, 1, 1)
        return {"scale": scale, "shift": np.array(self.shift, np.float32)}


def _keeps_blocks(layer: Layer) -> bool:
    """Whether a convolution's output has the blocks of channels that its gradient will have.

    With AVX-512 oneDNN takes blocks of 16 where inputs and outputs are multiples of that, else of 8. Behind a convolution from
    24 to 48 channels a batch norm gets its map in one and its gradient in the other: with ReLU it refuses that ("could not
    create a primitive descriptor iterator"), without it takes a reference kernel, 100 times as long. A stem's three inputs do
    not matter.
    """
    return bool(layer.inputs == 3 or layer.inputs % BLOCK == 0 or layer.outputs % BLOCK != 0)


def rectified(F: ModuleType, x: Tensor) -> Tensor:
    """ReLU by oneDNN; `F.relu` is an operator of MXNet's own, for which maps are brought into plain order and back."""
    return F.Activation(x, act_type="relu")
