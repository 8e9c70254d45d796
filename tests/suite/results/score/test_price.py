"""Cost of a result: --price-per-device-hour of report, advise and published list."""

import csv
import io

import pytest

from suite.cli import main
from suite.results.score.price import cost_text, parse_prices
from tests.suite.results.fake_logs import write_run
from tests.suite.results.score.test_scaling import make_measurement


def test_cost_is_devices_times_hours_times_price():
    item = make_measurement(4, [(1800.0, 10.0)])
    assert parse_prices("2.5").cost(item) == pytest.approx(4 * 0.5 * 2.5)


def test_the_price_of_a_name_goes_before_the_general_one():
    prices = parse_prices("1,V100=2,V100-SXM3=3")
    costs = {
        name: prices.cost(make_measurement(1, [(3600.0, 1.0)], hardware=name))
        for name in ("Tesla V100-SXM3-32GB", "Tesla V100-PCIe", "A100")
    }
    assert costs == {"Tesla V100-SXM3-32GB": 3.0, "Tesla V100-PCIe": 2.0, "A100": 1.0}
    assert parse_prices("h100=2").cost(make_measurement(1, hardware="A100")) is None


@pytest.mark.parametrize("text", ["", "free", "-1", "0", "nan", "inf", "1e9", "=2", "a=b", "1,,2", "9" * 20])
def test_other_prices_are_one_line(text):
    with pytest.raises(ValueError, match=r"such as 2\.5, or v100=2\.48,a100=4\.10") as caught:
        parse_prices(text)
    assert "\n" not in str(caught.value)


@pytest.fixture
def logs(tmp_path):
    for devices in (1, 2):
        write_run(tmp_path, f"{devices}", devices=devices, seconds_per_epoch=1200.0)
    return tmp_path


def said(capsys, *arguments):
    code = main([*map(str, arguments)])
    done = capsys.readouterr()
    return code, done.out, done.err


def test_report_and_advise_say_the_cost(logs, capsys):
    _, text, _ = said(capsys, "report", logs, "--price-per-device-hour", "3")
    assert " 6.00 |" in text
    assert "cost of one result = devices × hours to target × price" in text
    _, table, _ = said(capsys, "report", logs, "--format", "csv", "--price-per-device-hour", "3")
    assert [row["cost_per_result"] for row in csv.DictReader(io.StringIO(table))] == ["3.0", "6.0"]
    _, advice, _ = said(capsys, "advise", logs, "--price-per-device-hour", "some cpu=3")
    assert "- lowest cost: 1 device, 3.00 a job" in advice


def test_published_results_have_a_cost(capsys):
    wanted = ("published", "list", "--round", "v0.7", "--workload", "ssd", "--chips", "8")
    _, text, _ = said(capsys, *wanted, "--price-per-device-hour", "v100=2.48,a100=4.1")
    assert "| A100        | 5.58 |" in text
    _, table, _ = said(capsys, *wanted, "--format", "csv", "--price-per-device-hour", "2")
    assert all(float(row["cost"]) > 1 for row in csv.DictReader(io.StringIO(table)))


def test_a_device_that_nothing_ran_on_is_one_line(logs, capsys):
    code, _, error = said(capsys, "report", logs, "--price-per-device-hour", "h100=3")
    assert code == 2
    assert "h100=…: no device has it in its name; there are: Some CPU" in error


def test_small_costs_keep_their_digits():
    assert [cost_text(value) for value in (1234.5, 2.0, 0.01234)] == ["1,234.50", "2.00", "0.0123"]
