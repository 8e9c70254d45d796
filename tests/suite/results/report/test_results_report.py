import argparse
import csv
import io
import json

import pytest

from suite.commands import report
from suite.results.logs.collect import collect
from suite.results.report.report import CSV_COLUMNS, report_csv, report_text
from suite.results.score.groups import rows
from suite.results.text import clean, csv_cell, markdown_cell
from tests.suite.results.fake_logs import write, write_run

FAILED = {"status": "oom", "reason": "process 0: out of memory", "workload": "ncf", "devices": 1}


def table(root):
    return rows(collect([root]))


def sweep(root, **options):
    """One device: 6 s and 3 epochs; two: 3 s and 2 epochs of 1.5 s; four: 2 s and 2 epochs of 1 s."""
    write_run(root, "ncf-1", qualities=(0.3, 0.5, 0.65), seconds_per_epoch=2.0, devices=1, samples=100, **options)
    write_run(root, "ncf-2", qualities=(0.5, 0.65), seconds_per_epoch=1.5, devices=2, samples=160, **options)
    write_run(root, "ncf-4", qualities=(0.5, 0.65), seconds_per_epoch=1.0, devices=4, samples=240, **options)


def test_speedup_is_throughput_times_efficiency(tmp_path):
    sweep(tmp_path)
    one, two, four = table(tmp_path)
    assert (one.speedup.total, one.speedup.throughput, one.speedup.efficiency) == (1.0, 1.0, 1.0)
    assert two.speedup.total == pytest.approx(6 / 3)
    assert two.speedup.throughput == pytest.approx(2.0 / 1.5)
    assert two.speedup.efficiency == pytest.approx(3 / 2)
    assert four.speedup.total == pytest.approx(3.0)
    for row in (two, four):
        assert row.speedup.total == pytest.approx(row.speedup.throughput * row.speedup.efficiency, rel=1e-12)
        assert row.speedup.baseline_devices == 1
    assert [row.score.samples_per_second for row in (one, two, four)] == [100, 160, 240]


def test_factors_multiply_over_uneven_runs(tmp_path):
    for index, (epochs, seconds) in enumerate([(3, 2.0), (5, 2.5), (4, 2.25), (9, 1.75), (6, 3.0)]):
        write_run(tmp_path, "a", index, qualities=[0.1] * (epochs - 1) + [0.65], seconds_per_epoch=seconds, devices=1)
        write_run(tmp_path, "b", index, qualities=[0.1] * epochs + [0.65], seconds_per_epoch=seconds / 3, devices=4)
    one, four = table(tmp_path)
    times = sorted([6.0, 12.5, 9.0, 15.75, 18.0])[1:-1]
    assert one.score.seconds == pytest.approx(sum(times) / 3)
    assert one.score.epochs == pytest.approx((4 + 5 + 9) / 3)
    assert four.speedup.total == pytest.approx(four.speedup.throughput * four.speedup.efficiency, rel=1e-12)
    assert four.speedup.total == pytest.approx(one.score.seconds / four.score.seconds, rel=1e-12)


def test_strong_and_weak_scaling_never_mix(tmp_path):
    write_run(tmp_path, "a", devices=1, batch_rule="set")
    write_run(tmp_path, "b", devices=4, batch_rule="per_device:4096", batch_size_global=16384)
    assert all(row.speedup.baseline_devices == row.group.devices for row in table(tmp_path))
    write_run(tmp_path, "c", devices=1, batch_rule="per_device:4096", batch_size_global=4096)
    weak = [row for row in table(tmp_path) if row.group.batch_rule == "per_device:4096"]
    assert [row.speedup.baseline_devices for row in weak] == [1, 1]


@pytest.mark.parametrize(
    "other",
    [
        {"profile": "reference", "labels": []},
        {"profile": "synthetic", "labels": ["synthetic"]},
        {"framework": "mxnet"},
        {"system": "server"},
        {"precision": "bf16"},
        {"clock": "v0.7"},
        {"hyperparameter_set": "nvidia"},
        {"data_fingerprint": "fedcba"},
        {"targets": {"hr_at_10": 0.6}},
        {"lr_scaling": "linear"},
        {"stop": "epochs:3"},
        {"device_name": "Other CPU"},
        {"cores_per_device": 2},
        {"update": "async"},
        {"straggler_ms": 50},
        {"labels": ["demo", "cpu", "counts differ from the published data set"]},
    ],
)
def test_what_is_not_alike_is_neither_averaged_nor_compared(tmp_path, other):
    write_run(tmp_path, "a", 0, devices=1)
    write_run(tmp_path, "a", 1, devices=1, **other)
    write_run(tmp_path, "b", 0, devices=2, **other)
    found = table(tmp_path)
    assert len(found) == 3
    assert all(row.score.runs_successful == 1 for row in found)
    assert sorted(row.speedup.baseline_devices for row in found) == [1, 1, 1]
    two = next(row for row in found if row.group.devices == 2)
    base = next(row for row in found if row.group.devices == 1 and row.group.family == two.group.family)
    assert base.group != two.group


