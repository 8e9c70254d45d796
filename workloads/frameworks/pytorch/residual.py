"""Residual trunks in PyTorch: a stem, a max pool, stages of blocks, with torchvision's names; from framework-free layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import nn

from workloads.common.networks import layer_lists
from workloads.common.networks.residual import Block, Convolution
from workloads.frameworks.pytorch.norms import activated

Norm = Callable[[int], nn.Module]
"""Channels to the norm after a convolution."""


def convolution(layer: Convolution | layer_lists.Convolution) -> nn.Conv2d:
    """The layer alone, without its norm."""
    return nn.Conv2d(layer.inputs, layer.outputs, layer.kernel, layer.stride, layer.padding, bias=layer.has_bias)


class FrozenNorm(nn.Module):
    """x · weight + bias of each channel, which are never trained: a batch norm whose statistics are folded in, without ε."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.ones(channels))
        self.register_buffer("bias", torch.zeros(channels))


def normed(layer: nn.Conv2d, norm: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """A convolution and its norm. A frozen one scales the weights instead of the maps, which are many times larger."""
    if not isinstance(norm, FrozenNorm):
        return norm(layer(x))
    return F.conv2d(x, layer.weight * norm.weight.view(-1, 1, 1, 1), norm.bias, layer.stride, layer.padding)


def relu_normed(
    layer: nn.Conv2d, norm: nn.Module, x: torch.Tensor, shortcut: torch.Tensor | None = None
) -> torch.Tensor:
    """`normed`, to which `shortcut` is added, after ReLU."""
    if not isinstance(norm, FrozenNorm):
        return activated(norm, layer(x), shortcut)
    out = normed(layer, norm, x)
    if shortcut is not None:
        out += shortcut
    return F.relu(out, inplace=True)


class Residual(nn.Module):
    """Convolutions `conv1`, `conv2`, … each with a norm, ReLU between them and after the sum with the shortcut."""

    def __init__(self, block: Block, norm: Norm) -> None:
        super().__init__()
        self.convolutions = len(block.convolutions)
        for number, layer in enumerate(block.convolutions, start=1):
            self.add_module(f"conv{number}", convolution(layer))
            self.add_module(f"bn{number}", norm(layer.outputs))
        shortcut = block.shortcut
        self.downsample = nn.Sequential(convolution(shortcut), norm(shortcut.outputs)) if shortcut is not None else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, inputs, h, w) to (B, outputs, h / stride, w / stride)."""
        out = x
        for number in range(1, self.convolutions):
            out = relu_normed(getattr(self, f"conv{number}"), getattr(self, f"bn{number}"), out)
        shortcut = x if self.downsample is None else normed(self.downsample[0], self.downsample[1], x)
        last = self.convolutions
        return relu_normed(getattr(self, f"conv{last}"), getattr(self, f"bn{last}"), out, shortcut)


class Trunk(nn.Module):
    """`conv1`, `bn1`, a 3×3 max pool of stride 2, `layer1`, `layer2`, …; a model derives from it, which keeps these names."""

    def __init__(self, stem: Convolution, blocks: Iterable[Block], norm: Norm) -> None:
        super().__init__()
        self.conv1, self.bn1 = convolution(stem), norm(stem.outputs)
        stages: dict[str, list[nn.Module]] = {}
        for block in blocks:
            stages.setdefault(block.convolutions[0].name.partition(".")[0], []).append(Residual(block, norm))
        for name, members in stages.items():
            self.add_module(name, nn.Sequential(*members))
        self.stages = list(stages)

    def trunk(self, x: torch.Tensor) -> torch.Tensor:
        """Normalised images (B, 3, S, S) to the last stage's map."""
        return self.stage_maps(x)[-1]

    def stage_maps(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Normalised images (B, 3, H, W) to the map of every stage, the finest first."""
        x = relu_normed(self.conv1, self.bn1, x)
        x = F.max_pool2d(x, 3, 2, 1)
        maps = []
        for name in self.stages:
            x = getattr(self, name)(x)
            maps.append(x)
        return maps
