from types import SimpleNamespace

import numpy as np
import pytest

from workloads.api import ArraySpec, LossScaling, OptimizerSettings, ParameterRule, Workload
from workloads.common.optimizers import (
    LossScale,
    adam,
    adamw,
    clip_factor,
    lars,
    rmsprop,
    sgd,
    trust_ratio,
    with_momentum,
)

W, G = np.array([3.0, 4.0]), np.array([0.6, 0.8])


def test_sgd_with_momentum_equals_its_closed_form():
    """Check v = g (1 - mⁿ) / (1 - m) after n steps with a constant gradient and without decay."""
    weight, velocity = W, np.zeros(2)
    for _ in range(5):
        weight, velocity = sgd(weight, velocity, G, 0.1, 0.9, 0.0)
    np.testing.assert_allclose(velocity, G * (1 - 0.9**5) / 0.1)
    np.testing.assert_allclose(weight, W - 0.1 * G * sum((1 - 0.9**n) / 0.1 for n in range(1, 6)))


def test_decay_is_coupled():
    weight, velocity = sgd(W, np.zeros(2), np.zeros(2), 0.1, 0.9, 0.01)
    np.testing.assert_allclose(velocity, 0.01 * W)
    np.testing.assert_allclose(weight, W * (1 - 0.001))


def test_trust_ratio():
    assert trust_ratio(W, G, 0.001, 0.1) == pytest.approx(0.001 * 5 / (1 + 0.1 * 5))
    assert trust_ratio(W, G, 0.001, 0.0, epsilon=1.0) == pytest.approx(0.001 * 5 / 2)
    assert trust_ratio(np.zeros(2), G, 0.001, 0.1) == trust_ratio(W, np.zeros(2), 0.001, 0.1) == 1.0


def test_lars_applies_the_rate_inside_the_momentum():
    adapted, plain = ParameterRule(0.1, True), ParameterRule(0.0, False)
    weight, velocity = lars(W, np.zeros(2), G, 2.0, 0.9, 0.001, adapted, "inside")
    expected = 2.0 * trust_ratio(W, G, 0.001, 0.1) * (G + 0.1 * W)
    np.testing.assert_allclose(velocity, expected)
    np.testing.assert_allclose(weight, W - expected)
    _, later = lars(weight, velocity, G, 0.0, 0.9, 0.001, adapted, "inside")
    np.testing.assert_allclose(later, 0.9 * expected)
    _, bias = lars(W, np.zeros(2), G, 2.0, 0.9, 0.001, plain, "inside")
    np.testing.assert_allclose(bias, 2.0 * G)


WARM_UP = 200


def moved(lr_in_momentum, rates):
    """Return how far a weight has moved from 0 after steps with a constant update of 1."""
    settings = OptimizerSettings("lars", momentum=0.9, lr_in_momentum=lr_in_momentum)
    weight, velocity = np.zeros(1), np.zeros(1)
    for rate in rates:
        weight, velocity = with_momentum(
            settings, weight, velocity, np.array([-1.0]), rate, ParameterRule()
        )
    return float(weight[0])


def test_in_a_warm_up_momentum_with_the_rate_outside_moves_nine_percent_further():
    """Compare the learning rate inside and outside of the momentum during a warm-up.

    With momentum 0.9, a gradient is applied 9 steps late on average. If the rate rises over 200
    steps, this delay makes a difference of 2 · 9 / 200.
    """
    rates = [5.0 * step / WARM_UP for step in range(WARM_UP + 1)]
    inside, outside = moved(True, rates), moved(False, rates)
    assert outside / inside - 1 == pytest.approx(0.09, abs=0.005)
    # At a constant rate both are equal. If the rate falls slowly, they are almost equal.
    assert moved(True, [0.5] * 50) == pytest.approx(moved(False, [0.5] * 50), rel=1e-12)
    falling = [5.0 * (1 - step / 20_000) ** 2 for step in range(20_000)]
    assert abs(moved(True, falling) / moved(False, falling) - 1) < 0.002


