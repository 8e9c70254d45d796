"""A run that resumes from a checkpoint has the weights and the log of an uninterrupted run."""

import itertools
import json
import time
from dataclasses import replace

import numpy as np
import pytest

from suite.common import checkpoint_files
from suite.common.labels import Label, LabelKind
from suite.launch.base import worker_context_for
from suite.results.logs.reader import read
from suite.worker.checkpoint_manager import CheckpointManager, load_resumed_log
from suite.worker.heartbeat import HeartbeatWriter
from suite.worker.loop import Loop
from suite.worker.runlog import JsonLines, RunLog
from tests.data.toy import toy
from tests.helpers import events
from tests.suite.worker.test_loop import EveryThirdEpochAndAHalf, make_run
from workloads.api import EpochSchedule

STEPS = 80
"""Five epochs of 16 steps."""


class Killed(Exception):
    """Replaces a signal that kills the process."""


def attempt(folder, kind=toy.Toy, killed_at=None, earlier=None, when="every:1"):
    """Run to the end, or to the step `killed_at`, after resuming from the checkpoint `earlier`."""
    folder.mkdir()
    run = replace(make_run(folder, targets={"fit": 2.0}), checkpoint=when, checkpoint_final=True)
    if earlier is not None:
        (folder / earlier.name).write_bytes(earlier.read_bytes())
        stopped_ms = time.time() * 1e3 - 60_000
        run = replace(
            run,
            resume_from={"checkpoint": earlier.name, "stopped_ms": stopped_ms},
            labels=(Label(LabelKind.DEMO), Label(LabelKind.RESUMED)),
        )

    class Trainer(toy.ToyTrainer):
        def misbehave(self, step):
            if step == killed_at:
                raise Killed

    context = worker_context_for(run, 0, 1)
    workload = kind(run.settings, run.dataset_info)
    log, metrics = folder / "result_0.txt", folder / "metrics.jsonl"
    if earlier is not None:
        log.write_bytes(load_resumed_log(run).log)
        metrics.write_bytes(load_resumed_log(run).metrics)
    with RunLog(log, append=earlier is not None) as stream:
        loop = Loop(
            run,
            workload,
            Trainer(workload, context),
            context,
            stream,
            JsonLines(metrics),
            HeartbeatWriter(folder, 0),
        )
        if killed_at is None:
            loop.run()
        else:
            with pytest.raises(Killed):
                loop.run()
    return folder


def log_lines(folder, *left_out):
    """Return the log without times and checkpoints."""
    kept = []
    for key, value, metadata in events(folder / "result_0.txt"):
        if key == "tracked_stats":
            value = {
                name: value[name]
                for name in ("samples", "loss", "data_bytes")
                if name not in left_out
            }
        if key == "suite_run":
            value = {
                name: item for name, item in value.items() if name not in ("labels", "label_facts")
            }
        if key not in ("suite_checkpoint", "suite_continued"):
            kept.append(
                (
                    key,
                    value,
                    {
                        name: item
                        for name, item in metadata.items()
                        if name not in ("file", "lineno")
                    },
                )
            )
    return kept


