"""Runs of a workload whose target is reached from above, from training to the page."""

import csv
import io
import json

import pytest

from suite.results.logs.reader import read
from tests.helpers import PROJECT, events, only, run_suite_here, suite_here

DATA = PROJECT / "tests" / "data"
RUN = ("workload=toy_loss", "framework=plain", "profile=demo", "seed=1")
ENV = {"PYTHONPATH": f"{PROJECT}:{DATA / 'toy'}:{DATA / 'toy_loss'}"}
TARGET = 0.02


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("falling")
    done = run_suite_here(folder, *RUN, "output=logs/run", toy=True, exits=0, **ENV)
    (folder / "console.txt").write_text(done.stdout)
    return folder


def log_of(folder):
    return only((folder / "logs" / "run").glob("*/run_0/result_0.txt"))


def test_run_ends_at_first_evaluation_at_or_below_the_target(folder):
    values = [value for key, value, _ in events(log_of(folder)) if key == "eval_accuracy"]
    assert len(values) > 1
    assert all(value > TARGET for value in values[:-1])
    assert values[-1] <= TARGET
    assert "target error ≤ 0.02" in (folder / "console.txt").read_text()


def test_log_declares_falling_metrics_and_reader_needs_no_workload(folder):
    record = read(log_of(folder))
    assert record.settings.falling_metrics == ("error",)
    assert (record.status, record.problems) == ("success", ())
    values = [evaluation.quality["error"] for evaluation in record.evaluations]
    assert record.epochs_to_target == len(values)
    assert record.best_quality == {"error": min(values)}


def test_other_workloads_do_not_log_falling_metrics(tmp_path):
    run = ("workload=toy", *RUN[1:], "output=logs/run")
    run_suite_here(tmp_path, *run, toy=True, exits=0)
    (suite_run,) = [value for key, value, _ in events(log_of(tmp_path)) if key == "suite_run"]
    assert "falling_metrics" not in suite_run


def test_report_page_and_comparison_show_the_target_as_an_upper_bound(folder):
    assert "error ≤ 0.02" in suite_here(folder, "report", "logs", exits=0).stdout
    suite_here(folder, "report", "logs", "--html", "page.html", exits=0)
    page = (folder / "page.html").read_text()
    assert "error ≤ 0.02" in page
    assert "error ≥" not in page
    table = suite_here(folder, "report", "logs", "--format", "csv", exits=0).stdout
    (row,) = csv.DictReader(io.StringIO(table))
    assert float(row["quality"]) <= TARGET


def test_higher_quality_is_not_success(folder, tmp_path):
    """Change the last evaluation of a log to a value above the target."""
    lines = log_of(folder).read_text().splitlines()
    last = max(number for number, line in enumerate(lines) if '"eval_accuracy"' in line)
    record = json.loads(lines[last].removeprefix(":::MLLOG "))
    record["value"] = TARGET + 1e-7
    lines[last] = f":::MLLOG {json.dumps(record)}"
    changed = tmp_path / "result_0.txt"
    changed.write_text("\n".join(lines) + "\n")
    assert read(changed).status != "success"
