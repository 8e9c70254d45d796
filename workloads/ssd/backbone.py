"""The backbone that SSD starts from: torchvision's ResNet-34, trained on ImageNet, up to conv4_x.

Its names are the network's own. conv4's first block has stride 1 here and 2 there, which changes no shape. `layer4` and `fc`
are dropped; batch norm's running statistics come along, since its scales and shifts were trained with them.
"""

from __future__ import annotations

from workloads.common.networks.backbones import RESNET34, Shapes
from workloads.ssd import network

PUBLISHED = RESNET34


def shapes(layers: network.Network) -> Shapes:
    """Every parameter and statistic of the trunk."""
    trained = network.shapes(layers).items()
    parameters = {name: shape for name, shape in trained if name.startswith(("conv1.", "bn1.", "layer"))}
    return {**parameters, **network.statistics(layers)}
