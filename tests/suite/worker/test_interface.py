"""The loop's interface to workloads: batches by tokens, epochs, metrics, modes, evaluation."""

import json
import threading
import time
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest

from suite.common.runspec import read_run
from suite.launch.base import worker_context_for
from suite.worker.evaluation import keep_alive, measured
from suite.worker.heartbeat import HeartbeatWriter, read_heartbeat
from tests.helpers import events
from tests.suite.worker.test_loop import make_run, run_loop, toy
from workloads.api import Batch, EpochSamples, EpochSchedule, TrainStats
from workloads.common.batch_plan import BatchPlan, buckets_by_tokens

LENGTHS = np.random.default_rng(11).integers(1, 17, 400)


class Sentences(toy.Toy):
    """A workload with batches by tokens.

    Epoch 0 leaves out sentences longer than 8 tokens, so epochs differ in their number of steps.
    """

    batch_unit, sample_unit, extra_throughput_units = "tokens", "sentences", ("tokens",)

    @property
    def epoch_samples(self):
        return EpochSamples(int(LENGTHS.sum()))

    def plan(self, epoch):
        edges = [4, 8] if epoch == 0 else [4, 8, 16]
        buckets = buckets_by_tokens(edges, self.settings.global_batch_size, self.settings.devices)
        return BatchPlan(LENGTHS, buckets, self.settings.seed, epoch)

    @cached_property
    def epochs(self):
        return EpochSchedule(lambda epoch: len(self.plan(epoch)))

    def open_data(self, context, seed):
        return SentenceData(self, super().open_data(context, seed))


class SentenceData:
    def __init__(self, workload, points):
        self.workload, self.evaluation, self.close = workload, points.evaluation, points.close

    def train(self, first_step, stop_step):
        for step in range(first_step, stop_step):
            epoch = self.workload.epochs.epoch_of(step)
            _, samples = self.workload.plan(epoch).batch(step - self.workload.epochs.start(epoch))
            tokens = int(LENGTHS[samples].sum())
            x = np.linspace(-1, 1, len(samples), dtype=np.float32)
            yield [Batch({"x": x}, len(x), len(x), len(x), {"tokens": tokens})]


def test_epochs_of_different_lengths_and_two_units(tmp_path):
    run_loop(tmp_path, workload_type=Sentences, stop="epochs:3", global_batch_size=256)
    workload = Sentences(
        make_run(tmp_path / "again", global_batch_size=256).settings,
        make_run(tmp_path).dataset_info,
    )
    lengths = [len(workload.plan(epoch)) for epoch in range(3)]
    assert lengths[0] < lengths[1] == lengths[2]
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(np.cumsum(lengths))
    for epoch, row in enumerate(rows):
        tokens = sum(
            int(LENGTHS[workload.plan(epoch).batch(step)[1]].sum())
            for step in range(lengths[epoch])
        )
        assert row["rates"]["tokens"] == pytest.approx(tokens / row["train_seconds"], rel=1e-3)
        assert row["samples_per_second"] == pytest.approx(
            row["samples"] / row["train_seconds"], rel=1e-3
        )
    logged = [
        value for key, value, _ in events(tmp_path / "result_0.txt") if key == "tracked_stats"
    ]
    assert [value["rates"] for value in logged] == [row["rates"] for row in rows]


def test_the_number_of_steps_is_computed_once_per_epoch():
    asked = []

    def steps_in_epoch(epoch):
        asked.append(epoch)
        return [3, 1, 5][epoch % 3]

    epochs = EpochSchedule(steps_in_epoch)
    assert [epochs.epoch_of(step) for step in (0, 2, 3, 4, 8, 9, 12)] == [0, 0, 1, 2, 2, 3, 4]
    assert [epochs.start(epoch) for epoch in range(5)] == [0, 3, 4, 9, 12]
    assert asked == sorted(set(asked))


class TwoMetrics(toy.Toy):
    def compute_metrics(self, results):
        error = float(results["error"].mean())
        return {"fit": 1 - error, "close": 1 - error / 2, "loss": error}


def test_several_metrics_are_logged_as_a_flat_object_and_all_must_be_met(tmp_path):
    outcome = run_loop(tmp_path, workload_type=TwoMetrics, targets={"fit": 0.9, "close": 0.999})
    values = [
        value for key, value, _ in events(tmp_path / "result_0.txt") if key == "eval_accuracy"
    ]
    assert outcome.status == "success"
    assert all(set(value) == {"fit", "close"} for value in values)
    assert [value["fit"] >= 0.9 and value["close"] >= 0.999 for value in values] == [False] * (
        len(values) - 1
    ) + [True]
    assert any(value["fit"] >= 0.9 for value in values[:-1])  # one target is not enough
    stats = [value for key, value, _ in events(tmp_path / "result_0.txt") if key == "tracked_stats"]
    assert [stat["scores"] for stat in stats] == [
        {"loss": pytest.approx(1 - value["fit"])} for value in values
    ]


def test_a_single_metric_with_a_target_is_logged_as_a_number(tmp_path):
    run_loop(tmp_path, workload_type=TwoMetrics, targets={"close": 0.9})
    values = [
        value for key, value, _ in events(tmp_path / "result_0.txt") if key == "eval_accuracy"
    ]
    assert all(isinstance(value, float) for value in values)


def test_a_missed_run_names_each_metric_with_its_target_and_is_not_an_error(tmp_path):
    outcome = run_loop(tmp_path, workload_type=TwoMetrics, targets={"fit": 2.0, "close": 0.5})
    assert outcome.status == "target_missed"
    assert outcome.reason == "after 80 steps: fit 1.0000 (target 2.0), close 1.0000 (target 0.5)"
    key, _, metadata = events(tmp_path / "result_0.txt")[-1]
    assert (key, metadata["status"]) == ("run_stop", "aborted")


