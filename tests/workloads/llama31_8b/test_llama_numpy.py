"""The float64 model, which is the expected value of the trainers, is checked itself.

It is compared with transformers and with finite differences.
"""

import numpy as np
import pytest

from testing import synthetic_llama as synthetic
from testing.synthetic import shaken
from tests.workloads.llama31_8b import golden
from tests.workloads.llama31_8b.llama_numpy import losses_and_gradients
from tests.workloads.llama31_8b.small import SIZES


def test_losses_and_gradients_equal_those_of_transformers():
    tokens = golden.tokens()
    losses, gradients = losses_and_gradients(
        golden.weights(), golden.SIZES, tokens[:, :-1], tokens[:, 1:], 1 / 96
    )
    np.testing.assert_allclose(losses / 48, golden.LOSSES, rtol=golden.ACCURACY)
    network = golden.workload("pytorch").network
    edges = {
        "query_key_value": np.cumsum(network.split)[:-1],
        "gate_up": [network.feed_forward],
    }
    for name, norms in golden.GRADIENT_NORMS.items():
        parts = np.split(gradients[name], edges.get(name.split(".")[-2], []))
        found = [np.linalg.norm(part) for part in parts]
        np.testing.assert_allclose(found, norms, rtol=golden.ACCURACY, err_msg=name)


@pytest.mark.parametrize("name", sorted(synthetic.workload().network.shapes()))
def test_a_gradient_equals_a_finite_difference(name):
    workload = synthetic.workload()
    weights = {key: np.float64(value) for key, value in shaken(workload.initial_weights(1)).items()}
    tokens = synthetic.tokens(0)[:2, :13]
    arguments = SIZES, tokens[:, :-1], tokens[:, 1:], 1.0
    direction = synthetic_direction(name, weights[name].shape)

    def loss(distance):
        moved = {**weights, name: weights[name] + distance * direction}
        return losses_and_gradients(moved, *arguments)[0].sum()

    _, gradients = losses_and_gradients(weights, *arguments)
    slope = (loss(1e-5) - loss(-1e-5)) / 2e-5
    assert (gradients[name] * direction).sum() == pytest.approx(slope, rel=1e-4)


def synthetic_direction(name, shape):
    """Return a random direction, (…) float64."""
    return np.random.default_rng(len(name)).normal(size=shape)
