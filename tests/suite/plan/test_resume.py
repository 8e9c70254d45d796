"""The checkpoint from which a run resumes."""

import json
from dataclasses import replace

import pytest

from suite.common import checkpoint_files
from suite.common.checkpoint_files import Checkpoint
from suite.common.labels import LabelKind
from suite.common.loop_state import Block, LoopState
from suite.plan.resume import find_resume
from tests.suite.worker.test_loop import make_run


def attempt(folder, run, number, *steps, filed=None, **changes):
    """Write the folder of an earlier attempt with checkpoints at these steps, and return it."""
    path = folder / "superseded" / f"run_0-{number}"
    path.mkdir(parents=True)
    replace(run, **changes).write(path / "run.json")
    (path / "status.json").write_text(
        json.dumps({"status": "rank_died", "reason": "", **(filed or {})})
    )
    for step in steps:
        checkpoint_files.write(path, Checkpoint(step, {}, LoopState(Block(1, 0, step)), b"", b""))
    return path


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path, seed=3)


def test_a_run_resumes_from_the_last_checkpoint_of_all_attempts_with_its_seed(tmp_path, run):
    first = attempt(tmp_path, run, 1, 10, 20, settings=replace(run.settings, seed=77))
    second = attempt(tmp_path, run, 2, 30)
    attempt(tmp_path, run, 3)
    lines = []
    found, path = find_resume(replace(run, deviations=()), tmp_path / "run_0", lines.append)
    assert (path, found.settings.seed, found.resume_from["checkpoint"]) == (
        second / "checkpoint_30.npz",
        3,
        path.name,
    )
    assert (found.division, found.labels[-1].kind, len(found.deviations)) == (
        "open",
        LabelKind.RESUMED,
        1,
    )
    assert [checkpoint.name for checkpoint in checkpoint_files.found(first)] == [
        "checkpoint_20.npz"
    ]
    path.write_bytes(path.read_bytes()[:-50])
    found, path = find_resume(run, tmp_path / "run_0", lines.append)
    assert (path, found.settings.seed) == (first / "checkpoint_20.npz", 77)
    assert [str(second / "checkpoint_30.npz") in line for line in lines] == [True]


@pytest.mark.parametrize(
    ("earlier", "count"),
    [
        ({}, 1),
        ({"checkpoint": "c", "stopped_ms": 1, "resumptions": 2}, 3),
        ({"checkpoint": "c", "stopped_ms": 1}, 2),
    ],
)
def test_how_often_a_run_was_resumed_is_counted(tmp_path, run, earlier, count):
    attempt(tmp_path, run, 1, 10, resume_from=earlier)
    found, _ = find_resume(run, tmp_path / "run_0", print)
    assert found.resume_from["resumptions"] == count


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"filed": {"reason": "Diverged: the loss is nan"}}, "diverged"),
        (
            {
                "filed": {
                    "status": "failed",
                    "reason": "process 1 on node2: Diverged: the loss is nan",
                }
            },
            "diverged",
        ),
        ({"filed": {"status": "failed", "reason": "any words", "code": "diverged"}}, "diverged"),
        ({"dataset_info": {"fingerprint": "other"}}, "different settings or data"),
        ({"settings": {"global_batch_size": 1}}, "different settings or data"),
        ({"identity": {"framework_version": "0"}}, "framework_version is 0, but the new run has 1"),
    ],
)
def test_diverged_or_different_attempts_are_not_resumed(tmp_path, run, changes, message):
    parts = {
        name: replace(getattr(run, name), **value)
        if name != "identity"
        else {**run.identity, **value}
        for name, value in changes.items()
        if name != "filed"
    }
    attempt(tmp_path, run, 1, 10, filed=changes.get("filed"), **parts)
    lines = []
    assert find_resume(run, tmp_path / "run_0", lines.append) is None
    assert [message in line for line in lines] == [True]


@pytest.mark.parametrize(
    ("metadata", "is_resumed"),
    [
        ({"reason": "any words", "code": "diverged"}, False),
        ({"reason": "Diverged: the loss is nan"}, False),
        ({"reason": "Diverged files were found", "code": "error"}, True),
        ({"reason": "OSError: no space left", "code": "disk_full"}, True),
    ],
)
def test_the_code_of_the_log_decides_whether_a_run_diverged(tmp_path, run, metadata, is_resumed):
    folder = attempt(tmp_path, run, 1, 10)
    stop = {
        "key": "run_stop",
        "value": None,
        "time_ms": 1,
        "metadata": {"status": "aborted", **metadata},
    }
    (folder / f"result_{run.run_index}.txt").write_text(f":::MLLOG {json.dumps(stop)}\n")
    assert (find_resume(run, tmp_path / "run_0", print) is not None) == is_resumed


def test_attempts_of_a_different_run_are_ignored(tmp_path, run):
    attempt(tmp_path, run, 1, 10)
    assert find_resume(run, tmp_path / "run_1", print) is None
    assert find_resume(run, tmp_path / "superseded" / "run_0", print) is None
