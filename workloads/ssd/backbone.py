"""Pretrained backbone of SSD: torchvision's ImageNet ResNet-34 up to conv4_x.

The network uses torchvision's names. The first block of conv4 has stride 1 in SSD and stride 2 in
torchvision. The stride does not affect the shapes of the parameters. `layer4` and `fc` are dropped.
The running statistics of the batch norms are also loaded, because the scales and shifts were
trained with these statistics.
"""

from __future__ import annotations

from workloads.common.networks.backbones import RESNET34, Shapes
from workloads.ssd import network

PUBLISHED = RESNET34


def shapes(layers: network.Network) -> Shapes:
    """Return the shape of every parameter and running statistic of the trunk by name."""
    trained = network.shapes(layers).items()
    parameters = {
        name: shape for name, shape in trained if name.startswith(("conv1.", "bn1.", "layer"))
    }
    return {**parameters, **network.statistics(layers)}
