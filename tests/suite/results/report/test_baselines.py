"""Ratios across tables: to the CPU, to one device, to another framework; what else differs is said."""

import csv
import io

import pytest

from suite.results.report.baselines import parse_baseline
from suite.results.report.report import report_csv, report_text
from tests.helpers import suite_here
from tests.suite.results.fake_logs import write_run

FIXED = {"stop": "steps:10", "qualities": (None,)}


def ratios(root, against):
    text = report_text([root], None, parse_baseline(against))
    section = text[text.index("## Against") :].split("\n## ")[0]
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("| ncf")
    ]
    return {tuple(cells[2:5]): cells[-1] for cells in lines}, section


def test_gpus_over_a_cpu(tmp_path):
    write_run(tmp_path, "cpu", samples=1000, **FIXED)
    for count, samples in ((1, 5300), (4, 19_700)):
        write_run(tmp_path, f"gpu{count}", samples=samples, device="cuda", device_name="P100", devices=count, labels=["demo"],
                  cores_per_device=0, **FIXED)  # fmt: skip
    found, section = ratios(tmp_path, "device=cpu")
    assert found == {
        ("pytorch", "cpu", "1"): "1.00",
        ("pytorch", "cuda", "1"): "5.30",
        ("pytorch", "cuda", "4"): "19.70",
    }
    assert "(a)" not in section


def test_time_to_target_over_one_device_and_what_else_differs(tmp_path):
    write_run(tmp_path, "one", seconds_per_epoch=8.0)
    write_run(tmp_path, "two", seconds_per_epoch=4.0, devices=2, precision="bf16")
    found, section = ratios(tmp_path, "gpus=1")
    assert found == {("pytorch", "cpu", "1"): "1.00", ("pytorch", "cpu", "2"): "2.00 (a)"}
    assert "(a) precision bf16, of the other fp32" in section


def test_labels_of_both_results_stand_with_the_ratio(tmp_path):
    busy = {"busy": ["others took 48 % of its cores"]}
    write_run(tmp_path, "one", condition=busy)
    write_run(tmp_path, "two", devices=2, labels=["demo", "cpu", "oversubscribed"])
    found, section = ratios(tmp_path, "gpus=1")
    assert found == {("pytorch", "cpu", "1"): "1.00 (a)", ("pytorch", "cpu", "2"): "1.00 (b) (c)"}
    assert "(a) busy machine: others took 48 % of its cores" in section
    assert "(b) oversubscribed" in section
    assert "(c) the other: busy machine: others took 48 % of its cores" in section


def test_other_work_is_not_divided(tmp_path):
    write_run(tmp_path, "a", framework="pytorch", samples=1000, **FIXED)
    write_run(tmp_path, "b", framework="mxnet", samples=500, **FIXED)
    write_run(tmp_path, "c", framework="tensorflow", samples=500, mode="forward", **FIXED)
    found, section = ratios(tmp_path, "framework=pytorch")
    assert {key[0]: value for key, value in found.items()} == {
        "pytorch": "1.00",
        "mxnet": "0.50",
        "tensorflow": "– (a)",
    }
    assert "(a) there is no such result to divide by" in section


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("devices=1", "--baseline=devices: allowed: device, framework, gpus"), ("gpus", "type a value too"),
     ("gpus=3", "--baseline gpus=3: allowed: 1"), ("framework=jax", "allowed: pytorch")],
)  # fmt: skip
def test_a_wrong_baseline_is_one_line(tmp_path, typed, expected):
    write_run(tmp_path, "one")
    done = suite_here(tmp_path, "report", tmp_path, "--baseline", typed)
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_csv_has_what_was_recorded(tmp_path):
    folder = write_run(tmp_path, "one", samples=1000, price_per_device_hour="3", **FIXED)
    (folder / "metrics.jsonl").write_text('{"memory_peak_bytes": 3000000000}\n')
    (row,) = csv.DictReader(io.StringIO(report_csv([tmp_path])))
    assert row["memory_gigabytes"] == "3.0"
    assert row["step_ms"] == str(1000 / 101)
    assert row["cost_per_million_samples"] == str(3 / 3600 * 1e6 / 1000)
    assert row["gpu_percent"] == row["step_ms_p99"] == ""
