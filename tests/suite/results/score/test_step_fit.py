"""step = t0 + c·b: found where it holds, with an error where it does not, and not where there is no line."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.results.score.step_fit import fit_steps
from tests.helpers import examples

BATCHES = (16, 32, 64, 128, 256, 512)


@examples(50)
@given(t0=st.floats(1e-5, 1.0), c=st.floats(1e-7, 1e-2))
def test_a_line_is_found(t0, c):
    fit = fit_steps([(batch, t0 + c * batch) for batch in BATCHES])
    assert fit.seconds(1000) == pytest.approx(t0 + c * 1000, rel=1e-6)
    assert fit.rate(64) == pytest.approx(64 / (t0 + c * 64), rel=1e-6)
    assert fit.largest_deviation < 1e-6


def test_the_error_is_that_of_weighted_least_squares():
    """Against NumPy's own: weights 1 / seconds, covariance scaled by the residuals."""
    random = np.random.default_rng(5)
    times = [(0.005 + 1e-4 * batch) * (1 + 0.05 * random.standard_normal()) for batch in BATCHES]
    fit = fit_steps(list(zip(BATCHES, times, strict=True)))
    (c, t0), covariance = np.polyfit(BATCHES, times, 1, w=1 / np.array(times), cov=True)
    assert (fit.t0, fit.c) == (pytest.approx(t0), pytest.approx(c))
    assert (fit.t0_error, fit.c_error) == (
        pytest.approx(covariance[1, 1] ** 0.5),
        pytest.approx(covariance[0, 0] ** 0.5),
    )
    deviations = [abs(fit.seconds(batch) / seconds - 1) for batch, seconds in zip(BATCHES, times, strict=True)]
    assert fit.largest_deviation == pytest.approx(max(deviations))
    assert 0.01 < fit.largest_deviation < 0.2


def test_errors_hold_the_truth_as_often_as_they_should():
    """In 68 % of 400 noisy series c is within one standard error (a t distribution of four degrees: 63 %)."""
    random, inside = np.random.default_rng(6), 0
    for _ in range(400):
        fit = fit_steps([(b, (0.01 + 1e-3 * b) * (1 + 0.02 * random.standard_normal())) for b in BATCHES])
        inside += abs(fit.c - 1e-3) < fit.c_error
    assert 0.55 < inside / 400 < 0.72


@pytest.mark.parametrize("points", [[], [(16, 0.1)], [(16, 0.1), (16, 0.2)], [(16, 0.0), (32, 0.1)]])
def test_no_line_without_two_batches(points):
    assert fit_steps(points) is None
