"""ResNets from `workloads.common.networks.residual`, with the stride on the 3×3 layer."""

from __future__ import annotations

from collections.abc import Callable

from workloads.common.networks import residual
from workloads.common.networks.layer_lists import Builder


def resnet(depth: int) -> Callable[[Builder, int], None]:
    """Return a function that appends a ResNet with 18, 34, 50, 101, or 152 layers.

    The layers have torchvision's names.
    """

    def append(net: Builder, classes: int) -> None:
        kind, blocks = residual.BLOCKS[depth]
        trunk = residual.build_trunk(kind, blocks)
        stem = trunk.stem
        net.conv(stem.name, stem.outputs, stem.kernel, stem.stride, stem.padding, norm=stem.norm)
        net.pool("max", 3, 2, padding=1)
        for block in trunk.blocks:
            net.residual(block)
        net.global_pool().linear("fc", classes)

    return append
