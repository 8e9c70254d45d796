"""The loop under `update=async`: workers in threads, with a parameter server in memory."""

import threading
from dataclasses import replace

import numpy as np

from suite.launch.base import worker_context_for
from suite.results.logs.reader import read
from suite.worker import loop as loop_module
from suite.worker.asynchronous import local_batches
from suite.worker.heartbeat import HeartbeatWriter
from suite.worker.loop import Loop
from suite.worker.runlog import JsonLines, RunLog
from tests.data.toy import toy
from tests.helpers import events
from tests.suite.worker.test_loop import make_run
from workloads.api import Batch, ParameterServerClient, TrainStats, metadata_size, record_update

SECONDS = 60.0
"""Seconds after which a test that waits has failed."""


class World:
    """State that the workers of a run share: the server's weight and counts, and a barrier."""

    def __init__(self, workers):
        self.workers, self.lock = workers, threading.Lock()
        self.slope, self.counts = 0.0, np.zeros(metadata_size(workers), np.float32)
        self.meeting = threading.Barrier(workers)
        self.left, self.updates = [None] * workers, [0] * workers
        self.changed = threading.Condition()
        self.open = threading.Event()
        """Worker 0 pulls no weights before this event."""
        self.open.set()

    def exchange(self, value, number):
        self.left[number] = value
        self.meeting.wait(SECONDS)
        found = list(self.left)
        self.meeting.wait(SECONDS)
        return found

    def note(self, worker):
        with self.changed:
            self.updates[worker] += 1
            self.changed.notify_all()


class Worker(toy.ToyTrainer):
    """Fits a line. Its slope is on a server (`async`), or all workers sum gradients (`sync`)."""

    world: World

    def setup(self, weights, warmup=True):
        super().setup(weights, warmup)
        if self.settings.update == "async":
            context = self.worker
            self.exchange = ParameterServerClient(
                self, context.rank, context.world_size, self.workload.learning_rate
            )

    def pull(self):
        if self.worker.rank == 0:
            self.world.open.wait(SECONDS)
        with self.world.lock:
            self.slope = np.full(1, self.world.slope, np.float32)
            return self.world.counts.copy()

    def push(self, tail):
        with self.world.lock:
            self.world.slope -= tail[0] * self.gradient
            record_update(self.world.counts, tail)
        self.world.note(self.worker.rank)

    def train(self, steps, first_step):
        loss, count = 0.0, 0
        for (batch,) in steps:
            count += 1
            x = batch.arrays["x"]
            loss += float(((self.slope - 3) ** 2 * x**2).sum() / batch.global_weight_sum)
            self.gradient = float((2 * (self.slope - 3) * x**2).sum() / batch.global_weight_sum)
            if self.exchange is not None:
                self.exchange.push()
                continue
            summed = sum(self.world.exchange(self.gradient, self.worker.rank))
            self.slope -= self.workload.learning_rate(0) * summed
            self.world.note(self.worker.rank)
        return TrainStats(count, loss / max(count, 1))

    def gather(self, arrays):
        found = self.world.exchange(arrays, self.worker.rank)
        return found if self.worker.rank == 0 else None

    def broadcast(self, value):
        return self.world.exchange(value, self.worker.rank)[0]


class Halves(toy.Toy):
    def open_data(self, context, seed):
        data = super().open_data(context, seed)
        data.evaluation = lambda: iter(
            [[Batch({"x": part}, len(part), len(part), len(part))]]
            if len(part := np.array_split(data.x, context.world_size)[context.rank])
            else []
        )
        return data


def run_together(folder, world, **changes):
    workers, errors = world.workers, []
    run = make_run(folder, devices=workers, **changes)
    kind = type("Worker", (Worker,), {"world": world})

    def work(process):
        context = replace(worker_context_for(run, process, workers), cores=())
        workload = Halves(run.settings, run.dataset_info)
        trainer = kind(workload, context)
        try:
            with RunLog(folder / "result_0.txt" if process == 0 else None) as log:
                metrics = JsonLines(folder / "metrics.jsonl" if process == 0 else None)
                Loop(
                    run, workload, trainer, context, log, metrics, HeartbeatWriter(folder, process)
                ).run()
        except Exception as error:
            errors.append(error)
            world.meeting.abort()

    threads = [threading.Thread(target=work, args=(process,)) for process in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * SECONDS)
    if errors:
        raise errors[0]
    return events(folder / "result_0.txt")


def logged_value(logged, key):
    (found,) = [value for name, value, _ in logged if name == key]
    return found