def test_two_settings_on_one_device_compare_with_their_like_only(tmp_path):
    write_run(tmp_path, "a", devices=1, seconds_per_epoch=4.0, keys={"opt_base_learning_rate": 0.001})
    write_run(tmp_path, "b", devices=1, seconds_per_epoch=2.0, keys={"opt_base_learning_rate": 0.002})
    write_run(tmp_path, "c", devices=2, seconds_per_epoch=1.0, keys={"opt_base_learning_rate": 0.002})
    write_run(tmp_path, "d", devices=2, seconds_per_epoch=1.0, keys={"opt_base_learning_rate": 0.003})
    found = {
        (row.group.devices, dict(row.group.hyperparameters)["opt_base_learning_rate"]): row for row in table(tmp_path)
    }
    assert found[2, "0.002"].speedup.total == pytest.approx(2.0)
    assert found[2, "0.003"].speedup is None
    text = report_text([tmp_path])
    assert "| base_learning_rate=0.001 |" in text
    assert "| base_learning_rate=0.003 |" in text


def test_fixed_length_runs_have_a_throughput_only(tmp_path):
    sweep(tmp_path, stop="epochs:2")
    one, two, _ = table(tmp_path)
    assert (two.speedup.total, two.speedup.efficiency) == (None, None)
    assert two.speedup.throughput == pytest.approx(1.6)
    text = report_text([tmp_path])
    assert "minutes" not in text
    assert "throughput, train, epochs:2" in text
    assert one.score.runs_required is None


def test_failures_are_counted_and_listed(tmp_path):
    for index in range(3):
        write_run(tmp_path, "ncf-1", index)
    write_run(tmp_path, "ncf-1", 3, qualities=(0.3,), status={"status": "target_missed", "reason": "after 101 steps"})
    write_run(tmp_path, "ncf-1", 4, log=False, status=FAILED)
    write_run(tmp_path, "ncf-2", 0, log=False, status={**FAILED, "status": "hung", "reason": "no progress"})
    write_run(tmp_path, "ncf-3", 0, log=False, status={"status": "running", "reason": ""})
    (row,) = table(tmp_path)
    assert (row.score.runs_successful, row.score.runs_failed, row.score.runs_required) == (3, 2, None)
    text = report_text([tmp_path])
    assert "| 3, 2 failed |" in text
    listed = [line.split("|")[1:4] for line in text.splitlines() if line.startswith("| ncf-")]
    assert [[cell.strip() for cell in line] for line in listed] == [
        ["ncf-1/run_3", "target_missed", "after 101 steps"],
        ["ncf-1/run_4", "oom", "process 0: out of memory"],
        ["ncf-2/run_0", "hung", "no progress"],
        ["ncf-3/run_0", "running", "has not ended yet, or its controller was killed"],
    ]


def test_a_log_that_still_grows_is_no_broken_one(tmp_path):
    write_run(tmp_path, "ncf-1", 0)
    folder = write_run(tmp_path, "ncf-2", 0, status={"status": "running", "reason": ""})
    log = folder / "result_0.txt"
    kept = [line for line in log.read_text(encoding="utf-8").splitlines() if "run_stop" not in line]
    log.write_text("\n".join(kept) + "\n", encoding="utf-8")
    text = report_text([tmp_path])
    _, listed = text.split("## Runs that have not ended")
    assert "| ncf-2/run_0 | running | has not ended yet, or its controller was killed |" in listed
    assert "## Runs without success" not in text
    assert "could not be read" not in text


@pytest.mark.parametrize("below", ["", "ncf-1", "ncf-1/run_0"])
def test_a_failed_run_is_named_by_job_and_run(tmp_path, below):
    write_run(tmp_path, "ncf-1", 0, log=False, status=FAILED)
    assert "| ncf-1/run_0 | oom " in report_text([tmp_path / below])


