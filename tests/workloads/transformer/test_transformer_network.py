"""The Transformer's network: sizes, parameter counts, initial weights, and positions."""

import math

import numpy as np
import pytest

from workloads.transformer import network
from workloads.transformer.settings import DEMO_MODEL, REFERENCE_MODEL

SMALL = network.build({**REFERENCE_MODEL, "hidden": 64, "feed_forward": 96, "layers": 2}, 101, 0.1)


def test_parameter_counts_equal_those_of_the_reference():
    """Check counts without biases of attention projections, which would add 73,728 parameters.

    An encoder layer has two norms, a side has a final norm, and there is a single embedding table.
    """
    sizes = network.build(REFERENCE_MODEL, 33_708, 0.1)
    counts = network.parameter_counts(sizes)
    assert counts["embedding"] == 34_516_992
    assert counts["encoder"] == 6 * 12_592_128 + 2_048
    assert counts["decoder"] == 6 * 16_788_480 + 2_048
    assert sum(counts.values()) == 210_804_736
    biases = [
        name for name in network.shapes(sizes) if name.endswith("bias") and "norm" not in name
    ]
    assert len(biases) == 2 * 12
    assert all(".feed_forward." in name for name in biases)


def test_the_demo_is_a_smaller_network_of_the_same_kind():
    sizes = network.build(DEMO_MODEL, 1_253, 0.1)
    assert (
        sum(network.parameter_counts(sizes).values())
        == 1_253 * 128 + 2 * (197_760 + 263_552) + 2 * 256
    )
    assert len(network.shapes(sizes)) == 1 + 2 * (4 + 6) + 2 * (4 + 5 + 6) + 4


def test_initial_weights():
    """Check a normal embedding table with deviation d^-0.5, and Glorot uniform projections.

    Stacked projections have the same limit as separate projections.
    """
    weights = dict(network.initial_weights(SMALL, 3))
    assert {name: value.shape for name, value in weights.items()} == network.shapes(SMALL)
    second = dict(network.initial_weights(SMALL, 4))
    assert not np.array_equal(second["embedding.weight"], weights["embedding.weight"])
    assert (
        len(
            np.unique(
                np.split(weights["encoder1.self_attention.query_key_value.weight"], 3), axis=0
            )
        )
        == 3
    )
    for name, value in weights.items():
        assert value.dtype == np.float32
        if name.endswith("norm.weight"):
            assert (value == 1).all(), name
        elif value.ndim == 1:
            assert not value.any(), name
        elif name == "embedding.weight":
            assert value.std() == pytest.approx(64**-0.5, rel=0.05)
            assert np.abs(value).max() > 3 * 64**-0.5
        else:
            limit = math.sqrt(6 / (64 + (96 if "feed_forward" in name else 64)))
            assert 0.95 * limit < np.abs(value).max() <= limit, name
            assert value.std() == pytest.approx(limit / math.sqrt(3), rel=0.05), name


def test_positions_are_sines_then_cosines():
    """Check [sin | cos], not interleaved, with time scales from 1 to 10,000.

    Both limits are reached, because the divisor is d / 2 - 1.
    """
    found = network.positions(300, 64)
    assert found.shape == (300, 64)
    for position, column in ((0, 0), (1, 0), (7, 3), (299, 31)):
        scale = 10_000 ** (column / 31)
        assert found[position, column] == pytest.approx(math.sin(position / scale), abs=1e-6)
        assert found[position, 32 + column] == pytest.approx(math.cos(position / scale), abs=1e-6)
    assert found[299, 31] == pytest.approx(math.sin(299 / 10_000), abs=1e-7)
