"""The backbone that SSD starts from: torchvision's ResNet-34, trained on ImageNet, up to conv4_x.

Its names are the network's own. conv4's first block has stride 1 here and 2 there, which changes no shape. `layer4` and `fc`
are dropped; batch norm's running statistics come along, since its scales and shifts were trained with them.
"""

from __future__ import annotations

from workloads.common.backbones import Published, Shapes
from workloads.ssd import network

PUBLISHED = Published(
    file="resnet34-333f7ec4.pth",
    url="https://download.pytorch.org/models/resnet34-333f7ec4.pth",
    bytes=87_306_240,
    sha256="333f7ec4c6338da2cbed37f1fc0445f9624f1355633fa1d7eab79a91084c6cef",
)
"""The only pretraining that the rules allow (reference download_resnet34_backbone.sh); the name carries the digest's start."""


def shapes(layers: network.Network) -> Shapes:
    """Every parameter and statistic of the trunk."""
    trained = network.shapes(layers).items()
    found = {name: shape for name, shape in trained if name.startswith(("conv1.", "bn1.", "layer"))}
    return {**found, **network.statistics(layers)}