def test_a_long_name_keeps_its_end(tmp_path):
    write_run(tmp_path, "ncf-" + "x" * 100, 7, log=False, status=FAILED)
    assert "xxx/run_7 | oom " in report_text([tmp_path])


def test_a_run_that_failed_early_belongs_to_the_runs_like_it(tmp_path):
    write_run(tmp_path, "ncf-1", 0)
    log = write_run(tmp_path, "ncf-1", 1) / "result_1.txt"
    log.write_text("\n".join(log.read_text().splitlines()[:8]))  # cut off after run_start
    (row,) = table(tmp_path)
    assert (row.score.runs_successful, row.score.runs_failed) == (1, 1)


def test_the_log_wins_over_the_status_file(tmp_path):
    write_run(tmp_path, "ncf-1", 0, status={"status": "hung", "reason": "while leaving"})
    (row,) = table(tmp_path)
    assert (row.score.runs_successful, row.score.runs_failed) == (1, 0)


def test_demo_report_reads_well(tmp_path):
    sweep(tmp_path)
    write_run(tmp_path, "ncf-1", 1, seconds_per_epoch=2.2, devices=1, samples=100)
    text = report_text([tmp_path])
    lines = text.splitlines()
    assert "Not verified by MLCommons Association." in lines
    assert any("demo and no MLPerf result" in line for line in lines)
    assert "## ncf on laptop (demo)" in lines
    assert max(len(line) for line in lines) <= 120
    start = next(index for index, line in enumerate(lines) if line.startswith("| framework | devices"))
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start : start + 5]]
    assert cells[0] == [
        *("framework", "devices", "runs", "time", "spread", "epochs", "samples/s"),
        *("speedup", "= throughput", "× efficiency"),
    ]
    first = [
        "pytorch",
        "1",
        "2",
        "6.3 s",
        "6.0–6.6 ±0.4 s",
        "3.0",
        "100",
        "1.00",
        "1.00",
        "1.00",
    ]
    assert cells[2] == first
    assert cells[3][:4] == ["pytorch", "2", "1", "3.0 s"]
    assert len({len(line) for line in lines[start : start + 5]}) == 1


def test_epochs_of_other_seeds_are_not_credited_to_devices(tmp_path):
    for framework, epochs in (("pytorch", 3), ("mxnet", 2)):
        for devices, qualities in ((1, (0.3, 0.65)), (2, (*[0.3] * (epochs - 1), 0.65))):
            write_run(tmp_path, f"{framework}{devices}", framework=framework, devices=devices, qualities=qualities,
                      keys={"seed": devices})  # fmt: skip
    text = " ".join(report_text([tmp_path]).split())
    assert "Epochs to target vary from seed to seed; runs of different seeds (one each) do not show" in text
    assert "that devices change them: pytorch, 1 → 2." in text


def test_profiles_have_tables_of_their_own(tmp_path):
    write_run(tmp_path, "a")
    write_run(tmp_path, "b", profile="reference", labels=[])
    write_run(tmp_path, "c", profile="synthetic", labels=["synthetic"], stop="steps:10", qualities=(None,))
    headings = [line for line in report_text([tmp_path]).splitlines() if line.startswith("## ")]
    assert headings == [
        "## ncf on laptop (reference)",
        "## ncf on laptop (demo)",
        "## ncf on laptop (synthetic): throughput, train, steps:10",
    ]


def test_asynchronous_runs_have_tables_and_overviews_of_their_own(tmp_path):
    for update in ("sync", "async"):
        for framework in ("pytorch", "mxnet"):
            labels = ["demo", "cpu", *(["async"] if update == "async" else [])]
            write_run(tmp_path, f"{update}-{framework}", update=update, framework=framework, labels=labels)
    text = report_text([tmp_path])
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == [
        "## Overview: time to target, demo, ncf",
        "## Overview: time to target, asynchronous updates, demo, ncf",
        "## ncf on laptop (demo)",
        "## ncf on laptop (demo), asynchronous updates",
    ]
    both, alone = text.partition(headings[3])[::2]
    assert "async" in alone
    assert "async" not in both.partition(headings[2])[2]


def test_reference_with_too_few_runs_is_marked(tmp_path):
    write_run(tmp_path, "b", profile="reference", labels=["oversubscribed"], deviations=["learning rate 1"])
    text = report_text([tmp_path])
    assert "(a) oversubscribed" in text
    assert "(b) fewer runs than the rules ask (1 of 100)" in text
    assert "| 1 (a) (b) |" in text
    assert "leaves the closed rules: learning rate 1" in text


