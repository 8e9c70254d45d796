"""A busy machine, from the log to every place that shows its numbers."""

import csv
import io

import pytest

from suite.results.compare.compare import compare
from suite.results.compare.entries import result_set_from_logs
from suite.results.compare.markdown import comparison_markdown
from suite.results.html.page import write_html
from suite.results.logs.collect import collect
from suite.results.logs.reader import read
from suite.results.logs.record import Condition
from suite.results.report.report import report_csv, report_text
from suite.results.score.condition import merged_labels
from suite.results.score.groups import rows
from suite.results.score.measurement import measurements
from tests.suite.results.fake_logs import demo_log, write, write_run

BUSY = {"busy": ["others took 48 % of its cores"], "seconds": 6.0, "cpu_share": 0.55, "others_share": 0.48}
WORSE = {"busy": ["others took 90 % of its cores"], "others_share": 0.9}
QUIET = {"busy": [], "seconds": 6.0, "cpu_share": 0.99, "others_share": 0.01}
LABEL = "busy machine: others took 48 % of its cores"


def runs(root, *conditions):
    for index, condition in enumerate(conditions):
        write_run(root, "job", index, start=1000 * index, condition=condition)
    return root


def condition_of(root):
    (row,) = rows(collect([root]))
    return row.condition


def test_a_log_says_it(tmp_path):
    record = read(write(tmp_path / "result_0.txt", demo_log(condition=BUSY))).record
    figures = {"seconds": 6.0, "cpu_share": 0.55, "others_share": 0.48}
    assert record.condition == Condition(("others took 48 % of its cores",), figures)
    assert "suite_condition" not in record.hyperparameters
    assert (record.status, record.seconds) == ("success", 6.0)
    assert read(write(tmp_path / "result_1.txt", demo_log())).record.condition is None


@pytest.mark.parametrize("value", ["busy", 1, ["busy"], {"busy": "yes"}, {"busy": [1, None], "others_share": "much"}])
def test_a_condition_of_another_form_says_nothing(tmp_path, value):
    found = read(write(tmp_path / "result_0.txt", demo_log(condition=value))).record.condition
    assert found in (None, Condition())


def test_equal_runs_stay_one_row_whatever_the_machine_did(tmp_path):
    assert condition_of(runs(tmp_path / "a", BUSY)) == LABEL
    assert condition_of(runs(tmp_path / "b", QUIET, BUSY, WORSE)) == (
        "busy machine (2 of 3 runs): others took 90 % of its cores"
    )
    assert condition_of(runs(tmp_path / "c", QUIET, QUIET)) == "not busy"
    assert condition_of(runs(tmp_path / "d", QUIET, None)) == ""
    assert condition_of(runs(tmp_path / "e", None, BUSY)) == "busy machine (1 of 2 runs): others took 48 % of its cores"


def test_the_label_stands_beside_the_numbers(tmp_path):
    root = runs(tmp_path / "logs", BUSY)
    assert LABEL in report_text([root])
    (line,) = csv.DictReader(io.StringIO(report_csv([root])))
    assert line["machine_condition"] == LABEL
    (item,) = measurements(rows(collect([root])))
    assert item.labels == ("cpu", "demo", LABEL)
    write_html([root], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count(LABEL) >= 3  # the card, the table, the run
    assert "<dt>cpu_share</dt><dd>0.55</dd>" in page


def test_a_machine_that_was_not_busy_has_no_label(tmp_path):
    root = runs(tmp_path / "logs", QUIET)
    write_html([root], tmp_path / "page.html")
    assert "busy machine" not in report_text([root]) + (tmp_path / "page.html").read_text()


def comparison(tmp_path, one, other):
    sets = (result_set_from_logs([runs(tmp_path / name, what)], name) for name, what in (("A", one), ("B", other)))
    return compare(*sets, [])


def test_it_differs_first_when_one_side_was_busy(tmp_path):
    found = comparison(tmp_path, BUSY, QUIET)
    (match,) = found.matches
    first, *rest = match.differences.known
    assert (first.name, first.ours, first.theirs) == ("machine", LABEL, "not busy")
    assert [item.name for item in rest] == []  # the label is no second difference
    page = comparison_markdown(found)
    assert page.index("| machine") < page.index("| time to target")
    assert f"A: cpu, demo, {LABEL}" in page


def test_both_quiet_is_no_difference_and_an_old_log_beside_a_busy_one_is_warned_of(tmp_path):
    (quiet,) = comparison(tmp_path / "1", QUIET, QUIET).matches
    assert quiet.differences.known == ()
    found = comparison(tmp_path / "2", BUSY, None)
    (old,) = found.matches
    assert (old.differences.known, old.differences.unknown) == ((), ())
    assert f"A: cpu, demo, {LABEL}" in old.caveats


def test_busy_machines_of_several_results_are_one_label():
    """Beside a speedup there is no room for the share of each; one share alone is told."""
    assert merged_labels(["cpu", LABEL, "demo", "cpu"]) == ("cpu", LABEL, "demo")
    assert merged_labels(["cpu", LABEL, "demo", LABEL]) == ("cpu", LABEL, "demo")
    assert merged_labels([LABEL, "cpu", "busy machine: others took 90 % of its cores"]) == ("busy machine", "cpu")
