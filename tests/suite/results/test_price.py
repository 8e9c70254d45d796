"""What a result costs."""

import pytest

from suite.results.price import parse_prices
from suite.results.text import cost_text
from tests.suite.results.rows import make_result


@pytest.mark.parametrize(
    ("prices", "name", "cost"),
    [
        *[("2.5", "A100", 4 * 0.5 * 2.5), ("h100=2", "A100", None), ("1,V100=2,V100-SXM3=3", "A100", 2.0)],
        *[("1,V100=2,V100-SXM3=3", "Tesla V100-SXM3-32GB", 6.0), ("1,V100=2,V100-SXM3=3", "Tesla V100-PCIe", 4.0)],
    ],
)
def test_cost_is_devices_times_hours_times_price(prices, name, cost):
    assert parse_prices(prices).cost(make_result(4, [(1800.0, 10.0)], device_name=name)) == cost


@pytest.mark.parametrize("text", ["", "free", "-1", "0", "nan", "inf", "1e9", "=2", "a=b", "1,,2", "9" * 20])
def test_other_prices_are_one_line(text):
    with pytest.raises(ValueError, match=r"\A[^\n]*such as 2\.5, or v100=2\.48,a100=4\.10\Z"):
        parse_prices(text)


def test_a_device_that_nothing_ran_on_is_one_line():
    with pytest.raises(ValueError, match="h100=…: no device has it in its name; there are: Some CPU"):
        parse_prices("h100=3").refuse_unknown_names([make_result()])


def test_small_costs_keep_their_digits():
    assert [cost_text(value) for value in (1234.5, 2.0, 0.01234)] == ["1,234.50", "2.00", "0.0123"]
