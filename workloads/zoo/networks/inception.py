"""GoogLeNet and Inception-BN.

The layer names are derived from the names of the modules in the papers.
"""

from __future__ import annotations

from workloads.common.networks.layer_lists import Builder

GOOGLENET = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
"""Widths of the 1×1, 3×3 reduce, 3×3, 5×5 reduce, 5×5, and pool projection layers, by module
(Szegedy et al. 2014, table 1).
"""
INCEPTION_BN = {
    "3a": (64, 64, 64, 64, 96, "avg", 32),
    "3b": (64, 64, 96, 64, 96, "avg", 64),
    "3c": (0, 128, 160, 64, 96, "max", 0),
    "4a": (224, 64, 96, 96, 128, "avg", 128),
    "4b": (192, 96, 128, 96, 128, "avg", 128),
    "4c": (160, 128, 160, 128, 160, "avg", 128),
    "4d": (96, 128, 192, 160, 192, "avg", 128),
    "4e": (0, 128, 192, 192, 256, "max", 0),
    "5a": (352, 192, 320, 160, 224, "avg", 128),
    "5b": (352, 192, 320, 192, 224, "max", 128),
}
"""Layers by module: widths of 1×1, 3×3 reduce, 3×3, double 3×3 reduce, and both double 3×3
convolutions, the pooling type, and the width of the pool projection. A width of 0 means that the
module lacks the layer and has stride 2 (MXNet's
example/image-classification/symbols/inception-bn.py).
"""


def googlenet(net: Builder, classes: int) -> None:
    """Append the layers of GoogLeNet (2014) without its auxiliary heads.

    The network has 5×5 branches and local response norm, but no batch norm.
    """
    net.conv("conv1", 64, 7, stride=2, padding=3).pool("max", 3, 2, ceil=True).response_norm()
    net.conv("conv2_reduce", 64, 1).conv("conv2", 192, 3, padding=1).response_norm().pool(
        "max", 3, 2, ceil=True
    )
    for module, widths in GOOGLENET.items():
        _googlenet_module(net, f"inception_{module}", *widths)
        if module in ("3b", "4e"):
            net.pool("max", 3, 2, ceil=True)
    net.global_pool().dropout(0.4).linear("fc", classes)


def _googlenet_module(
    net: Builder,
    name: str,
    width_1x1: int,
    reduce3: int,
    three: int,
    reduce5: int,
    five: int,
    pool: int,
) -> None:
    net.fork(
        lambda b: b.conv(f"{name}.1x1", width_1x1, 1),
        lambda b: b.conv(f"{name}.3x3_reduce", reduce3, 1).conv(f"{name}.3x3", three, 3, padding=1),
        lambda b: b.conv(f"{name}.5x5_reduce", reduce5, 1).conv(f"{name}.5x5", five, 5, padding=2),
        lambda b: b.pool("max", 3, 1, padding=1).conv(f"{name}.pool_projection", pool, 1),
    )


def inception_bn(net: Builder, classes: int) -> None:
    """Append the layers of Inception-BN as in MXNet's example.

    Convolutions have a bias in addition to batch norm.
    """
    _normed(net, "conv1", 64, 7, 2, 3).pool("max", 3, 2)
    _normed(net, "conv2_reduce", 64, 1)
    _normed(net, "conv2", 192, 3, 1, 1).pool("max", 3, 2)
    for module, widths in INCEPTION_BN.items():
        _inception_bn_module(net, f"inception_{module}", *widths)
    net.global_pool().linear("fc", classes)


def _normed(
    net: Builder, name: str, outputs: int, kernel: int, stride: int = 1, padding: int = 0
) -> Builder:
    return net.conv(f"{name}.conv", outputs, kernel, stride, padding, norm=f"{name}.bn", bias=True)


def _inception_bn_module(
    net: Builder,
    name: str,
    width_1x1: int,
    reduce3: int,
    three: int,
    reduce_double: int,
    double: int,
    kind: str,
    pool: int,
) -> None:
    stride = 1 if width_1x1 else 2

    def single(b: Builder) -> Builder:
        return _normed(
            _normed(b, f"{name}.3x3_reduce", reduce3, 1), f"{name}.3x3", three, 3, stride, 1
        )

    def twice(b: Builder) -> Builder:
        first = _normed(
            _normed(b, f"{name}.double_3x3_reduce", reduce_double, 1),
            f"{name}.double_3x3_1",
            double,
            3,
            1,
            1,
        )
        return _normed(first, f"{name}.double_3x3_2", double, 3, stride, 1)

    def pooled(b: Builder) -> Builder:
        b.pool(kind, 3, stride, padding=1)
        return _normed(b, f"{name}.pool_projection", pool, 1) if pool else b

    if width_1x1:
        net.fork(lambda b: _normed(b, f"{name}.1x1", width_1x1, 1), single, twice, pooled)
    else:
        net.fork(single, twice, pooled)