@pytest.mark.parametrize("name", ["sgd", "lars"])
def test_the_rate_outside_equals_momentum_correction_by_the_ratio_of_rates(name):
    """Compare with the momentum correction of NVIDIA (common/fit.py of v0.6 and v0.7).

    v ← m · rate / last rate · v + rate · ratio · (g + d·w), w ← w - v
    """
    settings = OptimizerSettings(name, momentum=0.9, trust_coefficient=0.02)
    rule, draws = ParameterRule(0.05, lars_adapt=name == "lars"), np.random.default_rng(3)
    weight, velocity, theirs, buffer, last = W, np.zeros(2), W, np.zeros(2), None
    for rate in (0.1, 0.4, 0.02, 0.02, 1.0, 0.3):
        gradient = draws.normal(size=2)
        weight, velocity = with_momentum(settings, weight, velocity, gradient, rate, rule)
        ratio = trust_ratio(theirs, gradient, 0.02, 0.05) if rule.lars_adapt else 1.0
        buffer = 0.9 * rate / (last or rate) * buffer + rate * ratio * (gradient + 0.05 * theirs)
        theirs, last = theirs - buffer, rate
        np.testing.assert_allclose(weight, theirs, rtol=1e-12)
        np.testing.assert_allclose(rate * velocity, buffer, rtol=1e-12)


def test_sgd_with_the_rate_inside_equals_mxnets():
    """Compare with mxnet.nd.sgd_mom_update: v ← m·v - rate · (g + d·w), w ← w + v."""
    settings, rule = (
        OptimizerSettings("sgd", momentum=0.9, lr_in_momentum=True),
        ParameterRule(0.05),
    )
    weight, velocity, theirs, buffer = W, np.zeros(2), W, np.zeros(2)
    for rate in (0.1, 0.4, 0.02):
        weight, velocity = with_momentum(settings, weight, velocity, G, rate, rule)
        buffer = 0.9 * buffer - rate * (G + 0.05 * theirs)
        theirs = theirs + buffer
        np.testing.assert_allclose(weight, theirs, rtol=1e-12)


def test_adam_of_a_constant_gradient_moves_by_the_rate():
    """Check that m̂ / √v̂ = sign(g) in every step."""
    weight, mean, square, gradient = W, np.zeros(2), np.zeros(2), np.array([0.3, -4.0])
    for step in range(1, 8):
        weight, mean, square = adam(weight, mean, square, gradient, 0.1, step, (0.9, 0.999), 0.0)
        np.testing.assert_allclose(weight, W - step * 0.1 * np.sign(gradient), rtol=1e-12)
    np.testing.assert_allclose(mean, (1 - 0.9**7) * gradient, rtol=1e-12)
    np.testing.assert_allclose(square, (1 - 0.999**7) * gradient**2, rtol=1e-12)


def test_adamw_without_gradients_shrinks_the_weight_by_the_rate_times_the_decay():
    weight, mean, square = W, np.zeros(2), np.zeros(2)
    for step in range(1, 6):
        weight, mean, square = adamw(
            weight, mean, square, np.zeros(2), 0.1, step, (0.9, 0.95), 1e-5, decay=0.2
        )
    np.testing.assert_allclose(weight, W * (1 - 0.1 * 0.2) ** 5, rtol=1e-14)
    np.testing.assert_array_equal([mean, square], np.zeros((2, 2)))


def test_adamw_of_a_constant_gradient_decays_and_moves_by_the_rate():
    """Check w ← (1 - rate·d)·w - rate·sign(g) · |g| / (|g| + ε), because m̂ = g and √v̂ = |g|."""
    weight, mean, square, gradient = W, np.zeros(2), np.zeros(2), np.array([0.3, -4.0])
    expected = W
    for step in range(1, 8):
        weight, mean, square = adamw(
            weight, mean, square, gradient, 0.1, step, (0.9, 0.95), 1e-2, decay=0.2
        )
        expected = (1 - 0.1 * 0.2) * expected - 0.1 * gradient / (np.abs(gradient) + 1e-2)
        np.testing.assert_allclose(weight, expected, rtol=1e-12)
    np.testing.assert_allclose(square, (1 - 0.95**7) * gradient**2, rtol=1e-12)


