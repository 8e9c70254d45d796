"""Runs of a workload that counts training in samples, from training to the report."""

import csv
import io
import json

import pytest

from suite.results.logs.reader import read
from suite.worker.runlog import SEARCHED_TEXTS
from tests.helpers import PROJECT, events, only, run_suite_here, suite_here

DATA = PROJECT / "tests" / "data"
RUN = ("workload=toy_samples", "framework=plain", "profile=demo", "seed=1")
ENV = {"PYTHONPATH": f"{PROJECT}:{DATA / 'toy'}:{DATA / 'toy_loss'}"}
SAMPLES = 1000
"""Samples in an epoch of the toy, which has no smaller last batch."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    run_suite_here(folder, *RUN, "output=logs/run", toy=True, exits=0, **ENV)
    return folder


def log_of(folder):
    return only((folder / "logs" / "run").glob("*/run_0/result_0.txt"))


def test_blocks_and_evaluations_have_the_samples_trained_so_far(folder):
    found = events(log_of(folder))
    epochs = [data["epoch_num"] for key, _, data in found if key == "eval_accuracy"]
    assert len(epochs) > 1
    for key, offset in (("block_start", -1), ("eval_start", 0), ("eval_accuracy", 0),
                        ("eval_stop", 0), ("block_stop", 0)):  # fmt: skip
        counts = [data["samples_count"] for name, _, data in found if name == key]
        assert counts == [(epoch + offset) * SAMPLES for epoch in epochs], key


def test_record_counts_the_samples_to_the_target(folder):
    record = read(log_of(folder))
    assert (record.settings.epoch_unit, record.status, record.problems) == (
        "samples",
        "success",
        (),
    )
    samples = len(record.evaluations) * SAMPLES
    assert (record.epochs_to_target, record.epochs_trained) == (samples, samples)
    assert record.epochs_at(record.evaluations[0]) == SAMPLES


@pytest.mark.parametrize("value", [None, "many", -5])
def test_evaluation_without_a_sample_count_has_no_samples_to_target(folder, tmp_path, value):
    lines = log_of(folder).read_text().splitlines()
    last = max(number for number, line in enumerate(lines) if '"eval_accuracy"' in line)
    event = json.loads(lines[last].removeprefix(":::MLLOG "))
    event["metadata"]["samples_count"] = value
    lines[last] = f":::MLLOG {json.dumps(event)}"
    changed = tmp_path / "result_0.txt"
    changed.write_text("\n".join(lines) + "\n")
    record = read(changed)
    assert (record.status, record.epochs_to_target) == ("success", None)
    assert [problem.text for problem in record.problems] == [
        "no sample count: an evaluation has no samples_count, or the counts fall"
    ]


def test_no_line_contains_a_text_that_the_rcp_checker_searches(folder):
    """Check every line, and the settings, whose content includes `global_batch_size`."""
    for line in log_of(folder).read_text().splitlines():
        event = json.loads(line.removeprefix(":::MLLOG "))
        assert [text for text in SEARCHED_TEXTS if text in line and text != event["key"]] == []
    (suite_run,) = [value for key, value, _ in events(log_of(folder)) if key == "suite_run"]
    assert suite_run["global_batch_size"] > 0


def test_report_shows_the_samples_to_the_target(folder):
    (row,) = csv.DictReader(
        io.StringIO(suite_here(folder, "report", "logs", "--format", "csv", exits=0).stdout)
    )
    samples = len(read(log_of(folder)).evaluations) * SAMPLES
    assert (float(row["epochs"]), row["epoch_unit"]) == (samples, "samples")
