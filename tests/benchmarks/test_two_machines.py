"""Rates and ideal times in the benchmark of two machines."""

import pytest

from benchmarks.two_machines import bits_per_second, ideal_seconds


@pytest.mark.parametrize(("text", "rate"), [("200mbit", 2e8), ("1gbit", 1e9), ("64kbit", 64e3)])
def test_rates_of_tc_are_parsed(text, rate):
    assert bits_per_second(text) == rate


@pytest.mark.parametrize("text", ["200", "mbit", "fastmbit", "1.5gbit", "200mb"])
def test_invalid_rates_are_refused(text):
    with pytest.raises(ValueError, match=rf"^--rate {text}: .*kbit, mbit, gbit.* such as 200mbit$"):
        bits_per_second(text)


def test_an_all_reduce_between_two_machines_sends_each_gradient_once():
    assert ideal_seconds(gradient_bytes=25_000_000, rate=200e6) == 1.0
