"""The layers of SSD: counts, maps, initial values.

test_image_trainers.py compares strides and heads with torchvision's in float64.
"""

import math

import numpy as np
import pytest

from workloads.common.networks import residual
from workloads.ssd import network
from workloads.ssd.settings import DEMO_MODEL, REFERENCE_MODEL

REFERENCE = network.build(REFERENCE_MODEL)


def test_parameters_of_each_part():
    counts = network.parameter_counts(REFERENCE)
    assert counts == {
        "backbone": 8_170_304,
        "extras": 3_574_400,
        "box_heads": 387_192,
        "class_heads": 7_840_638,
    }
    assert (
        sum(counts.values())
        == sum(math.prod(shape) for shape in network.shapes(REFERENCE).values())
        == 19_972_534
    )
    assert sum(network.parameter_counts(network.build(DEMO_MODEL)).values()) == 714_678


@pytest.mark.parametrize(
    ("model", "sizes"), [(REFERENCE_MODEL, [38, 19, 10, 5, 3, 1]), (DEMO_MODEL, [16, 8, 4, 2])]
)
def test_maps_are_those_of_the_priors(model, sizes):
    assert (
        network.map_sizes(network.build(model), model["image_size"]) == model["map_sizes"] == sizes
    )


def test_activations_of_the_trunk():
    stem, first, second, third = 64 * 150**2, 6 * 64 * 75**2, 9 * 128 * 38**2, 13 * 256 * 38**2
    assert (
        residual.activation_values(network.build(REFERENCE_MODEL), 300, 300)
        == stem + first + second + third
    )


def test_initial_weights():
    found = dict(network.initial_weights(REFERENCE, 1))
    assert {name: value.shape for name, value in found.items()} == network.shapes(REFERENCE)
    assert list(found) == list(network.shapes(REFERENCE))
    assert all(value.dtype == np.float32 for value in found.values())
    assert found["layer3.2.conv2.weight"].std() == pytest.approx(math.sqrt(2 / (256 * 9)), rel=0.01)
    assert (found["layer2.0.downsample.1.weight"] == 1).all()
    assert (found["bn1.bias"] == 0).all()
    for name, fan_in, fan_out in (
        ("extra1.conv1", 256, 256),
        ("class2", 512 * 9, 486 * 9),
        ("box6", 256 * 9, 16 * 9),
    ):
        bound = math.sqrt(6 / (fan_in + fan_out))
        weight = found[f"{name}.weight"]
        assert abs(weight).max() == pytest.approx(bound, rel=0.01)
        assert weight.std() == pytest.approx(bound / math.sqrt(3), rel=0.02)
        assert 0.8 / math.sqrt(fan_in) < abs(found[f"{name}.bias"]).max() <= 1 / math.sqrt(fan_in)
