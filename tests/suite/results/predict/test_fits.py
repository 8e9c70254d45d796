"""Linear fits to the times of steps and of all-reduces, and their errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.results.logs.all_reduce import AllReduceTime, SizeTimes
from suite.results.predict.fits import fit_link, fit_steps
from tests.helpers import examples

BATCHES = (16, 32, 64, 128, 256, 512)
SIZES = [1024 * 4**power for power in range(11)]


@examples(50)
@given(t0=st.floats(1e-5, 1.0), c=st.floats(1e-7, 1e-2))
def test_an_exact_line_is_recovered(t0, c):
    fit = fit_steps([(batch, t0 + c * batch) for batch in BATCHES])
    assert (fit.seconds(1000), fit.rate(64)) == pytest.approx(
        (t0 + c * 1000, 64 / (t0 + c * 64)), rel=1e-6
    )
    assert fit.largest_deviation < 1e-6


def test_errors_agree_with_weighted_least_squares_of_numpy():
    """NumPy uses weights 1 / seconds and a covariance scaled by the residuals."""
    random = np.random.default_rng(5)
    times = [(0.005 + 1e-4 * batch) * (1 + 0.05 * random.standard_normal()) for batch in BATCHES]
    fit = fit_steps(list(zip(BATCHES, times, strict=True)))
    (c, t0), covariance = np.polyfit(BATCHES, times, 1, w=1 / np.array(times), cov=True)
    assert (fit.t0, fit.c) == pytest.approx((t0, c))
    assert (fit.t0_error, fit.c_error) == pytest.approx(tuple(np.sqrt(np.diag(covariance))[::-1]))


@pytest.mark.parametrize(
    "points", [[], [(16, 0.1)], [(16, 0.1), (16, 0.2)], [(16, 0.0), (32, 0.1)]]
)
def test_a_fit_needs_two_different_batches_and_positive_times(points):
    assert fit_steps(points) is None


def sums(devices, sizes=SIZES, alpha=5e-6, factor=lambda size: 1.0):
    def seconds(size):
        return (2 * (devices - 1) * alpha + 2 * (devices - 1) / devices * size / 12e9) * factor(
            size
        )

    return AllReduceTime(
        devices, tuple(SizeTimes(size, 20, seconds(size), seconds(size)) for size in sizes)
    )


@pytest.mark.parametrize("counts", [(2,), (8,), (2, 4, 8)])
def test_latency_and_bandwidth_are_recovered_for_any_device_counts(counts):
    fit = fit_link([sums(devices) for devices in counts])
    assert (fit.alpha_seconds, fit.bytes_per_second) == pytest.approx((5e-6, 12e9))


def test_a_link_needs_two_sizes_and_times_that_grow():
    assert fit_link([sums(2, SIZES[:2])]).alpha_error is None
    flat = AllReduceTime(2, tuple(SizeTimes(size, 20, 1e-3, 1e-3 / (1 + size)) for size in SIZES))
    assert [fit_link(measured) for measured in ([], [sums(2, SIZES[:1])], [flat])] == [None] * 3
    # Larger messages take longer per byte.
    cached = fit_link([sums(2, alpha=0.0, factor=lambda size: 1 + size / SIZES[-1])])
    assert (cached.alpha_seconds, 6e9 < cached.bytes_per_second <= 12e9) == (0.0, True)
