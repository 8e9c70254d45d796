"""Inception-v3 (Szegedy et al. 2015) without its auxiliary head.

Layer names and layer order are the same as in torchvision.
"""

from __future__ import annotations

from workloads.common.networks.layer_lists import Builder, Pair

Step = tuple[str, int, int | Pair]
"""Name, number of outputs, and kernel size of a convolution. The padding of the convolution
preserves the size of the feature map.
"""


def inception_v3(net: Builder, classes: int) -> None:
    """Append five stem convolutions, modules of five different kinds, and a classifier."""
    _conv(net, "Conv2d_1a_3x3", 32, 3, 2)
    _conv(net, "Conv2d_2a_3x3", 32, 3)
    _conv(net, "Conv2d_2b_3x3", 64, 3, padding=1).pool("max", 3, 2)
    _conv(net, "Conv2d_3b_1x1", 80, 1)
    _conv(net, "Conv2d_4a_3x3", 192, 3).pool("max", 3, 2)
    for name, pool in (("Mixed_5b", 32), ("Mixed_5c", 64), ("Mixed_5d", 64)):
        _module_a(net, name, pool)
    _module_b(net, "Mixed_6a")
    for name, width in (("Mixed_6b", 128), ("Mixed_6c", 160), ("Mixed_6d", 160), ("Mixed_6e", 192)):
        _module_c(net, name, width)
    _module_d(net, "Mixed_7a")
    for name in ("Mixed_7b", "Mixed_7c"):
        _module_e(net, name)
    net.global_pool().dropout(0.5).linear("fc", classes)


def _conv(
    net: Builder,
    name: str,
    outputs: int,
    kernel: int | Pair,
    stride: int = 1,
    padding: int | Pair = 0,
) -> Builder:
    return net.conv(f"{name}.conv", outputs, kernel, stride, padding, norm=f"{name}.bn")


def _same(net: Builder, name: str, *steps: Step) -> Builder:
    """Append convolutions that preserve the size of the feature map."""
    for suffix, outputs, kernel in steps:
        rows, columns = (kernel, kernel) if isinstance(kernel, int) else kernel
        _conv(net, f"{name}.{suffix}", outputs, kernel, padding=(rows // 2, columns // 2))
    return net


def _module_a(net: Builder, name: str, pool: int) -> None:
    net.fork(
        lambda b: _same(b, name, ("branch1x1", 64, 1)),
        lambda b: _same(b, name, ("branch5x5_1", 48, 1), ("branch5x5_2", 64, 5)),
        lambda b: _same(
            b, name, ("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3), ("branch3x3dbl_3", 96, 3)
        ),
        lambda b: _same(b.pool("avg", 3, 1, 1), name, ("branch_pool", pool, 1)),
    )


def _module_b(net: Builder, name: str) -> None:
    def twice(b: Builder) -> Builder:
        _same(b, name, ("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3))
        return _conv(b, f"{name}.branch3x3dbl_3", 96, 3, 2)

    net.fork(
        lambda b: _conv(b, f"{name}.branch3x3", 384, 3, 2), twice, lambda b: b.pool("max", 3, 2)
    )


def _module_c(net: Builder, name: str, width: int) -> None:
    row, column = (1, 7), (7, 1)
    double: list[Step] = [("branch7x7dbl_1", width, 1), ("branch7x7dbl_2", width, column)]
    double += [
        ("branch7x7dbl_3", width, row),
        ("branch7x7dbl_4", width, column),
        ("branch7x7dbl_5", 192, row),
    ]
    net.fork(
        lambda b: _same(b, name, ("branch1x1", 192, 1)),
        lambda b: _same(
            b,
            name,
            ("branch7x7_1", width, 1),
            ("branch7x7_2", width, row),
            ("branch7x7_3", 192, column),
        ),
        lambda b: _same(b, name, *double),
        lambda b: _same(b.pool("avg", 3, 1, 1), name, ("branch_pool", 192, 1)),
    )


def _module_d(net: Builder, name: str) -> None:
    def three(b: Builder) -> Builder:
        return _conv(_same(b, name, ("branch3x3_1", 192, 1)), f"{name}.branch3x3_2", 320, 3, 2)

    def seven(b: Builder) -> Builder:
        _same(
            b,
            name,
            ("branch7x7x3_1", 192, 1),
            ("branch7x7x3_2", 192, (1, 7)),
            ("branch7x7x3_3", 192, (7, 1)),
        )
        return _conv(b, f"{name}.branch7x7x3_4", 192, 3, 2)

    net.fork(three, seven, lambda b: b.pool("max", 3, 2))


def _module_e(net: Builder, name: str) -> None:
    def parted(b: Builder, first: str, second: str) -> Builder:
        return b.fork(
            lambda c: _same(c, name, (first, 384, (1, 3))),
            lambda c: _same(c, name, (second, 384, (3, 1))),
        )

    net.fork(
        lambda b: _same(b, name, ("branch1x1", 320, 1)),
        lambda b: parted(_same(b, name, ("branch3x3_1", 384, 1)), "branch3x3_2a", "branch3x3_2b"),
        lambda b: parted(
            _same(b, name, ("branch3x3dbl_1", 448, 1), ("branch3x3dbl_2", 384, 3)),
            "branch3x3dbl_3a",
            "branch3x3dbl_3b",
        ),
        lambda b: _same(b.pool("avg", 3, 1, 1), name, ("branch_pool", 192, 1)),
    )
