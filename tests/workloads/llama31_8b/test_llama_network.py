"""Llama's network: parameter counts, rotary frequencies, and initial weights."""

import itertools
import math

import numpy as np
import pytest

from tests.workloads.llama31_8b.llama_numpy import frequencies
from workloads.llama31_8b.network import Network
from workloads.llama31_8b.settings import DEMO_MODEL, REFERENCE_MODEL

REFERENCE, DEMO = Network.of(REFERENCE_MODEL), Network.of(DEMO_MODEL)


def test_parameter_counts_equal_those_of_the_reference():
    shapes = REFERENCE.shapes()
    of_layer = sum(math.prod(shapes[name]) for name in shapes if name.startswith("layer1."))
    assert of_layer == 218_112_000
    assert math.prod(shapes["embedding.weight"]) == 525_336_576
    assert REFERENCE.parameter_count() == 8_030_261_248
    assert DEMO.parameter_count() == 459_392
    assert REFERENCE.split == (4_096, 1_024, 1_024)


def test_rotary_frequencies():
    """Check that 29 frequencies are unchanged, 6 lie between, and 29 are divided by 8."""
    found, plain = REFERENCE.rope_frequencies(), 500_000.0 ** (-np.arange(64) / 64)
    assert np.isclose(found, plain, rtol=1e-12).sum() == 29
    assert np.isclose(found, plain / 8, rtol=1e-12).sum() == 29
    np.testing.assert_allclose(found, frequencies(128, 500_000, 8, 8_192), rtol=1e-12)
    np.testing.assert_allclose(DEMO.rope_frequencies(), frequencies(32, 10_000, 1, 8_192))


def test_rotations_are_computed_in_float64():
    cosines, sines = REFERENCE.rotations()
    assert cosines.shape == sines.shape == (8_192, 64)
    assert cosines.dtype == sines.dtype == np.float32
    angle = 8_191 * frequencies(128, 500_000, 8, 8_192)[1]
    assert cosines[-1, 1] == np.float32(math.cos(angle))
    assert sines[-1, 1] == np.float32(math.sin(angle))


def test_initial_weights():
    weights = dict(DEMO.initial_weights(3))
    assert {name: value.shape for name, value in weights.items()} == DEMO.shapes()
    for name, value in weights.items():
        assert value.dtype == np.float32
        if name.endswith("norm.weight"):
            assert (value == 1).all()
            continue
        is_residual = name.endswith(("output.weight", "down.weight"))
        deviation = 0.06 / (2 if is_residual else 1)
        assert value.std() == pytest.approx(deviation, rel=0.03), name
        assert abs(value.mean()) < 5 * deviation / math.sqrt(value.size)
    other = dict(DEMO.initial_weights(4))
    assert not np.array_equal(other["embedding.weight"], weights["embedding.weight"])


@pytest.mark.parametrize("name", DEMO.shapes())
def test_a_process_draws_only_its_rows(name):
    whole = dict(DEMO.initial_weights(3))[name]
    edges = np.linspace(0, len(whole), 4).astype(int)
    parts = [DEMO.initial_rows(name, 3, first, stop) for first, stop in itertools.pairwise(edges)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