def test_all_updates_are_counted_in_the_staleness_histogram(tmp_path):
    world = World(2)
    logged = run_together(tmp_path, world, update="async", stop="steps:20")
    found = logged_value(logged, "suite_staleness")
    assert (
        found["updates"]
        == sum(found["histogram"].values())
        == sum(found["updates_of_workers"])
        == world.counts[0]
    )
    assert 40 <= found["updates"] <= 41  # an update may have been under way
    assert (found["updates_of_workers"], found["most"]) == (
        world.updates,
        max(map(int, found["histogram"])),
    )
    samples = sum(value["samples"] for key, value, _ in logged if key == "tracked_stats")
    small = 2 * (32 - 20)  # the last of an epoch's 16 batches has 40 samples instead of 64
    assert 32 * found["updates"] - 2 * small <= samples <= 32 * found["updates"]
    record = read(tmp_path / "result_0.txt")
    assert (record.staleness["updates"], record.settings.update) == (found["updates"], "async")


def test_training_reaches_the_target_and_all_workers_evaluate_the_same_weights(tmp_path):
    world = World(2)
    logged = run_together(tmp_path, world, update="async", stop="target")
    assert [key for key, _, _ in logged][-1] == "run_stop"
    accuracy = [value for key, value, _ in logged if key == "eval_accuracy"]
    assert accuracy[-1] >= 0.99
    epochs = len(accuracy)
    assert 2 * 16 * epochs <= world.counts[0] <= 2 * 16 * epochs + epochs


def test_steps_that_warm_up_are_not_counted(tmp_path):
    world = World(2)
    logged = run_together(tmp_path, world, update="async", stop="steps:10", timing_warmup_steps=5)
    assert 19 <= logged_value(logged, "suite_staleness")["updates"] <= 21
    assert 30 <= world.counts[0] <= 31


def sleeps_until_worker_0_has_updated(
    monkeypatch, world, updates, enough=float("inf"), patience=SECONDS
):
    """Let the straggler sleep until worker 0 has made `updates` more updates, or all made `enough`.

    Returns:
        A list that receives, after each sleep, whether this happened within `patience` seconds.
    """
    seen = []

    def sleep(_):
        goal = world.updates[0] + updates
        world.open.set()
        with world.changed:
            seen.append(
                world.changed.wait_for(
                    lambda: world.updates[0] >= goal or world.counts[0] >= enough, patience
                )
            )

    monkeypatch.setattr(loop_module.time, "sleep", sleep)
    return seen


def test_asynchronous_workers_do_not_wait_for_a_straggler(tmp_path, monkeypatch):
    """Check that worker 0 makes ten updates while the last worker sleeps in a step."""
    world = World(2)
    # Worker 0 waits until the straggler sleeps, or it might be done before its thread begins.
    world.open.clear()
    seen = sleeps_until_worker_0_has_updated(monkeypatch, world, 10, enough=2 * 16)
    logged = run_together(tmp_path, world, update="async", straggler_ms=5, stop="steps:16")
    found = logged_value(logged, "suite_staleness")
    fast, slow = found["updates_of_workers"]
    assert seen
    assert all(seen)
    assert fast >= 9 * slow
    assert found["most"] >= 10  # the straggler's gradient is old


def test_synchronous_workers_wait_for_a_straggler(tmp_path, monkeypatch):
    world = World(2)
    seen = sleeps_until_worker_0_has_updated(monkeypatch, world, 2, patience=0.05)
    logged = run_together(tmp_path, world, update="sync", straggler_ms=5, stop="steps:6")
    assert seen == [False] * 6  # worker 0 made at most one update, and then waited
    assert world.updates == [6, 6]
    (stats,) = [value for key, value, _ in logged if key == "tracked_stats"]
    assert stats["data_bytes"] == 6 * 64 * 4  # of both workers together
    assert "suite_staleness" not in [key for key, _, _ in logged]


def test_only_the_last_device_sleeps_and_after_its_devices_are_done(tmp_path, monkeypatch):
    slept, waited = [], []
    monkeypatch.setattr(
        loop_module.time, "sleep", lambda seconds: slept.append((threading.get_ident(), seconds))
    )
    monkeypatch.setattr(Worker, "synchronize", lambda self: waited.append(self.worker.rank))
    run_together(tmp_path, World(3), update="sync", straggler_ms=25, stop="steps:4")
    assert waited == [2] * 4
    assert [seconds for _, seconds in slept] == [0.025] * 4
    assert len({thread for thread, _ in slept}) == 1


def test_a_worker_trains_on_the_mean_of_its_share():
    batches = [
        [Batch({"x": np.zeros(3)}, 3.0, 4.0, 4, {"tokens": 40})],
        [Batch({"x": np.zeros(3)}, 0.0, 4.0, 4, {"tokens": 40})],  # padding alone
    ]
    ((batch,),) = local_batches(batches)
    assert (
        batch.weight_sum,
        batch.global_weight_sum,
        batch.global_samples,
        batch.global_counts,
    ) == (
        3.0,
        3.0,
        3,
        {"tokens": 30},
    )
