"""The loop under `update=async`: workers in threads on a server in memory; who waits for whom, and
what is logged.
"""

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
"""After which a test that waits has failed."""


class World:
    """What the workers of one run share: the server's weight and counts, and a place to meet."""

    def __init__(self, workers):
        self.workers, self.lock = workers, threading.Lock()
        self.slope, self.counts = 0.0, np.zeros(metadata_size(workers), np.float32)
        self.meeting = threading.Barrier(workers)
        self.left, self.made = [None] * workers, [0] * workers
        self.changed = threading.Condition()
        self.open = threading.Event()
        """Before it worker 0 pulls nothing."""
        self.open.set()

    def exchange(self, own, number):
        self.left[number] = own
        self.meeting.wait(SECONDS)
        found = list(self.left)
        self.meeting.wait(SECONDS)
        return found

    def note(self, worker):
        with self.changed:
            self.made[worker] += 1
            self.changed.notify_all()


class Worker(toy.ToyTrainer):
    """A line whose slope is on a server (`update=async`), or is the mean of everyone's (`sync`)."""

    world: World

    def setup(self, weights, warmup=True):
        super().setup(weights, warmup)
        if self.settings.update == "async":
            place = self.worker
            self.exchange = ParameterServerClient(
                self, place.rank, place.world_size, self.workload.learning_rate
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
    def open_data(self, place, seed):
        data = super().open_data(place, seed)
        data.evaluation = lambda: iter(
            [[Batch({"x": part}, len(part), len(part), len(part))]]
            if len(part := np.array_split(data.x, place.world_size)[place.rank])
            else []
        )
        return data


def run_together(folder, world, **changes):
    workers, errors = world.workers, []
    run = make_run(folder, devices=workers, **changes)
    kind = type("Worker", (Worker,), {"world": world})

    def work(process):
        place = replace(worker_context_for(run, process, workers), cores=())
        workload = Halves(run.settings, run.dataset_info)
        trainer = kind(workload, place)
        try:
            with RunLog(folder / "result_0.txt" if process == 0 else None) as log:
                metrics = JsonLines(folder / "metrics.jsonl" if process == 0 else None)
                Loop(
                    run, workload, trainer, place, log, metrics, HeartbeatWriter(folder, process)
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


def said(logged, key):
    (found,) = [value for name, value, _ in logged if name == key]
    return found


def test_all_updates_are_counted_and_each_is_as_stale_as_something(tmp_path):
    world = World(2)
    logged = run_together(tmp_path, world, update="async", stop="steps:20")
    found = said(logged, "suite_staleness")
    assert (
        found["updates"]
        == sum(found["histogram"].values())
        == sum(found["updates_of_workers"])
        == world.counts[0]
    )
    assert 40 <= found["updates"] <= 41  # one more may have been under way
    assert (found["updates_of_workers"], found["most"]) == (
        world.made,
        max(map(int, found["histogram"])),
    )
    samples = sum(value["samples"] for key, value, _ in logged if key == "tracked_stats")
    small = 2 * (32 - 20)  # of an epoch's 16 batches of 64 the last has 40
    assert 32 * found["updates"] - 2 * small <= samples <= 32 * found["updates"]
    record = read(tmp_path / "result_0.txt")
    assert (record.staleness["updates"], record.settings.update) == (found["updates"], "async")


def test_it_learns_and_every_worker_evaluates_the_same_weights(tmp_path):
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
    assert 19 <= said(logged, "suite_staleness")["updates"] <= 21
    assert 30 <= world.counts[0] <= 31


def sleeps_until_the_other_has_made(
    monkeypatch, world, updates, enough=float("inf"), patience=SECONDS
):
    """The straggler's sleep ends when worker 0 has made so many more updates, or all enough;
    whether it came to that.
    """
    seen = []

    def sleep(_):
        goal = world.made[0] + updates
        world.open.set()
        with world.changed:
            seen.append(
                world.changed.wait_for(
                    lambda: world.made[0] >= goal or world.counts[0] >= enough, patience
                )
            )

    monkeypatch.setattr(loop_module.time, "sleep", sleep)
    return seen


def test_nobody_waits_for_a_straggler(tmp_path, monkeypatch):
    """While the last worker sleeps in a step, the other makes ten."""
    world = World(2)
    # until the straggler sleeps: the other might be done before its thread begins
    world.open.clear()
    seen = sleeps_until_the_other_has_made(monkeypatch, world, 10, enough=2 * 16)
    logged = run_together(tmp_path, world, update="async", straggler_ms=5, stop="steps:16")
    found = said(logged, "suite_staleness")
    fast, slow = found["updates_of_workers"]
    assert seen
    assert all(seen)
    assert fast >= 9 * slow
    assert found["most"] >= 10  # what the straggler pushes is old


def test_under_sync_all_wait_for_a_straggler(tmp_path, monkeypatch):
    world = World(2)
    seen = sleeps_until_the_other_has_made(monkeypatch, world, 2, patience=0.05)
    logged = run_together(tmp_path, world, update="sync", straggler_ms=5, stop="steps:6")
    assert seen == [False] * 6  # it made one at most, and then waited
    assert world.made == [6, 6]
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


def test_a_worker_trains_on_the_mean_of_its_own_share():
    batches = [
        [Batch({"x": np.zeros(3)}, 3.0, 4.0, 4, {"tokens": 40})],
        [Batch({"x": np.zeros(3)}, 0.0, 4.0, 4, {"tokens": 40})],  # padding alone
    ]
    ((own,),) = local_batches(batches)
    assert (own.weight_sum, own.global_weight_sum, own.global_samples, own.global_counts) == (
        3.0,
        3.0,
        3,
        {"tokens": 30},
    )
