"""GNMT's network: sizes, parameter counts, and initial weights."""

import math

import numpy as np
import pytest

from workloads.gnmt import network
from workloads.gnmt.settings import REFERENCE_MODEL

SMALL = network.build({**REFERENCE_MODEL, "hidden": 64}, 101, 0.2)


def test_parameter_counts_equal_those_of_the_published_logs():
    counts = network.parameter_counts(network.build(REFERENCE_MODEL, 32_320, 0.2))
    assert sum(counts.values()) == 160_671_297
    assert counts["embedding"] == 33_095_680
    assert counts["encoder"] == 16_793_600 + 12_591_104 + 2 * 8_396_800
    assert counts["decoder"] == 8_396_800 + 3 * 12_591_104
    assert counts["attention"] == 2_099_201
    assert counts["classifier"] == 33_128_000


def test_initial_weights():
    weights = dict(network.initial_weights(SMALL, 3, 0.1, 0.05, padding=0))
    assert {name: value.shape for name, value in weights.items()} == network.shapes(SMALL)
    second = dict(network.initial_weights(SMALL, 4, 0.1, 0.05, padding=0))
    assert not np.array_equal(second["encoder1.weight_ih_l0"], weights["encoder1.weight_ih_l0"])
    # Padding is embedded as zeros.
    assert weights["embedding.weight"].any(1).tolist() == [False] + [True] * 100
    for name, value in weights.items():
        assert value.dtype == np.float32
        if name.endswith("bias_hh_l0") or name == "attention.bias":
            assert not value.any(), name
        elif name == "attention.scale":
            assert value[0] == pytest.approx(1 / math.sqrt(64))
        else:
            limit = 0.05 if name == "embedding.weight" else 0.1
            assert np.abs(value).max() <= limit
            assert value.std() == pytest.approx(limit / math.sqrt(3), rel=0.2), name
