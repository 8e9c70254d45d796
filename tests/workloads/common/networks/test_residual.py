"""Residual networks without a classifier: parameter counts, strides, and sizes of feature maps.

Parameters have the names of torchvision, as test_zoo_frameworks checks.
"""

import math

import pytest

from workloads.common.networks import residual
from workloads.common.networks.residual import BLOCKS, Convolution, build_trunk

CLASSIFIERS = {"basic": 512 * 1000 + 1000, "bottleneck": 2048 * 1000 + 1000}
PARAMETERS = {18: 11_689_512, 34: 21_797_672, 50: 25_557_032, 101: 44_549_160, 152: 60_192_808}
"""Parameters of the complete networks with 1,000 classes, as documented by torchvision."""


def trunk(depth, **options):
    return build_trunk(*BLOCKS[depth], **options)


def count(shapes):
    return sum(math.prod(shape) for shape in shapes.values())


@pytest.mark.parametrize("depth", BLOCKS)
def test_every_depth_has_the_published_parameters(depth):
    network = trunk(depth)
    shapes = residual.parameter_shapes(network.trunk_convolutions)
    assert count(shapes) == PARAMETERS[depth] - CLASSIFIERS[BLOCKS[depth][0]]
    assert network.features == (512 if depth < 50 else 2048)
    layers = [layer for layer in network.trunk_convolutions if "downsample" not in layer.name]
    # The classifier is a layer too.
    assert len(layers) + 1 == depth


def test_the_stride_of_a_bottleneck_may_be_on_its_first_convolution():
    for on_1x1, name in ((False, "conv2"), (True, "conv1")):
        network = trunk(101, stride_on_1x1=on_1x1)
        strided = [layer.name for layer in network.trunk_convolutions if layer.stride == 2]
        assert strided == [
            "conv1",
            *(f"layer{s}.0.{part}" for s in (2, 3, 4) for part in (name, "downsample.0")),
        ]
        sizes = {layer.name: side for layer, side in residual.map_sizes(network, 224)}
        assert [sizes[f"layer{stage}.0.conv3"] for stage in (1, 2, 3, 4)] == [56, 28, 14, 7]
        assert sizes["layer2.0.conv1"] == (28 if on_1x1 else 56)
    # A basic block has no 1×1 convolution.
    assert trunk(18, stride_on_1x1=True) == trunk(18)


def test_a_block_has_a_projection_if_stride_or_channels_change():
    assert [block.shortcut is not None for block in trunk(18).blocks] == [False, False] + [
        True,
        False,
    ] * 3
    assert [block.shortcut is not None for block in trunk(50).blocks[:4]] == [
        True,
        False,
        False,
        True,
    ]
    narrow = build_trunk("basic", [2, 1], [8, 8], [1, 1])
    assert not any(block.shortcut for block in narrow.blocks)


def test_feature_maps_of_images_that_are_not_square():
    network = trunk(50)
    rows, columns = dict(residual.map_sizes(network, 800)), dict(residual.map_sizes(network, 1344))
    last = [layer for layer in rows if layer.name.endswith("0.conv3")]
    assert [(rows[layer], columns[layer]) for layer in last] == [
        (200, 336),
        (100, 168),
        (50, 84),
        (25, 42),
    ]
    assert residual.activation_values(network, 224, 224) == 11_113_984
    landscape = residual.activation_values(network, 800, 1344)
    portrait = residual.activation_values(network, 1344, 800)
    assert landscape == portrait == 11_113_984 * 800 * 1344 // 224**2
    # A single block of width 4 on 8 x 12 pixels: the stem has 4 maps of 4 x 6, the pool reduces
    # them to 2 x 3. The block has 4 + 4 + 16 maps, and its shortcut 16.
    small = build_trunk("bottleneck", [1], [4], [1])
    assert residual.activation_values(small, 8, 12) == 4 * 24 + (4 + 4 + 16 + 16) * 6


def test_a_convolution_has_a_batch_norm_or_a_bias():
    layers = [Convolution("a", 3, 4, 3, 1, 1), Convolution("b", 4, 5, 1, 2, 0, "n")]
    assert residual.parameter_shapes(layers) == {
        "a.weight": (4, 3, 3, 3), "a.bias": (4,),
        "b.weight": (5, 4, 1, 1), "n.weight": (5,), "n.bias": (5,),
    }  # fmt: skip
    assert residual.statistic_shapes(layers) == {"n.running_mean": (5,), "n.running_var": (5,)}


def test_unknown_kinds_and_lists_of_unequal_length_are_rejected():
    with pytest.raises(KeyError):
        build_trunk("wide", [1], [4], [1])
    with pytest.raises(ValueError, match="argument"):
        build_trunk("basic", [1, 1], [4], [1])
