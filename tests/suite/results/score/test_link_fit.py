"""Latency and bandwidth from times of all-reduces: constants that made the times come out again."""

import math

import pytest

from suite.results.logs.all_reduce import AllReduce, SizeTimes
from suite.results.score.link_fit import fit_link

ALPHA, BANDWIDTH = 5e-6, 12e9
SIZES = [1024 * 4**power for power in range(11)]


def sums(devices, factor=lambda size: 1.0, sizes=SIZES, alpha=ALPHA):
    def seconds(size):
        return (2 * (devices - 1) * alpha + 2 * (devices - 1) / devices * size / BANDWIDTH) * factor(size)

    return AllReduce(devices, tuple(SizeTimes(size, 20, seconds(size), seconds(size)) for size in sizes))


@pytest.mark.parametrize("counts", [(2,), (8,), (2, 4, 8)])
def test_the_constants_come_out_whatever_the_devices(counts):
    fit = fit_link([sums(devices) for devices in counts])
    assert fit.alpha_seconds == pytest.approx(ALPHA)
    assert fit.bytes_per_second == pytest.approx(BANDWIDTH)
    assert fit.largest_deviation == pytest.approx(0.0, abs=1e-9)


def test_errors_and_deviation_follow_the_noise():
    fit = fit_link([sums(2, lambda size: 1.1 if math.log(size, 4) % 2 < 0.5 else 0.9)])
    assert abs(fit.alpha_seconds - ALPHA) < 3 * fit.alpha_error
    assert abs(fit.bytes_per_second - BANDWIDTH) < 3 * fit.bandwidth_error
    assert 0.03 < fit.bandwidth_error / fit.bytes_per_second < 0.1, "10 % over the root of the sizes that tell it"
    assert 0.08 < fit.largest_deviation < 0.2


def test_two_sizes_have_no_error_and_one_no_line():
    fit = fit_link([sums(2, sizes=SIZES[:2])])
    assert (fit.alpha_error, fit.bandwidth_error) == (None, None)
    assert fit_link([sums(2, sizes=SIZES[:1])]) is None
    assert fit_link([]) is None


def test_a_latency_below_zero_is_taken_as_none():
    """Larger buffers leave a cache and take longer for each byte."""
    fit = fit_link([sums(2, lambda size: 1 + size / SIZES[-1], alpha=0.0)])
    assert fit.alpha_seconds == 0.0
    assert BANDWIDTH / 2 < fit.bytes_per_second <= BANDWIDTH


def test_time_that_does_not_grow_gives_no_link():
    flat = AllReduce(2, tuple(SizeTimes(size, 20, 1e-3 / (1 + size), 1e-3) for size in SIZES))
    assert fit_link([flat]) is None
