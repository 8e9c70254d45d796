"""Cost of results: price lists, costs of runs, and unused prices."""

import pytest

from suite.results.price import parse_prices
from suite.results.text import cost_text
from testing.fake_logs import write_run
from tests.helpers import refusal, suite_here
from tests.suite.results.rows import make_result


@pytest.mark.parametrize(
    ("prices", "name", "cost"),
    [
        ("2.5", "A100", 4 * 0.5 * 2.5),
        ("h100=2", "A100", None),
        ("1,V100=2,V100-SXM3=3", "A100", 2.0),
        ("1,V100=2,V100-SXM3=3", "Tesla V100-SXM3-32GB", 6.0),
        ("1,V100=2,V100-SXM3=3", "Tesla V100-PCIe", 4.0),
    ],
)
def test_cost_is_devices_times_hours_times_price(prices, name, cost):
    assert parse_prices(prices).cost(make_result(4, [(1800.0, 10.0)], device_name=name)) == cost


@pytest.mark.parametrize(
    "text", ["", "free", "-1", "0", "nan", "inf", "1e9", "=2", "a=b", "1,,2", "9" * 20]
)
def test_an_invalid_price_list_is_rejected_in_one_line(text):
    with pytest.raises(ValueError, match=r"\A[^\n]*such as 2\.5, or v100=2\.48,a100=4\.10\Z"):
        parse_prices(text)


@pytest.mark.parametrize("text", ["v100=2,V100=3", "v100=2, v100 =2", "2.5,3", "1,a100=2,1"])
def test_two_prices_of_one_name_are_rejected(text):
    with pytest.raises(ValueError, match=r"\A[^\n]*two prices[^\n]*Give each name once"):
        parse_prices(text)


def test_a_price_list_may_name_devices_that_the_report_does_not_have():
    results = [make_result(), make_result(device_name="Tesla V100-SXM2-16GB")]
    assert parse_prices("2.5").unused_notes(results) == ()
    assert parse_prices("v100=2,some=1").unused_notes(results) == ()
    (note,) = parse_prices("v100=2,a100=4,h100=8").unused_notes(results)
    assert "a100=…, h100=…: not used" in note or "h100=…, a100=…: not used" in note
    assert "the devices here are: Some CPU, Tesla V100-SXM2-16GB" in note
    (note,) = parse_prices("2.5,h100=8").unused_notes(results)
    assert "h100=…: not used" in note


@pytest.mark.parametrize("prices", ["h100=3", "h100=3,b200=9"])
def test_a_price_list_without_any_device_of_the_report_is_rejected(prices):
    with pytest.raises(
        ValueError, match="no device has any of these names; the devices here are: Some CPU"
    ):
        parse_prices(prices).unused_notes([make_result()])


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("report", ()),
        ("report", ("--html", "page.html")),
        ("advise", ()),
        ("report", ("--format", "csv")),
    ],
)
def test_commands_accept_a_price_list_and_print_unused_prices(tmp_path, command, more):
    write_run(tmp_path / "logs", "ncf-1", device_name="Some CPU")
    done = suite_here(
        tmp_path, command, "logs", "--price-per-device-hour", "some cpu=2,h100=8", *more, exits=0
    )
    assert f"suite {command}: note: --price-per-device-hour h100=…: not used" in done.stderr
    line = refusal(suite_here(tmp_path, command, "logs", "--price-per-device-hour", "h100=8"))
    assert "no device has any of these names; the devices here are: Some CPU" in line


def test_published_results_and_predictions_accept_a_price_list(tmp_path):
    for arguments in (
        ("published", "list", "--round", "v0.7", "--workload", "resnet50"),
        ("scaling", "--published", "v0.7/NVIDIA", "--workload", "resnet50", "--devices", "64"),
    ):
        done = suite_here(
            tmp_path, *arguments, "--price-per-device-hour", "a100=4,b300=20", exits=0
        )
        assert "note: --price-per-device-hour b300=…: not used" in done.stderr


def test_small_costs_keep_their_digits():
    assert [cost_text(value) for value in (1234.5, 2.0, 0.01234)] == ["1,234.50", "2.00", "0.0123"]