def test_weak_scaling_shows_the_batch(tmp_path):
    for devices in (1, 2):
        write_run(tmp_path, f"{devices}", devices=devices, batch_rule="per_device:64", batch_size_global=64 * devices)
    text = report_text([tmp_path])
    assert "batch per_device:64" in text
    assert "| global batch |" in text


def test_hostile_text_stays_in_its_cell(tmp_path):
    evil = "a|b`c\x1b[31m\n## <script>alert(1)</script>[x](y)\u202e\ud800"
    write_run(tmp_path, "a", framework=evil, system=evil, labels=["demo", evil], dataset=evil)
    write_run(tmp_path, "b", qualities=(0.1,), framework="x", reason=evil)
    text = report_text([tmp_path])
    text.encode()
    assert "<script>" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    parts = [part.splitlines() for part in text.replace("\\|", "").split("\n\n") if part.startswith("|")]
    tables = [[line.count("|") for line in part if line.startswith("|")] for part in parts]
    assert len(tables) >= 2
    assert all(len(set(counts)) == 1 for counts in tables)
    assert all(len(line) <= 120 for part in parts for line in part)
    report_csv([tmp_path]).encode()


def test_unreadable_files_are_listed_with_lines(tmp_path):
    write_run(tmp_path, "a")
    write(tmp_path / "b" / "run_0" / "result_0.txt", b"\0\1\2" * 100)
    write(tmp_path / "c" / "run_0" / "result_0.txt", b"")
    write(tmp_path / "d" / "run_0" / "result_0.txt", b":::MLLOG {\n")
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "status.json").write_text("[" * 100_000)
    text = report_text([tmp_path])
    assert "the file is empty" in text
    assert "not a log: binary data" in text
    assert "line 1: :::MLLOG record cannot be read (broken JSON" in text
    assert "status.json cannot be read and there is no log" in text


def test_folder_without_logs_is_one_line(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(ValueError, match=r"holds no log|does not exist") as error:
            report_text([path])
        assert "\n" not in str(error.value)


def test_a_folder_given_twice_counts_once(tmp_path):
    write_run(tmp_path, "a")
    (row,) = rows(collect([tmp_path, tmp_path / "a", tmp_path / "a" / "run_0" / "result_0.txt"]))
    assert row.score.runs_successful == 1


def test_csv_has_raw_numbers_with_units_in_their_names(tmp_path):
    sweep(tmp_path)
    text = report_csv([tmp_path])
    found = list(csv.DictReader(io.StringIO(text)))
    assert tuple(found[0]) == tuple(CSV_COLUMNS)
    assert {"train_minutes", "samples_per_second", "seconds_per_epoch", "epochs_to_target"} <= set(found[0])
    assert [float(row["train_minutes"]) for row in found] == [0.1, 0.05, pytest.approx(2 / 60)]
    assert [float(row["speedup_total"]) for row in found] == pytest.approx([1, 2, 3])
    assert [row["profile"] for row in found] == ["demo"] * 3
    assert [row["minutes_standard_deviation"] for row in found] == ["", "", ""]


def test_command_writes_and_prints(tmp_path, capsys):
    write_run(tmp_path / "logs", "a")
    parser = argparse.ArgumentParser()
    report.configure(parser)
    out = tmp_path / "out.csv"
    assert report.run(parser.parse_args([str(tmp_path / "logs"), "--format", "csv", "--output", str(out)])) == 0
    assert out.read_text().startswith("profile,workload,")
    assert report.run(parser.parse_args([str(tmp_path / "logs")])) == 0
    assert capsys.readouterr().out == report_text([tmp_path / "logs"])
    with pytest.raises(ValueError, match="cannot be written"):
        report.run(parser.parse_args([str(tmp_path / "logs"), "--output", str(tmp_path / "no" / "x.md")]))


def test_reading_does_not_import_pandas():
    import subprocess
    import sys

    code = "import sys, suite.results; assert not {'pandas', 'mlperf_logging', 'hydra'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_cells():
    assert clean("a\tb\nc" + "x" * 300, 10) == "a b cxxxx…"
    assert markdown_cell("a|b`c\\") == "a\\|b\\`c\\\\"
    assert csv_cell("=1+1") == "'=1+1"
    assert json.dumps(clean("\ud800")) == '""'
