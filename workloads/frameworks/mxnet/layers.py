"""Layers of convolutional networks in MXNet, in NCHW layout.

Internally, oneDNN groups channels into blocks. The shapes use these symbols: B images of a replica,
S pixels per side.
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
"""Convolution of `workloads.common.networks`, from a residual trunk or a layer list."""
Block = Any
"""Residual block of a workload, with the attributes `convolutions` and `shortcut`. `shortcut`
may be None.
"""

BLOCK = 16
"""Number of channels per block that oneDNN uses with AVX-512."""


class ImageModel(Model):
    """Convolutional network for uint8 images (B, S, S, 3).

    The constants `scale` (3, 3, 1, 1) and `shift` (3,) normalize images. The parameters of a
    convolution or a batch norm are named `<name>.weight`, `<name>.bias` and so on.
    """

    scale: tuple[float, ...]
    shift: tuple[float, ...]
    """Shift in the normalization of images. Pixel values of 0 … 255 are multiplied by `scale`, and
    `shift` is added.
    """
    epsilon: float
    momentum: float
    """Weight of the previous running statistic in the update of a batch norm's running
    statistic.
    """
    frozen_norms = False
    """Whether batch norms are frozen. The running statistics of a frozen batch norm are merged into
    its scale and shift.
    """

    def __init__(self, shapes: Shapes, statistics: Shapes, half: bool, on_cpu: bool) -> None:
        self.shapes, self.statistics = shapes, statistics
        self.dtype, self.on_cpu = "float16" if half else "float32", on_cpu

    # -- for subclasses
    # -------------------------------------------------------------------------------------------

    def normalised(self, images: Tensor) -> Tensor:
        """Return the normalized images in NCHW layout, (B, 3, S, S)."""
        F = self.F
        images = F.transpose(F.cast(images, "float32"), (0, 3, 1, 2))
        # A 1×1 convolution normalizes the images, because `broadcast_sub` is 14 times as slow as a
        # 1×1 convolution.
        images = F.Convolution(
            images, self.arrays["scale"], self.arrays["shift"], kernel=(1, 1), num_filter=3
        )
        return F.cast(F.BlockGrad(images), self.dtype)

    def trunk(self, x: Tensor, stem: Layer, blocks: Iterable[Block]) -> Tensor:
        """Apply the stem, a max pool and the residual blocks to normalized images.

        Returns:
            The output feature map of the last block.
        """
        return self.stage_maps(x, stem, blocks)[-1]

    def stage_maps(self, x: Tensor, stem: Layer, blocks: Iterable[Block]) -> list[Tensor]:
        """Return the last feature map of every stage of `trunk`, with the finest map first."""
        maps: dict[str, Tensor] = {}
        x = self.unit(x, stem, relu=True)
        x = self.F.Pooling(
            x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max", pooling_convention="valid"
        )
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
        """Apply a convolution, the batch norm of the layer (if any), and ReLU with `relu`."""
        F, inputs = self.F, self.arrays
        x = self.convolution(x, layer)
        if layer.norm is None or self.frozen_norms:
            return rectified(F, x) if relu else x
        kinds = ("weight", "bias", "running_mean", "running_var")
        arrays = [x, *(inputs[f"{layer.norm}.{kind}"] for kind in kinds)]
        constants = {
            "eps": self.epsilon,
            "momentum": self.momentum,
            "fix_gamma": False,
            "name": layer.norm,
        }
        if self.on_cpu and not _keeps_blocks(layer):
            # `reshape` converts the feature map to plain NCHW order. Batch norm can then select its
            # layout.
            arrays[0] = F.reshape(x, (0, 0, 0, 0))
        elif self.on_cpu and relu:
            return F.contrib.BatchNormWithReLU(*arrays, **constants)
        x = F.BatchNorm(*arrays, **constants)
        return rectified(F, x) if relu else x

    def convolution(self, x: Tensor, layer: Layer) -> Tensor:
        """Apply a convolution without a separate batch norm.

        A bias is added if the layer has no batch norm. The scale of a frozen batch norm is
        multiplied into the weights, because the weights are much smaller than the feature maps. The
        shift of a frozen batch norm is added as a bias.
        """
        F, inputs = self.F, self.arrays
        frozen = self.frozen_norms and layer.norm is not None
        kinds = ("weight", "bias") if layer.has_bias else ("weight",)
        arrays = [F.cast(inputs[f"{layer.name}.{kind}"], self.dtype) for kind in kinds]
        if frozen:
            scale, shift = (
                F.cast(inputs[f"{layer.norm}.{kind}"], self.dtype) for kind in ("weight", "bias")
            )
            arrays = [F.broadcast_mul(arrays[0], F.reshape(scale, (-1, 1, 1, 1))), shift]
        values = {"kernel": layer.kernel, "stride": layer.stride, "pad": layer.padding}
        sizes = {
            name: value if isinstance(value, tuple) else (value, value)
            for name, value in values.items()
        }
        return F.Convolution(
            x, *arrays, num_filter=layer.outputs, no_bias=len(arrays) == 1, **sizes
        )

    def norm_output(self, name: str) -> str:
        """Return the name of a batch norm's output in the graph."""
        return f"{name}_output"

    def constants(self) -> dict[str, Array]:
        scale = np.diag(np.array(self.scale, np.float32)).reshape(3, 3, 1, 1)
        return {"scale": scale, "shift": np.array(self.shift, np.float32)}


def _keeps_blocks(layer: Layer) -> bool:
    """Check whether a convolution's output has the same channel blocks as its gradient.

    With AVX-512, oneDNN uses blocks of 16 channels if the numbers of input and output channels are
    multiples of 16, and blocks of 8 channels otherwise. After a convolution from 24 to 48 channels,
    the feature map and the gradient of a batch norm have different blocks. Batch norm with ReLU
    then fails with "could not create a primitive descriptor iterator". Batch norm without ReLU uses
    a reference kernel that is 100 times as slow as oneDNN's kernel. The three input channels of a
    stem cause no problem.
    """
    return bool(layer.inputs == 3 or layer.inputs % BLOCK == 0 or layer.outputs % BLOCK != 0)


def rectified(F: ModuleType, x: Tensor) -> Tensor:
    """Apply the ReLU of oneDNN.

    The MXNet operator `F.relu` is slower than oneDNN's ReLU, because it converts feature maps to
    plain order and back.
    """
    return F.Activation(x, act_type="relu")
