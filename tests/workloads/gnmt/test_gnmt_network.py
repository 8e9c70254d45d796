"""Sizes, parameter counts and initial weights."""

import itertools
import math

import numpy as np
import pytest

from workloads.gnmt import network
from workloads.gnmt.settings import DEMO_MODEL, REFERENCE_MODEL

SMALL = network.build({**REFERENCE_MODEL, "hidden": 64}, 101, 0.2)


def test_parameters_are_those_of_the_published_logs():
    counts = network.parameter_counts(network.build(REFERENCE_MODEL, 32_320, 0.2))
    assert sum(counts.values()) == 160_671_297
    assert counts["embedding"] == 33_095_680
    assert counts["encoder"] == 16_793_600 + 12_591_104 + 2 * 8_396_800
    assert counts["decoder"] == 8_396_800 + 3 * 12_591_104
    assert counts["attention"] == 2_099_201
    assert counts["classifier"] == 33_128_000


def test_demo_is_the_same_network_smaller():
    layers = network.build(DEMO_MODEL, 1_253, 0.2)
    assert [lstm.name for lstm in layers.encoder] == ["encoder1", "encoder1_reverse", "encoder2", "encoder3"]
    assert [lstm.residual for lstm in layers.encoder] == [False, False, False, True]
    assert [lstm.residual for lstm in layers.decoder] == [False, False, True]


def test_inputs_and_masks():
    """Each layer's inputs have a part of the mask; both directions of the first share theirs."""
    assert [lstm.inputs for lstm in SMALL.encoder] == [64, 64, 128, 64, 64]
    assert [lstm.inputs for lstm in SMALL.decoder] == [64, 128, 128, 128]
    assert SMALL.encoder[0].mask == SMALL.encoder[1].mask
    for side, width in zip((SMALL.encoder[1:], SMALL.decoder), SMALL.mask_widths, strict=True):
        edges = [0, *np.cumsum([lstm.inputs for lstm in side]).tolist()]
        assert [(lstm.mask.start, lstm.mask.stop) for lstm in side] == list(itertools.pairwise(edges))
        assert width == edges[-1]


def test_initial_weights():
    weights = dict(network.initial_weights(SMALL, 3, 0.1, 0.05, padding=0))
    assert {name: value.shape for name, value in weights.items()} == network.shapes(SMALL)
    other = dict(network.initial_weights(SMALL, 4, 0.1, 0.05, padding=0))
    assert not np.array_equal(other["encoder1.weight_ih_l0"], weights["encoder1.weight_ih_l0"])
    assert weights["embedding.weight"].any(1).tolist() == [False] + [True] * 100  # padding is embedded as zeros
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
