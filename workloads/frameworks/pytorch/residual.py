"""Residual trunks in PyTorch, built from framework-independent layers.

A trunk consists of a stem, a max pool and stages of blocks. The modules of a trunk have
torchvision's names.
"""

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
"""Factory of the batch norm that follows a convolution. The argument is the number of channels."""


def convolution(layer: Convolution | layer_lists.Convolution) -> nn.Conv2d:
    """Return the convolution module of a layer, without its batch norm."""
    return nn.Conv2d(
        layer.inputs, layer.outputs, layer.kernel, layer.stride, layer.padding, bias=layer.has_bias
    )


class FrozenNorm(nn.Module):
    """Frozen batch norm, which is not trained: x · weight + bias per channel.

    The running statistics of the batch norm are merged into its scale and shift. The formula does
    not use ε.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.ones(channels))
        self.register_buffer("bias", torch.zeros(channels))
        self.prepared: tuple[Tensor, Tensor] | None = None
        """Weights and bias that the next call of `folded` returns, computed in advance by
        `FrozenStage`. None if `folded` must compute the weights.
        """

    def folded(self, layer: nn.Conv2d) -> tuple[Tensor, Tensor]:
        """Return the weights and bias of the preceding convolution, including this batch norm."""
        prepared, self.prepared = self.prepared, None
        return (
            (layer.weight * self.weight.view(-1, 1, 1, 1), self.bias)
            if prepared is None
            else prepared
        )


class FrozenStage:
    """Frozen batch norms of a stage. All convolution weights are scaled and cast together.

    A stage needs one or two kernel launches. Without this class, each convolution would need two
    kernel launches. The weights are bit-identical to the result of `FrozenNorm.folded` followed by
    autocast.
    """

    def __init__(self, parts: Iterable[nn.Module]) -> None:
        """Collect the convolutions of `parts`. A frozen batch norm follows each convolution."""
        modules = [module for part in parts for module in part.modules()]
        norms = [module for module in modules if isinstance(module, FrozenNorm)]
        self.pairs = list(
            zip((module for module in modules if isinstance(module, nn.Conv2d)), norms, strict=True)
        )
        self.sources: list[object] = []
        """Data type and tensor versions for which `scales` and `biases` were computed. `scales` has
        the shapes of the convolution weights.
        """

    def give(self, kind: torch.dtype) -> None:
        """Pass the scaled weights and biases, in the data type `kind`, to all frozen norms."""
        norms = [norm for _, norm in self.pairs]
        sources = [kind, *(part._version for norm in norms for part in (norm.weight, norm.bias))]
        if sources != self.sources:
            with torch.inference_mode(False), torch.no_grad():
                self.scales = [
                    torch.ones_like(conv.weight) * norm.weight.view(-1, 1, 1, 1)
                    for conv, norm in self.pairs
                ]
                self.biases = [norm.bias.to(kind) for norm in norms]
            self.sources = sources
        weights = _Scaled.apply(self.scales, kind, *(layer.weight for layer, _ in self.pairs))
        for norm, *prepared in zip(norms, weights, self.biases, strict=True):
            norm.prepared = prepared[0], prepared[1]


class _Scaled(torch.autograd.Function):
    """Autograd function that multiplies weights by scales and casts them to a data type."""

    @staticmethod
    def forward(ctx: Any, scales: list[Tensor], kind: torch.dtype, *weights: Tensor) -> Any:
        ctx.scales = scales
        return tuple(_in_type(torch._foreach_mul(weights, scales), kind))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        needed = [number for number, needs in enumerate(ctx.needs_input_grad[2:]) if needs]
        slopes = _in_type([gradients[number] for number in needed], torch.float32)
        slopes = torch._foreach_mul(slopes, [ctx.scales[number] for number in needed])
        by_number = dict(zip(needed, slopes, strict=True))
        return None, None, *(by_number.get(number) for number in range(len(gradients)))


def _in_type(tensors: Sequence[Tensor], kind: torch.dtype) -> list[Tensor]:
    if all(tensor.dtype == kind for tensor in tensors):
        return list(tensors)
    converted = [torch.empty_like(tensor, dtype=kind) for tensor in tensors]
    torch._foreach_copy_(converted, tensors)
    return converted


def normed(layer: nn.Conv2d, norm: nn.Module, x: Tensor) -> Tensor:
    """Apply a convolution and its batch norm.

    The scale of a frozen batch norm is multiplied into the weights, because the weights are much
    smaller than the feature maps.
    """
    if not isinstance(norm, FrozenNorm):
        return norm(layer(x))
    return F.conv2d(x, *norm.folded(layer), layer.stride, layer.padding)


def relu_normed(
    layer: nn.Conv2d, norm: nn.Module, x: Tensor, shortcut: Tensor | None = None
) -> Tensor:
    """Apply `normed`, add `shortcut` (if any), and return the ReLU of the sum."""
    if not isinstance(norm, FrozenNorm):
        return activated(norm, layer(x), shortcut)
    out = normed(layer, norm, x)
    if shortcut is not None:
        out += shortcut
    return F.relu(out, inplace=True)


class Residual(nn.Module):
    """Residual block: convolutions `conv1`, `conv2`, … with batch norms.

    A ReLU follows each convolution. After the last convolution, the shortcut is added before the
    ReLU.
    """

    def __init__(self, block: Block, norm: Norm) -> None:
        super().__init__()
        self.convolutions = len(block.convolutions)
        for number, layer in enumerate(block.convolutions, start=1):
            self.add_module(f"conv{number}", convolution(layer))
            self.add_module(f"bn{number}", norm(layer.outputs))
        shortcut = block.shortcut
        self.downsample = (
            nn.Sequential(convolution(shortcut), norm(shortcut.outputs))
            if shortcut is not None
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block to (B, inputs, h, w).

        The result is (B, outputs, h / stride, w / stride).
        """
        out = x
        for number in range(1, self.convolutions):
            out = relu_normed(getattr(self, f"conv{number}"), getattr(self, f"bn{number}"), out)
        shortcut = (
            x if self.downsample is None else normed(self.downsample[0], self.downsample[1], x)
        )
        last = self.convolutions
        return relu_normed(getattr(self, f"conv{last}"), getattr(self, f"bn{last}"), out, shortcut)