class CloseMetric(toy.Toy):
    def compute_metrics(self, results):
        return {"close": 1.0}


def test_a_target_that_is_never_scored_ends_the_run(tmp_path):
    with pytest.raises(
        ValueError, match=r"^compute_metrics\(\) returned close, but there is a target for fit$"
    ):
        run_loop(tmp_path, workload_type=CloseMetric)


class Counting(toy.ToyTrainer):
    """Records the kind and the number of steps that the loop requests."""

    calls: list

    def train(self, steps, first_step):
        stats = super().train(steps, first_step)
        self.calls.append(("train", first_step, stats.steps))
        return stats

    def forward(self, steps):
        count = sum(1 for _ in steps)
        self.calls.append(("forward", count))
        return TrainStats(count, 0.5)

    def forward_backward(self, steps):
        count = sum(1 for _ in steps)
        self.calls.append(("forward_backward", count))
        return TrainStats(count, 0.5)

    def predict(self, batches):
        for item in super().predict(batches):
            self.calls.append(("predict",))
            yield item


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("train", [("train", 0, 3), ("train", 3, 7)]),
        ("forward", [("forward", 3), ("forward", 7)]),
        ("forward_backward", [("forward_backward", 3), ("forward_backward", 7)]),
        ("inference", [("predict",)] * 10),
    ],
)
def test_the_mode_selects_the_kind_of_step_and_warm_up_is_not_measured(tmp_path, mode, expected):
    Counting.calls = []
    run_loop(tmp_path, trainer_type=Counting, mode=mode, stop="steps:7", timing_warmup_steps=3)
    assert Counting.calls == expected
    (row,) = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert (row["step"], row["samples"]) == (10, 7 * (1000 if mode == "inference" else 64))
    assert "eval_accuracy" not in [key for key, _, _ in events(tmp_path / "result_0.txt")]


def test_inference_without_evaluation_batches_ends_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(toy.ToyData, "evaluation", lambda self: iter(()))
    with pytest.raises(
        ValueError, match=r"^mode=inference: the dataset has no evaluation batches$"
    ):
        run_loop(tmp_path, mode="inference", stop="steps:3")


class NoTarget(toy.Toy):
    """Measures throughput only: no hyperparameter sets, no targets, and no metrics."""

    hyperparameter_sets = classmethod(lambda cls: {})
    measure = score = None


def test_a_workload_without_targets_trains_and_never_evaluates(tmp_path):
    outcome = run_loop(tmp_path, workload_type=NoTarget, targets={}, stop="epochs:2")
    assert outcome.status == "success"
    assert "eval_accuracy" not in [key for key, _, _ in events(tmp_path / "result_0.txt")]


class Threads(toy.Toy):
    """Evaluates earlier batches more slowly, in separate threads."""

    measure_threads = 3

    def eval_batch_metrics(self, batch, outputs):
        number = int(batch.arrays["x"][0])
        time.sleep(0.02 * (6 - number))
        return {"number": np.array([number]), "thread": np.array([threading.get_ident()])}


class Numbered:
    def evaluation(self):
        for number in range(6):
            yield [Batch({"x": np.full(1, number, np.float32)}, 1.0, 1.0, 1)]


def test_results_of_threads_are_in_the_order_of_batches(tmp_path):
    run = make_run(tmp_path)
    workload = Threads(run.settings, run.dataset_info)
    trainer = toy.ToyTrainer(workload, worker_context_for(run, 0, 1))
    trainer.slope = np.ones(1)
    heartbeat = HeartbeatWriter(tmp_path, 0)
    before = heartbeat.state.count
    results = list(measured(workload, trainer, Numbered(), heartbeat))
    assert [int(result["number"][0]) for result in results] == list(range(6))
    assert threading.get_ident() not in {int(result["thread"][0]) for result in results}
    assert heartbeat.state.count >= before + 6


@pytest.mark.slow
def test_a_long_call_counts_as_progress_until_the_patience_ends(tmp_path):
    heartbeat = HeartbeatWriter(tmp_path, 0)
    with keep_alive(heartbeat, patience_seconds=60):
        first = read_heartbeat(tmp_path, 0).count
        deadline = time.monotonic() + 30
        while read_heartbeat(tmp_path, 0).count == first and time.monotonic() < deadline:
            time.sleep(0.05)
        assert read_heartbeat(tmp_path, 0).count > first
    with keep_alive(heartbeat, patience_seconds=0):
        count = heartbeat.state.count
        time.sleep(1.2)
        assert heartbeat.state.count == count


def test_arrays_of_the_dataset_info_are_copied_into_the_run_folder(tmp_path):
    source = tmp_path / "data" / "lengths.npy"
    run = make_run(tmp_path)
    np.save(source, LENGTHS)
    run = replace(run, dataset_info=replace(run.dataset_info, arrays={"lengths": str(source)}))
    run.write(tmp_path / "run.json")
    source.unlink()
    dataset_info = read_run(tmp_path / "run.json").dataset_info
    assert Path(dataset_info.arrays["lengths"]).parent == tmp_path
    np.testing.assert_array_equal(dataset_info.array("lengths"), LENGTHS)
    Path(dataset_info.arrays["lengths"]).write_bytes(b"no array")
    with pytest.raises(ValueError, match="not an array of facts"):
        dataset_info.array("lengths")
