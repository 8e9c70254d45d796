"""The data of a run that every tracker receives, compared with the numbers in the run's log."""

import json
import shutil

import pytest

from suite.trackers.exported import NOT_VERIFIED, exported
from testing.fake_logs import START_MS, demo_log, foreign, line, write, write_run

BUSY = {"busy": ["others took 48 % of its cores"], "others_share": 0.48}


def points(run, name):
    return [
        (scalar.at, scalar.value, scalar.time_ms - START_MS)
        for scalar in run.scalars
        if scalar.name == name
    ]


def only(*paths):
    """Return the only run below these paths, and check that no run was skipped."""
    (run,), left_out = exported(paths)
    assert not left_out
    return run


def test_a_run_is_exported_with_all_values_of_its_log(tmp_path):
    folder = write_run(tmp_path, "ncf", index=3, condition=BUSY, status={"status": "success"})
    for name in ("metrics.jsonl", "run.json", "worker-0.log", "notes.txt", ".worker-0.json"):
        (folder / name).write_text("{}")
    (folder / "server.log").symlink_to("/etc/passwd")
    run = only(tmp_path)
    assert (run.name, run.workload, run.status) == ("ncf/run_3", "ncf", "success")
    assert (run.start_ms, run.end_ms) == (START_MS, START_MS + 6000)
    assert run.labels == ("cpu", "demo", "busy machine: others took 48 % of its cores")
    assert run.title == "ncf/run_3 (cpu, demo, busy machine: others took 48 % of its cores)"
    assert run.labels_text.endswith(f"; {NOT_VERIFIED}")
    assert points(run, "epoch/hr_at_10") == [(1, 0.3, 1999), (2, 0.5, 3999), (3, 0.65, 5999)]
    assert points(run, "step/hr_at_10") == [(101, 0.3, 1999), (202, 0.5, 3999), (303, 0.65, 5999)]
    assert points(run, "step/samples_per_second") == [
        (101, 4e5, 1999),
        (202, 4e5, 3999),
        (303, 4e5, 5999),
    ]
    assert points(run, "epoch/training_loss") == [(1, 0.25, 1999), (2, 0.25, 3999), (3, 0.25, 5999)]
    assert points(run, "result/seconds_to_target") == [(303, 6.0, 6000)]
    assert points(run, "result/epochs") == [(303, 3.0, 6000)]
    assert {"result/run_seconds", "result/start_ms"}.isdisjoint(
        scalar.name for scalar in run.scalars
    )
    expected = {
        "framework": "pytorch",
        "global_batch_size": 4096,
        "seed": 12345,
        "targets": '{"hr_at_10": 0.635}',
    }
    expected |= {
        "hyperparameters.opt_base_learning_rate": 0.003,
        "hyperparameters.input_hp_sample_train_replacement": True,
    }
    assert expected.items() <= run.hyperparameters.items()
    tags = {
        "system": "laptop",
        "device_name": "Some CPU",
        "suite_version": "0.1.0",
        "run_index": "3",
        "division": "open",
    }
    assert tags.items() <= run.tags.items()
    assert not run.tags.keys() & run.hyperparameters.keys()
    assert set(run.files) == {
        "result_3.txt",
        "metrics.jsonl",
        "run.json",
        "status.json",
        "worker-0.log",
    }


def test_files_of_several_machines_keep_their_folders(tmp_path):
    folder = write_run(tmp_path, "ncf")
    (folder / "run.json").write_text(json.dumps({"hosts": [{"name": "a"}, {"name": "b"}]}))
    for name in "ab":
        write(folder / name / "telemetry.jsonl", ["{}"])
    assert set(only(tmp_path).files) == {
        "result_0.txt",
        "run.json",
        "a/telemetry.jsonl",
        "b/telemetry.jsonl",
    }


LENGTHS = {
    "reached": ({}, "success", "result/seconds_to_target"),
    "missed": ({"qualities": (0.1, 0.2)}, "aborted", "result/run_seconds"),
    "fixed length": ({"stop": "epochs:3"}, "success", "result/run_seconds"),
}


