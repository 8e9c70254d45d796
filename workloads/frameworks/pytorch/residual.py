"""Residual trunks in PyTorch: a stem, a max pool, stages of blocks, with torchvision's names; from framework-free layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

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
        self.given: tuple[Tensor, Tensor] | None = None
        """What `folded` gives next, made by `FrozenStage`."""

    def folded(self, layer: nn.Conv2d) -> tuple[Tensor, Tensor]:
        """Weights and bias of the convolution before, with this norm in them."""
        given, self.given = self.given, None
        return (layer.weight * self.weight.view(-1, 1, 1, 1), self.bias) if given is None else given


class FrozenStage:
    """The frozen norms of a stage: all convolutions' weights are scaled, and made narrow, by a launch or two instead of two for
    each. Bit for bit what `FrozenNorm.folded` gives and autocast makes of it."""

    def __init__(self, parts: Iterable[nn.Module]) -> None:
        """Each convolution in `parts` is followed by its norm."""
        modules = [module for part in parts for module in part.modules()]
        norms = [module for module in modules if isinstance(module, FrozenNorm)]
        self.pairs = list(zip((module for module in modules if isinstance(module, nn.Conv2d)), norms, strict=True))
        self.known: list[object] = []
        """Type and versions of what `scales`, as large as the weights, and `biases` were made from."""

    def give(self, kind: torch.dtype) -> None:
        """To all norms, in the type that convolutions compute in."""
        norms = [norm for _, norm in self.pairs]
        known = [kind, *(part._version for norm in norms for part in (norm.weight, norm.bias))]
        if known != self.known:
            with torch.inference_mode(False), torch.no_grad():
                self.scales = [
                    torch.ones_like(conv.weight) * norm.weight.view(-1, 1, 1, 1) for conv, norm in self.pairs
                ]
                self.biases = [norm.bias.to(kind) for norm in norms]
            self.known = known
        weights = _Scaled.apply(self.scales, kind, *(layer.weight for layer, _ in self.pairs))
        for norm, *given in zip(norms, weights, self.biases, strict=True):
            norm.given = given[0], given[1]


class _Scaled(torch.autograd.Function):
    """Weights times scales of the same shapes, in a type."""

    @staticmethod
    def forward(ctx: Any, scales: list[Tensor], kind: torch.dtype, *weights: Tensor) -> Any:
        ctx.scales = scales
        return tuple(_in_type(torch._foreach_mul(weights, scales), kind))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        asked = [number for number, needs in enumerate(ctx.needs_input_grad[2:]) if needs]
        slopes = _in_type([gradients[number] for number in asked], torch.float32)
        slopes = torch._foreach_mul(slopes, [ctx.scales[number] for number in asked])
        found = dict(zip(asked, slopes, strict=True))
        return None, None, *(found.get(number) for number in range(len(gradients)))


def _in_type(tensors: Sequence[Tensor], kind: torch.dtype) -> list[Tensor]:
    if all(one.dtype == kind for one in tensors):
        return list(tensors)
    made = [torch.empty_like(one, dtype=kind) for one in tensors]
    torch._foreach_copy_(made, tensors)
    return made


def normed(layer: nn.Conv2d, norm: nn.Module, x: Tensor) -> Tensor:
    """A convolution and its norm. A frozen one scales the weights instead of the maps, which are many times larger."""
    if not isinstance(norm, FrozenNorm):
        return norm(layer(x))
    return F.conv2d(x, *norm.folded(layer), layer.stride, layer.padding)


def relu_normed(layer: nn.Conv2d, norm: nn.Module, x: Tensor, shortcut: Tensor | None = None) -> Tensor:
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

    def forward(self, x: Tensor) -> Tensor:
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
        every = [[self.conv1, self.bn1], *([getattr(self, name)] for name in self.stages)]
        self.frozen = [FrozenStage(parts) for parts in every] if isinstance(self.bn1, FrozenNorm) else []

    def trunk(self, x: Tensor) -> Tensor:
        """Normalised images (B, 3, S, S) to the last stage's map."""
        return self.stage_maps(x)[-1]

    def stage_maps(self, x: Tensor) -> list[Tensor]:
        """Normalised images (B, 3, H, W) to the map of every stage, the finest first."""
        if x.is_cuda and not torch.compiler.is_compiling():
            self.fold(x.device.type)
        x = relu_normed(self.conv1, self.bn1, x)
        x = F.max_pool2d(x, 3, 2, 1)
        maps = []
        for name in self.stages:
            x = getattr(self, name)(x)
            maps.append(x)
        return maps

    def fold(self, device: str) -> None:
        """Scale the weights before frozen norms, stage by stage: so gradients of the last stages can be summed over replicas
        while those before are computed."""
        kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else torch.float32
        for stage in self.frozen:
            stage.give(kind)
