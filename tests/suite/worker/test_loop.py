"""The loop's order of events under both rounds, its blocks and epochs, and its `run_start`."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from suite.catalog.deviations import deviation_of_text
from suite.catalog.rounds import find_round
from suite.common.labels import Label, LabelKind
from suite.common.runspec import RunSpec
from suite.launch.base import worker_context_for
from suite.worker.evaluation import merge
from suite.worker.heartbeat import HeartbeatWriter, read_heartbeat
from suite.worker.loop import Loop, one_line
from suite.worker.runlog import JsonLines, RunLog
from tests.data.toy import toy
from tests.helpers import events
from workloads.api import DatasetInfo, EpochSamples, NonFiniteLossError, Settings

DEMO = deviation_of_text("profile demo, not reference")
SETTINGS = {
    "workload": "toy", "framework": "plain", "profile": "demo", "rules": "v0.7", "device": "cpu",
    "devices": 1, "nodes": 1, "cores_per_device": 1, "oversubscribe": False, "precision": "fp32",
    "global_batch_size": 64, "batch_rule": "default", "lr_scaling": "none", "seed": 3,
    "stop": "target", "mode": "train", "dataset": "toy-demo", "model": {},
    "targets": {"fit": 0.99}, "hyperparameter_set": "demo",
    "hyperparameters": {"learning_rate": 0.2, "max_epochs": 5}, "hyperparameter_sources": {},
    "options": {"misbehave": "no"},
}  # fmt: skip


def make_run(folder, **changes):
    data = folder / "data"
    toy.ToyDemo().make_demo(data)
    values = {**SETTINGS, "data_dir": str(data), **changes}
    settings = Settings(**{"round": find_round(values["rules"]).figures, **values})
    identity = {
        "benchmark": "toy",
        "sample_unit": "points",
        "batch_unit": "samples",
        "submission_org": "o",
    }
    identity |= {
        "submission_status": "research",
        "submission_platform": "p",
        "system": "s",
        "device_name": "d",
    }
    identity |= {"framework_version": "1"}
    return RunSpec(
        run_index=0, runs_required=5, folder=str(folder), settings=settings,
        dataset_info=DatasetInfo(1000, 1000, {}, "toy"), labels=(Label(LabelKind.DEMO),),
        division="open", deviations=(DEMO,), cores=(0,), cache_cleared=True,
        watchdog_seconds=300.0, setup_watchdog_seconds=1200.0, identity=identity, environment={},
        versions={"suite": "0"}, git={}, hardware={},
    )  # fmt: skip


def run_loop(
    folder,
    log_type=RunLog,
    trainer_type=toy.ToyTrainer,
    workload_type=toy.Toy,
    threads=0,
    process=0,
    **changes,
):
    """Run one process, or process 1 of a run of two."""
    run = make_run(folder, **changes)
    context = replace(worker_context_for(run, process, process + 1), threads=threads)
    workload = workload_type(run.settings, run.dataset_info)
    trainer = trainer_type(workload, context)
    with log_type(None if process else folder / "result_0.txt") as log:
        metrics = JsonLines(None if process else folder / "metrics.jsonl")
        return Loop(
            run, workload, trainer, context, log, metrics, HeartbeatWriter(folder, process)
        ).run()


def keys(folder):
    return [key for key, _, _ in events(folder / "result_0.txt")]


IDENTITY = [
    "submission_benchmark", "submission_org", "submission_division", "submission_status",
    "submission_platform", "cache_clear", "suite_run",
]  # fmt: skip
SETUP = ["seed", "global_batch_size", "opt_name", "train_samples", "eval_samples"]
BLOCK = [
    "block_start", "epoch_start", "epoch_stop", "eval_start", "eval_accuracy", "eval_stop",
    "tracked_stats", "block_stop",
]  # fmt: skip


HEADS = {"v0.7": ["init_start", *SETUP, "init_stop", "run_start"], "v0.5": ["run_start", *SETUP]}


@pytest.mark.parametrize("rules", HEADS)
def test_the_order_of_events_in_each_round(tmp_path, rules):
    assert run_loop(tmp_path, rules=rules).status == "success"
    assert keys(tmp_path) == [*IDENTITY, *HEADS[rules], *BLOCK, *BLOCK, "run_stop"]


def test_the_warm_up_updates_the_heartbeat_before_every_shape(tmp_path):
    """Check the heartbeats of the warm-up.

    XLA compiles some shapes for minutes, which the controller must not mistake for a hang.
    """
    counts = []

    class Compiling(toy.ToyTrainer):
        def setup(self, weights, warmup=True):
            for specs in self.workload.shapes():
                self.dummy_batch(specs)
                counts.append(self.beat.__self__.state.count)
            super().setup(weights, warmup)

    run_loop(tmp_path, trainer_type=Compiling)
    assert counts
    assert counts == list(range(counts[0], counts[0] + len(counts)))


FIT = {"fit": "one minus the error"}


class Explained(toy.Toy):
    epoch_samples = EpochSamples(1000, repeated=24)

    def metric_signatures(self):
        return FIT


@pytest.mark.parametrize(
    ("kind", "expected"), [(toy.Toy, (None, 0, 0.0)), (Explained, (FIT, 24, 0.024))]
)
def test_suite_run_contains_metric_signatures_and_repeated_samples(tmp_path, kind, expected):
    run_loop(tmp_path, workload_type=kind)
    (value,) = [value for key, value, _ in events(tmp_path / "result_0.txt") if key == "suite_run"]
    assert (
        tuple(map(value.get, ("metric_signatures", "repeated_samples_per_epoch", "repeated_share")))
        == expected
    )


@pytest.mark.parametrize(("rules", "first"), [("v0.7", 1), ("v0.5", 0)])
def test_epoch_numbers_count_from_one_and_in_the_first_round_from_zero(tmp_path, rules, first):
    run_loop(tmp_path, rules=rules)
    found = events(tmp_path / "result_0.txt")
    numbers = {
        key: [m["epoch_num"] for k, _, m in found if k == key]
        for key in ("epoch_start", "eval_accuracy")
    }
    assert numbers == {"epoch_start": [first, first + 1], "eval_accuracy": [first, first + 1]}
    assert [m["first_epoch_num"] for k, _, m in found if k == "block_start"] == [first, first + 1]


class EveryThirdEpochAndAHalf(toy.Toy):
    def evaluation_steps(self):
        return itertools.count(24, 24)  # 16 steps an epoch


def test_an_evaluation_inside_an_epoch(tmp_path):
    run_loop(tmp_path, workload_type=EveryThirdEpochAndAHalf, targets={"fit": 2.0})
    found = events(tmp_path / "result_0.txt")
    blocks = [(m["first_epoch_num"], m["epoch_count"]) for k, _, m in found if k == "block_start"]
    assert blocks == [(1, 2), (2, 2), (4, 2), (5, 1)]
    assert [m["epoch_num"] for k, _, m in found if k == "epoch_start"] == [1, 2, 3, 4, 5]
    assert [m["epoch_num"] for k, _, m in found if k == "epoch_stop"] == [1, 2, 3, 4, 5]
    assert [m["epoch_num"] for k, _, m in found if k == "eval_accuracy"] == [2, 3, 5]


def test_an_evaluation_at_the_end_of_the_warm_up_is_left_out(tmp_path):
    """Check a warm-up of one epoch: the first block begins with the second epoch."""
    run_loop(tmp_path, stop="steps:16", timing_warmup_steps=16)
    logged = events(tmp_path / "result_0.txt")
    blocks = [
        (m["first_epoch_num"], m["epoch_count"]) for key, _, m in logged if key == "block_start"
    ]
    assert blocks == [(2, 1)]


def test_no_data_file_is_opened_before_run_start(tmp_path):
    """Check that no data file is opened before `run_start`.

    The data folder is renamed until the log contains `run_start`, so an earlier access would fail.
    """
    data, away = tmp_path / "data", tmp_path / "away"

    class Watching(RunLog):
        def __init__(self, path):
            super().__init__(path)
            data.rename(away)

        def start(self, key, value=None, **metadata):
            super().start(key, value, **metadata)
            if key == "run_start":
                away.rename(data)

    assert run_loop(tmp_path, log_type=Watching).status == "success"
    assert data.exists()


class SecondProcess(toy.ToyTrainer):
    """A rank without the gathered results, and therefore without metrics."""

    def gather(self, arrays):
        return None


def test_a_process_without_scores_misses_the_target_too(tmp_path):
    outcome = run_loop(
        tmp_path, trainer_type=SecondProcess, process=1, devices=2, targets={"fit": 2.0}
    )
    assert (outcome.status, outcome.reason) == ("target_missed", "after 80 steps")


@pytest.mark.parametrize(
    ("misbehaves", "error", "message", "last"),
    [
        ("setup", RuntimeError, "setup went wrong", "init_start"),
        ("diverge", NonFiniteLossError, "the loss is nan", "run_stop"),
    ],
)
def test_an_error_is_raised_and_logged_after_run_start(tmp_path, misbehaves, error, message, last):
    with pytest.raises(error, match=message):
        run_loop(tmp_path, options={"misbehave": misbehaves})
    assert keys(tmp_path)[-1] == last


@pytest.mark.parametrize(
    ("stop", "steps", "evaluations"),
    [
        ("epochs:4", 64, 4),
        ("samples:640", 10, 0),
        ("samples:641", 11, 0),
        ("samples:1", 1, 0),
        ("steps:33", 33, 2),
    ],
)
def test_a_fixed_length_continues_past_the_target_and_trains_enough_samples(
    tmp_path, stop, steps, evaluations
):
    """Check lengths in epochs, samples, and steps. An epoch has 16 steps of 64 samples."""
    assert run_loop(tmp_path, stop=stop).status == "success"
    assert keys(tmp_path).count("eval_accuracy") == evaluations
    logged = events(tmp_path / "result_0.txt")
    assert [metadata["step"] for key, _, metadata in logged if key == "tracked_stats"][-1] == steps


def test_metrics_are_consistent(tmp_path):
    run_loop(tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    stats = [value for key, value, _ in events(tmp_path / "result_0.txt") if key == "tracked_stats"]
    assert [row["samples"] for row in rows] == [1000, 1000]
    assert read_heartbeat(tmp_path, 0).samples == 2000
    for row, stat in zip(rows, stats, strict=True):
        assert row["samples_per_second"] == pytest.approx(
            row["samples"] / row["train_seconds"], rel=1e-3
        )
        assert row["data_wait_seconds"] <= row["train_seconds"]
        assert stat["throughput"] == row["samples_per_second"]
        assert row["memory_peak_bytes"] > 1 << 20


def test_merge_joins_along_samples_and_skips_empty_parts():
    joined = merge([{"hit": np.array([True])}, {}, {"hit": np.array([False, True])}])
    assert joined["hit"].tolist() == [True, False, True]
    assert merge([]) == {}


def test_one_line_of_an_error():
    assert one_line(RuntimeError("first\nsecond")) == "RuntimeError: first"
    assert one_line(KeyboardInterrupt()) == "KeyboardInterrupt"


def test_the_log_has_the_thread_waiting_and_the_heartbeat_the_contention(tmp_path, monkeypatch):
    monkeypatch.setenv("GOMP_SPINCOUNT", "5")
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.setattr("suite.machine.contention.LEAST_SECONDS", 0.0)
    run_loop(tmp_path)
    suite_run = next(
        value for key, value, _ in events(tmp_path / "result_0.txt") if key == "suite_run"
    )
    assert suite_run["thread_waiting"] == "GOMP_SPINCOUNT=5"
    contention = read_heartbeat(tmp_path, 0).contention
    assert contention["cpu_seconds"] > 0
    assert set(contention["cores"]) == {"0"}  # the core of the worker context
    assert "threads_per_device" not in contention


@pytest.mark.parametrize(
    ("threads_per_device", "least_seconds", "expected"),
    [
        ("auto", 0.0, 1),
        ("1", 0.0, None),
        ("auto", 3600.0, None),  # the run is too short for a measurement
    ],
)
def test_the_heartbeat_contains_a_reduced_number_of_threads(
    tmp_path, monkeypatch, threads_per_device, least_seconds, expected
):
    monkeypatch.setattr("suite.machine.contention.LEAST_SECONDS", least_seconds)
    run_loop(tmp_path, threads=1, cores_per_device=2, threads_per_device=threads_per_device)
    found = read_heartbeat(tmp_path, 0).contention
    assert found.get("threads_per_device") == expected
    assert (found == {}) == (least_seconds > 0)