def figures(folder, *left_out):
    """Return the rows of metrics.jsonl without times."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    names = {"block", "step", "samples", "loss", "quality"}.difference(left_out)
    return [{name: line[name] for name in names} for line in lines]


def elapsed_seconds(folder):
    return [
        json.loads(line)["elapsed_seconds"]
        for line in (folder / "metrics.jsonl").read_text().splitlines()
    ]


def seconds_at_block_ends(folder):
    """Return the seconds from the log's `run_start` to the end of each block.

    The `run_start` may have been logged before an interruption.
    """
    records = [
        json.loads(line.removeprefix(":::MLLOG ")) for line in (folder / "result_0.txt").open()
    ]
    start = next(record["time_ms"] for record in records if record["key"] == "run_start")
    return [
        (record["time_ms"] - start) / 1e3 for record in records if record["key"] == "block_stop"
    ]


@pytest.mark.parametrize(("when", "first"), [("every:1", 16), ("every:2", 32), ("every:1min", 1)])
@pytest.mark.parametrize("kind", [toy.Toy, EveryThirdEpochAndAHalf])
def test_a_run_killed_anywhere_and_resumed_equals_an_uninterrupted_run(
    tmp_path, monkeypatch, kind, when, first
):
    """Check runs that are killed at any step, with checkpoints by epochs and by the clock.

    The clock advances 25 s at each look, so checkpoints lie inside epochs and blocks too.
    """
    monkeypatch.setattr(
        "suite.worker.checkpoint_manager.monotonic", itertools.count(0, 25).__next__
    )
    # The toy logs the loss of the last step of a segment, and not the segment's mean.
    left_out = ["loss"] if when.endswith("min") else []
    whole = attempt(tmp_path / "whole", kind, when=when)
    for step in range(0, STEPS - 9, 13):
        folder = attempt(tmp_path / f"{step}", kind, killed_at=step, when=when)
        kept = checkpoint_files.found(folder)
        assert bool(kept) == (step >= first)
        assert len(kept) <= checkpoint_files.KEPT
        if kept:
            again = attempt(
                tmp_path / f"{step}-again", kind, killed_at=step + 9, earlier=kept[0], when=when
            )
            last = attempt(
                tmp_path / f"{step}-last", kind, earlier=checkpoint_files.found(again)[0], when=when
            )
            assert log_lines(last, *left_out) == log_lines(whole, *left_out)
            assert figures(last, *left_out) == figures(whole, *left_out)
            assert elapsed_seconds(last) == pytest.approx(seconds_at_block_ends(last), abs=0.5)
            slopes = [
                np.load(folder_of_run / "weights.npz")["slope"] for folder_of_run in (last, whole)
            ]
            assert slopes[0] == slopes[1]


def test_the_log_of_a_resumed_run(tmp_path):
    """Check the log of a resumed run.

    It has a single `run_start` and the labels of the resumed run. The time to target includes the
    interruption.
    """
    first = attempt(tmp_path / "first", killed_at=40)
    kept, _ = checkpoint_files.found(first)
    last = attempt(tmp_path / "last", earlier=kept)
    log = last / "result_0.txt"
    found = events(log)
    assert [key for key, _, _ in found].count("run_start") == 1
    (stopped,) = [value for key, value, _ in found if key == "suite_continued"]
    assert stopped["idle_seconds"] == pytest.approx(60, abs=20)
    assert next(value for key, value, _ in found if key == "suite_run")["labels"] == [
        "demo",
        "continued",
    ]
    lines = log.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if "suite_continued" in line)
    log.write_text(
        "\n".join([*lines[:at], *(later(line, 3_600_000) for line in lines[at:])]) + "\n"
    )
    record = read(log)
    assert record.settings.labels == ("demo", "continued")
    assert record.resumptions == 1
    assert record.interrupted_seconds == pytest.approx(3600, abs=20)
    assert record.interrupted_seconds < record.seconds < record.interrupted_seconds + 60
    assert max(block.seconds for block in record.throughput) <= record.seconds
    assert 0 < record.checkpoint_seconds < record.seconds


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_run(tmp_path, monkeypatch):
    write = checkpoint_files.write_arrays

    def full(path, arrays):
        if path.name == checkpoint_files.WEIGHTS:
            return write(path, arrays)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint_files, "write_arrays", full)
    values = [
        value
        for key, value, _ in events(attempt(tmp_path / "run") / "result_0.txt")
        if key == "suite_checkpoint"
    ]
    assert [(value["bytes"], value["failed"]) for value in values] == [
        (0, "No space left on device")
    ] * 4


def later(line, ms):
    prefix, _, text = line.partition(" ")
    event = json.loads(text)
    return f"{prefix} {json.dumps({**event, 'time_ms': event['time_ms'] + ms})}"


def test_all_processes_check_the_clock_at_the_steps_that_rank_0_chooses(tmp_path):
    """Check that all processes look at the clock at the same steps, which rank 0 decides.

    With steps of a second and a checkpoint per minute, they look at steps 1 and 60.
    """
    clock, heard = [0.0], []

    class First(toy.ToyTrainer):
        def broadcast(self, value):
            heard.append(value)
            return value

    class Second(toy.ToyTrainer):
        def broadcast(self, value):
            return heard[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("suite.worker.checkpoint_manager.monotonic", lambda: clock[0])
        run = replace(make_run(tmp_path), checkpoint="every:1min")
        processes = []
        for kind in (First, Second):
            context = worker_context_for(run, 0, 1)
            trainer = kind(toy.Toy(run.settings, run.dataset_info), context)
            epochs = EpochSchedule(lambda epoch: 1000)
            processes.append(
                CheckpointManager(
                    run, epochs, trainer, context, RunLog(None), HeartbeatWriter(tmp_path, 0)
                )
            )
        looked, written = [], []
        for step in range(1, 200):
            clock[0] += 1.0
            cuts = {manager.next_check_step(1000) for manager in processes}
            assert len(cuts) == 1
            if step in cuts:
                looked.append(step)
                due = {manager.should_save(step) for manager in processes}
                assert len(due) == 1
                written += [step] if due == {True} else []
    assert looked == [1, 60, 120, 180]
    assert written == [60, 120, 180]
