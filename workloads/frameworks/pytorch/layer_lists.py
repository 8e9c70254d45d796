"""Networks of `workloads.common.networks.layer_lists` in PyTorch, channels-last.

The shapes use these symbols: B images, S pixels per side, C channels, h × w cells of a feature map,
K classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workloads.common.networks import layer_lists
from workloads.common.networks.layer_lists import Layer
from workloads.frameworks.pytorch.norms import BatchNorm, activated
from workloads.frameworks.pytorch.residual import Norm, Residual, convolution

Step = Callable[[Tensor, dict[str, Tensor]], Tensor]
"""Function of a layer. The arguments of the function are a feature map (B, C, h, w) or a feature
vector (B, C), and a dictionary of dropout masks by label.
"""


class Normalised(nn.Module):
    """Normalization of uint8 images (B, S, S, 3) to the network's input (B, 3, S, S)."""

    def __init__(self, network: layer_lists.Network) -> None:
        super().__init__()
        scale = 1 / (255 * torch.tensor(network.deviation))
        shift = -torch.tensor(network.mean) / torch.tensor(network.deviation)
        self.register_buffer("scale", scale.view(1, 3, 1, 1), persistent=False)
        self.register_buffer("shift", shift.view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return the normalized images, (pixel / 255 - mean) / deviation."""
        return torch.addcmul(
            self.shift, images.permute(0, 3, 1, 2).to(self.scale.dtype), self.scale
        )


class LayerNetwork(nn.Module):
    """Network that consists of a layer list.

    Parameters and running statistics have the names of the layer list.
    """

    def __init__(self, network: layer_lists.Network) -> None:
        super().__init__()
        self.normalised = Normalised(network)
        self.norm: Norm = partial(BatchNorm, eps=network.epsilon, momentum=network.momentum)
        self.steps = self.sequence(network.layers)

    def forward(self, images: Tensor, masks: dict[str, Tensor] | None = None) -> Tensor:
        """Return fp32 logits (B, K) for uint8 images (B, S, S, 3).

        Without masks, dropout is disabled.
        """
        return run(self.steps, self.normalised(images), masks or {}).float()

    def sequence(self, layers: Sequence[Layer]) -> list[Step]:
        """Return the functions of the layers, and register the layers' modules as submodules."""
        return [self.step(layer) for layer in layers]

    def step(self, layer: Layer) -> Step:
        """Return the function of a layer."""
        match layer:
            case layer_lists.Convolution():
                return self.convolution(layer)
            case layer_lists.Residual(block):
                block_name = block.convolutions[0].name.rpartition(".")[0]
                residual = self.place(block_name, Residual(block, self.norm))
                return lambda x, masks: residual(x)
            case layer_lists.Linear(name, inputs, outputs, relu):
                linear = self.place(name, nn.Linear(inputs, outputs))
                if relu:
                    return lambda x, masks: F.relu(linear(x.flatten(1)), inplace=True)
                return lambda x, masks: linear(x.flatten(1))
            case layer_lists.Concatenation(branches):
                steps = [self.sequence(branch) for branch in branches]
                return lambda x, masks: torch.cat([run(branch, x, masks) for branch in steps], 1)
            case layer_lists.Dropout(label):
                return lambda x, masks: x * masks[label].to(x.dtype) if label in masks else x
            case layer_lists.ResponseNorm(size, alpha, beta, k):
                return lambda x, masks: F.local_response_norm(x, size, alpha, beta, k)
            case layer_lists.GlobalPool():
                return lambda x, masks: x.mean((2, 3))
            case layer_lists.Pool(kind, kernel, stride, padding, ceil):
                if kind == "max":
                    return lambda x, masks: F.max_pool2d(x, kernel, stride, padding, ceil_mode=ceil)
                return lambda x, masks: F.avg_pool2d(x, kernel, stride, padding, ceil_mode=ceil)

    def convolution(self, layer: layer_lists.Convolution) -> Step:
        """Return the function of a convolution with ReLU.

        The function includes a batch norm if the layer has one.
        """
        first = self.place(layer.name, convolution(layer))
        if layer.norm is None:
            return lambda x, masks: F.relu(first(x), inplace=True)
        norm = self.place(layer.norm, self.norm(layer.outputs))
        return lambda x, masks: activated(norm, first(x))

    def place(self, name: str, module: nn.Module) -> nn.Module:
        """Register a module as the submodule with this dotted name."""
        owner: nn.Module = self
        *folders, last = name.split(".")
        for folder in folders:
            if folder not in owner._modules:
                owner.add_module(folder, nn.Module())
            owner = owner.get_submodule(folder)
        owner.add_module(last, module)
        return module


def run(steps: Sequence[Step], x: Tensor, masks: dict[str, Tensor]) -> Tensor:
    """Apply the functions of the layers in sequence."""
    for step in steps:
        x = step(x, masks)
    return x
