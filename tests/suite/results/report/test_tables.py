"""What a table of results says beside its numbers: runs, deviations, explanations of its columns."""

import csv
import io
from dataclasses import replace

import pytest

from suite.results.compare.differences import differences
from suite.results.compare.entries import Entry
from suite.results.html.runs import run_views
from suite.results.logs.collect import collect
from suite.results.report.report import report_csv, report_text
from suite.results.score.groups import rows
from suite.results.score.measurement import measurements
from tests.suite.results.fake_logs import write_run


def test_a_table_of_fixed_length_explains_no_column_that_it_does_not_have(tmp_path):
    for index in range(2):
        write_run(tmp_path / "fixed", "a", index, stop="epochs:2", qualities=(None, None))
        write_run(tmp_path / "timed", "a", index)
    assert "spread: fastest" in report_text([tmp_path / "timed"])
    assert "spread" not in report_text([tmp_path / "fixed"])


@pytest.mark.parametrize("profile", ["demo", "synthetic"])
def test_no_number_of_demo_or_synthetic_runs_is_asked_for(tmp_path, profile):
    write_run(tmp_path, "a", profile=profile)
    (line,) = csv.DictReader(io.StringIO(report_csv([tmp_path])))
    assert (line["runs_successful"], line["runs_required"], line["score_notes"]) == ("1", "", "")
    item = measurements(rows(collect([tmp_path])))[0]
    other = replace(item, score=replace(item.score, runs_successful=2))
    (found,) = differences(Entry(item, ""), Entry(other, "")).known
    assert (found.name, found.ours, found.theirs) == ("runs", "1", "2")


def test_deviations_stand_in_full(tmp_path):
    deviations = [f"setting_{number:02} {number}, not {number + 1}" for number in range(40)]
    write_run(tmp_path, "a", deviations=deviations)
    assert f"leaves the closed rules: {'; '.join(deviations)}" in " ".join(report_text([tmp_path]).split())
    write_run(tmp_path, "b", devices=2, deviations=["a long deviation " * 20])
    assert f"leaves the closed rules: {'a long deviation ' * 20}".strip() in " ".join(report_text([tmp_path]).split())
    (run, *_) = run_views(collect([tmp_path]))
    assert dict(dict(run.lists)["Settings"])["deviations"] == "; ".join(deviations)