def test_rmsprop_by_hand():
    weight, square = rmsprop(np.array([1.0]), np.array([4.0]), np.array([3.0]), 0.1, 0.9, 1e-7)
    expected = 0.9 * 4 + 0.1 * 9
    np.testing.assert_allclose(
        (weight, square), ([1 - 0.1 * 3 / (np.sqrt(expected) + 1e-7)], [expected]), rtol=1e-12
    )


def test_weight_decay_is_added_to_the_gradient():
    plain = adam(
        np.array([2.0]),
        np.zeros(1),
        np.zeros(1),
        np.array([0.5 + 0.1 * 2.0]),
        0.1,
        1,
        (0.9, 0.99),
        1e-8,
    )
    decayed = adam(
        np.array([2.0]),
        np.zeros(1),
        np.zeros(1),
        np.array([0.5]),
        0.1,
        1,
        (0.9, 0.99),
        1e-8,
        decay=0.1,
    )
    np.testing.assert_array_equal(plain, decayed)
    plain = rmsprop(np.array([2.0]), np.zeros(1), np.array([0.7]), 0.1, 0.9, 1e-7)
    decayed = rmsprop(np.array([2.0]), np.zeros(1), np.array([0.5]), 0.1, 0.9, 1e-7, decay=0.1)
    np.testing.assert_allclose(plain, decayed, rtol=1e-15)


def test_clipping_uses_the_norm_of_all_gradients():
    gradients = {"a": np.array([3.0, 0.0]), "b": np.array([[4.0]])}
    assert clip_factor(gradients, 1.0) == pytest.approx(0.2)
    assert clip_factor(gradients, 5.0) == clip_factor(gradients, 7.0) == 1.0
    assert clip_factor({"a": np.zeros(2)}, 1.0) == 1.0


def test_a_dynamic_scale_backs_off_and_grows():
    scale = LossScale(LossScaling("dynamic", start=8.0, growth_interval=2, maximum=16.0))
    clean, overflow = {"a": np.ones(2)}, {"a": np.ones(2), "b": np.array([np.inf])}
    taken, scales = [], []
    for gradients in (
        clean,
        overflow,
        clean,
        clean,
        clean,
        clean,
        clean,
        clean,
        {"a": np.array([np.nan])},
    ):
        taken.append(scale.update(gradients))
        scales.append(scale.scale)
    assert taken == [True, False, True, True, True, True, True, True, False]
    assert scales == [8, 4, 4, 8, 8, 16, 16, 16, 8]


def test_static_and_no_loss_scaling_apply_every_step():
    for scaling, scale in ((LossScaling(), 1.0), (LossScaling("static", 128.0), 128.0)):
        held = LossScale(scaling)
        assert held.update({"a": np.array([np.inf])})
        assert held.scale == scale


@pytest.mark.parametrize(("pieces", "fits"), [(1, True), (3, True), (4, False)])
def test_a_batch_that_cannot_be_split_is_rejected_in_one_line(pieces, fits):
    settings = OptimizerSettings("sgd", accumulation_steps=pieces)
    shapes = [{"token": ArraySpec((12, 8), "int32")}, {"token": ArraySpec((6, 16), "int32")}]
    workload = SimpleNamespace(optimizer=lambda: settings, shapes=lambda: shapes)
    if fits:
        assert Workload.update_settings(workload) is settings
        return
    message = (
        r"^accumulation_steps=4: a device's batch of 6 cannot be cut into 4 equal pieces. Set"
        r" batch=per_device:N .* 4$"
    )
    with pytest.raises(ValueError, match=message):
        Workload.update_settings(workload)
