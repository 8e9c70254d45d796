"""What stands on ModelTrainer: tokens in two shapes, gradients in pieces, the modes; against float64 NumPy."""

import numpy as np
import pytest

from tests.frameworks_probe import below, probe, probe_together, relative
from tests.workloads.frameworks import synthetic_tokens
from tests.workloads.frameworks.synthetic_tokens import SIZES, Tokens

COMPUTED = "probes.tensorflow_model.computed"
ANY_SHAPE = ("any shape", "any shape in pieces")
"""One trace for all shapes; but XLA compiles each."""
VARIANTS = ("plain", "compiled", "pieces", "pieces compiled", "unused", *ANY_SHAPE, "any shape compiled")
CLOSE = 3e-6
"""Of the largest value: fp32 rounds to 6e-8; a softmax over 40 words and six steps add up."""


@pytest.fixture(scope="module")
def alone():
    return {**probe("tensorflow", COMPUTED, *VARIANTS), **probe("tensorflow", "probes.tensorflow_model.said")}


@pytest.fixture(scope="module")
def pair():
    return probe_together("tensorflow", 2, COMPUTED, "plain")


def check(found, workload):
    """Losses and state after the steps, the passes without an update before them."""
    state, losses = synthetic_tokens.expected(workload)
    np.testing.assert_allclose(found["losses"], losses, rtol=CLOSE)
    values = below(found, "state/")
    assert set(values) == set(state)
    for name, value in state.items():
        assert np.abs(values[name] - value).max() <= CLOSE * max(np.abs(value).max(), 1), name
    weights = dict(workload.initial_weights(1))
    passes = [synthetic_tokens.summed(workload, step, weights) for step in range(2)]
    for mode in ("forward", "forward_backward"):
        assert found[mode] == pytest.approx(np.mean([loss for loss, _ in passes]), rel=CLOSE)
    gradients = below(found, "gradient/")
    assert set(gradients) == set(weights)
    for name, value in passes[0][1].items():
        scaled = value * workload.optimizer().loss_scaling.start * workload.settings.devices
        assert np.abs(gradients[name] - scaled).max() <= CLOSE, name
    assert found["untouched"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_tokens_in_two_shapes_follow_float64(variant, alone):
    found = below(alone, f"{variant}/")
    check(found, Tokens(unused=variant == "unused"))
    assert found["traces"] == (1 if variant in ANY_SHAPE else len(SIZES))


def test_two_replicas_follow_float64(pair):
    for found in pair:
        check(below(found, "plain/"), Tokens(replicas=2))


@pytest.mark.parametrize("variant", VARIANTS)
def test_outputs_are_the_models(variant, alone):
    weights, batch = dict(Tokens().initial_weights(1)), Tokens().batch(0)
    words = np.float64(weights["embedding.weight"])[batch.arrays["source"]]
    wanted = words @ weights["output.weight"].T + weights["output.bias"]
    assert relative(alone[f"{variant}/logits"], wanted) <= CLOSE


def test_setup_warms_up_what_the_mode_is_going_to_do(alone):
    """Steps, passes with gradients, passes without, evaluations; one of each shape."""
    every = len(SIZES)
    assert alone["modes/train"].tolist() == [every, 0, 0, every]
    assert alone["modes/forward_backward"].tolist() == [0, every, 0, every]
    assert alone["modes/forward"].tolist() == [0, 0, every, every]
    assert alone["modes/inference"].tolist() == [0, 0, 0, every]


def test_batch_that_cannot_be_cut_is_refused_in_one_line(alone):
    said = str(alone["refused"])
    assert "3 equal pieces" in said
    assert "batch of 4" in said
    assert "\n" not in said


def test_parameter_without_gradient_is_named_where_every_step_uses_all(alone):
    assert "never.weight" in str(alone["missing"])
