import numpy as np
import pytest

from workloads.common.optimizers import Rule, lars, sgd, trust_ratio

W, G = np.array([3.0, 4.0]), np.array([0.6, 0.8])


def test_sgd_with_momentum_is_its_closed_form():
    """A constant gradient without decay: after n steps v = g (1 - mⁿ) / (1 - m)."""
    weight, velocity = W, np.zeros(2)
    for _ in range(5):
        weight, velocity = sgd(weight, velocity, G, 0.1, 0.9, 0.0)
    np.testing.assert_allclose(velocity, G * (1 - 0.9**5) / 0.1)
    np.testing.assert_allclose(weight, W - 0.1 * G * sum((1 - 0.9**n) / 0.1 for n in range(1, 6)))


def test_sgd_applies_the_rate_behind_the_momentum():
    """With rates 0 and 1 the gradient of the first step still arrives in the second."""
    weight, velocity = sgd(W, np.zeros(2), G, 0.0, 0.9, 0.0)
    weight, _ = sgd(weight, velocity, np.zeros(2), 1.0, 0.9, 0.0)
    np.testing.assert_allclose(weight, W - 0.9 * G)


def test_decay_is_coupled():
    weight, velocity = sgd(W, np.zeros(2), np.zeros(2), 0.1, 0.9, 0.01)
    np.testing.assert_allclose(velocity, 0.01 * W)
    np.testing.assert_allclose(weight, W * (1 - 0.001))


def test_trust_ratio():
    assert trust_ratio(W, G, 0.001, 0.1) == pytest.approx(0.001 * 5 / (1 + 0.1 * 5))
    assert trust_ratio(W, G, 0.001, 0.0, epsilon=1.0) == pytest.approx(0.001 * 5 / 2)
    assert trust_ratio(np.zeros(2), G, 0.001, 0.1) == trust_ratio(W, np.zeros(2), 0.001, 0.1) == 1.0


def test_lars_applies_the_rate_inside_the_momentum():
    adapted, plain = Rule(0.1, True), Rule(0.0, False)
    weight, velocity = lars(W, np.zeros(2), G, 2.0, 0.9, 0.001, adapted)
    expected = 2.0 * trust_ratio(W, G, 0.001, 0.1) * (G + 0.1 * W)
    np.testing.assert_allclose(velocity, expected)
    np.testing.assert_allclose(weight, W - expected)
    _, later = lars(weight, velocity, G, 0.0, 0.9, 0.001, adapted)
    np.testing.assert_allclose(later, 0.9 * expected)
    _, bias = lars(W, np.zeros(2), G, 2.0, 0.9, 0.001, plain)
    np.testing.assert_allclose(bias, 2.0 * G)