@pytest.mark.parametrize(("options", "status", "name"), LENGTHS.values(), ids=LENGTHS)
def test_only_a_run_that_reached_the_target_has_a_time_to_target(tmp_path, options, status, name):
    write_run(tmp_path, "ncf", **options)
    run = only(tmp_path)
    lengths = {"result/seconds_to_target", "result/run_seconds"} & {
        scalar.name for scalar in run.scalars
    }
    assert (run.status, lengths) == (status, {name})


def test_a_running_run_has_no_results_and_no_files(tmp_path):
    folder = write_run(tmp_path, "ncf", status={"status": "running"})
    lines = demo_log()
    write(folder / "result_0.txt", lines[: len(lines) - 1])
    run = only(tmp_path)
    assert (run.end_ms, run.status, run.files) == (None, "running", {})
    assert {scalar.axis for scalar in run.scalars} == {"epoch", "step"}
    assert len(points(run, "epoch/hr_at_10")) == 3


def test_copies_and_runs_without_evaluations_are_counted(tmp_path):
    whole = write_run(tmp_path, "whole")
    shutil.copytree(whole, tmp_path / "copy" / "run_0")
    write_run(tmp_path, "failed", status={"status": "oom", "reason": "out of memory"}, log=False)
    started = next(at for at, text in enumerate(demo_log()) if '"block_start"' in text)
    write(tmp_path / "begun" / "run_0" / "result_0.txt", demo_log(start=7)[:started])
    runs, left_out = exported([tmp_path])
    assert (len(runs), left_out) == (1, 3)


def first_evaluation(**options):
    """Return the lines of a log up to the end of its first block."""
    lines = demo_log(**options)
    return lines[: next(at for at, text in enumerate(lines) if '"block_stop"' in text)]


SAME = {"at its first evaluation": first_evaluation(), "with its end": demo_log(condition=BUSY)}
DIFFERENT_LOGS = {
    "another seed": demo_log(keys={"seed": 1}),
    "another start": demo_log(start=1),
    "another learning rate": demo_log(keys={"opt_base_learning_rate": 0.1}),
    "another number of devices": demo_log(devices=2),
}


def test_a_run_is_identified_by_its_settings_before_the_first_evaluation(tmp_path):
    def identity(name, lines):
        return only(write(tmp_path / name / "result_0.txt", lines)).identity

    whole = identity("whole", demo_log())
    assert {identity(name, lines) for name, lines in SAME.items()} == {whole}
    assert len(
        {whole, *(identity(name, lines) for name, lines in DIFFERENT_LOGS.items())}
    ) == 1 + len(DIFFERENT_LOGS)


def test_foreign_runs_that_started_in_the_same_second_are_distinct(tmp_path):
    paths = [foreign(tmp_path / f"{at}.txt", seconds=60 + at) for at in range(2)]
    runs, _ = exported(paths)
    assert len({run.identity for run in runs}) == 2
    assert points(runs[0], "epoch/top1") == [(2, 0.76, 59_999)]
    assert not runs[0].labels


def test_evaluations_within_an_epoch_without_steps_are_plotted_over_seconds(tmp_path):
    path = foreign(tmp_path / "a.txt")
    path.write_text(path.read_text().replace('"epoch_num": 2', '"epoch_num": 1.5'))
    run = only(path)
    assert [(scalar.name, scalar.at) for scalar in run.scalars if scalar.axis != "result"] == [
        ("second/top1", 60)
    ]


def test_names_and_texts_of_a_log_are_sanitized(tmp_path):
    stats = {"throughput": 1.0, "train_seconds": 1.0, "samples": 1, "rates": {"../a b|c": 2.0}}
    key, value = "opt_x/../../y\n", "a\x1b[2J\nb"
    lines = [
        text if "tracked_stats" not in text else line(1999, "tracked_stats", stats, step=101)
        for text in demo_log((0.7,))
    ]
    lines.insert(-20, line(1, key, value))
    lines.insert(-20, line(1, "opt_large", 2**80))
    run = only(write(tmp_path / "result_0.txt", lines))
    assert points(run, "step/a_b_c_per_second") == [(101, 2.0, 1999)]
    assert run.hyperparameters["hyperparameters.opt_x_.._.._y"] == "a [2J b"
    assert run.hyperparameters["hyperparameters.opt_large"] == str(2**80)
