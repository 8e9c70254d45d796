"""A run that goes on from a checkpoint has the weights and the log of one that nobody interrupted."""

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
"""Five epochs of 16."""


class Killed(Exception):
    """In place of a signal that nothing catches."""


def attempt(folder, kind=toy.Toy, killed_at=None, earlier=None, when="every:1"):
    """A run to its end, or to a step where it is killed; it goes on from `earlier`."""
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

    place = worker_context_for(run, 0, 1)
    workload = kind(run.settings, run.dataset_info)
    log, metrics = folder / "result_0.txt", folder / "metrics.jsonl"
    if earlier is not None:
        log.write_bytes(load_resumed_log(run).log)
        metrics.write_bytes(load_resumed_log(run).metrics)
    with RunLog(log, append=earlier is not None) as stream:
        loop = Loop(
            run,
            workload,
            Trainer(workload, place),
            place,
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


def said(folder, *left_out):
    """The log, times and checkpoints aside."""
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
                name: one for name, one in value.items() if name not in ("labels", "label_facts")
            }
        if key not in ("suite_checkpoint", "suite_continued"):
            kept.append(
                (
                    key,
                    value,
                    {name: one for name, one in metadata.items() if name not in ("file", "lineno")},
                )
            )
    return kept


def figures(folder, *left_out):
    """metrics.jsonl, times aside."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    names = {"block", "step", "samples", "loss", "quality"}.difference(left_out)
    return [{name: line[name] for name in names} for line in lines]


def elapsed_seconds(folder):
    return [
        json.loads(line)["elapsed_seconds"]
        for line in (folder / "metrics.jsonl").read_text().splitlines()
    ]


def seconds_at_block_ends(folder):
    """Seconds from the log's `run_start`, which may stand before an interruption, to the end of
    each block.
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
def test_killed_anywhere_and_continued_is_not_interrupted(tmp_path, monkeypatch, kind, when, first):
    """By the clock, which goes 25 s at a look, checkpoints lie inside epochs and blocks too."""
    monkeypatch.setattr(
        "suite.worker.checkpoint_manager.monotonic", itertools.count(0, 25).__next__
    )
    left_out = (
        ["loss"] if when.endswith("min") else []
    )  # the toy logs the loss of the last step, not of the segment mean
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
            assert said(last, *left_out) == said(whole, *left_out)
            assert figures(last, *left_out) == figures(whole, *left_out)
            assert elapsed_seconds(last) == pytest.approx(seconds_at_block_ends(last), abs=0.5)
            slopes = [np.load(one / "weights.npz")["slope"] for one in (last, whole)]
            assert slopes[0] == slopes[1]


def test_the_log_of_a_run_that_went_on(tmp_path):
    """One `run_start`; the interruption counts in the time to target; the labels are those of what
    the run has become.
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


def test_one_that_cannot_be_written_ends_nothing(tmp_path, monkeypatch):
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


def test_all_processes_hear_from_the_first_when_to_look_again(tmp_path):
    """Steps of a second, a checkpoint a minute: looks at steps 1 and 60, and no two processes
    differ.
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
            place = worker_context_for(run, 0, 1)
            trainer = kind(toy.Toy(run.settings, run.dataset_info), place)
            epochs = EpochSchedule(lambda epoch: 1000)
            processes.append(
                CheckpointManager(
                    run, epochs, trainer, place, RunLog(None), HeartbeatWriter(tmp_path, 0)
                )
            )
        looked, written = [], []
        for step in range(1, 200):
            clock[0] += 1.0
            cuts = {one.next_check_step(1000) for one in processes}
            assert len(cuts) == 1
            if step in cuts:
                looked.append(step)
                due = {one.should_save(step) for one in processes}
                assert len(due) == 1
                written += [step] if due == {True} else []
    assert looked == [1, 60, 120, 180]
    assert written == [60, 120, 180]