class Trunk(nn.Module):
    """Base class of models with a residual trunk.

    The trunk consists of `conv1`, `bn1`, a 3×3 max pool with stride 2, `layer1`, `layer2`, and so
    on.

    Models inherit from this class, so that the parameters of the trunk have these names without a
    prefix.
    """

    def __init__(self, stem: Convolution, blocks: Iterable[Block], norm: Norm) -> None:
        super().__init__()
        self.conv1, self.bn1 = convolution(stem), norm(stem.outputs)
        stages: dict[str, list[nn.Module]] = {}
        for block in blocks:
            stages.setdefault(block.convolutions[0].name.partition(".")[0], []).append(
                Residual(block, norm)
            )
        for name, members in stages.items():
            self.add_module(name, nn.Sequential(*members))
        self.stages = list(stages)
        stages_with_stem = [
            [self.conv1, self.bn1],
            *([getattr(self, name)] for name in self.stages),
        ]
        self.frozen = (
            [FrozenStage(parts) for parts in stages_with_stem]
            if isinstance(self.bn1, FrozenNorm)
            else []
        )

    def trunk(self, x: Tensor) -> Tensor:
        """Return the feature map of the last stage, for normalized images (B, 3, S, S)."""
        return self.stage_maps(x)[-1]

    def stage_maps(self, x: Tensor) -> list[Tensor]:
        """Return the feature map of every stage, for normalized images (B, 3, H, W).

        The finest feature map is first.
        """
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
        """Scale the weights that precede frozen batch norms, stage by stage.

        Because the stages are separate, the all-reduce of the last stages' gradients can overlap
        the backward pass of earlier stages.
        """
        kind = (
            torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else torch.float32
        )
        for stage in self.frozen:
            stage.give(kind)
