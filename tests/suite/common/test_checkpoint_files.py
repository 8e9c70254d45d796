"""Checkpoint files: they are written completely or not at all, and damage is detected."""

import json
import math
import os
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.common import checkpoint_files
from suite.common.checkpoint_files import Checkpoint
from suite.common.loop_state import Block, LoopState
from tests.helpers import examples

STATE = {
    "layer.weight": np.arange(600, dtype=np.float32).reshape(20, 30),
    "step": np.ones(1, np.float32),
}
LOOP = LoopState(
    Block(1, 0, 7, counts=Counter(tokens=3)), {"a": 0.1}, 2.5, 70, ({"seconds": 1.0}, {})
)


def written(folder, step=7):
    folder.mkdir(exist_ok=True)
    checkpoint_files.write(folder, Checkpoint(step, STATE, LOOP, b"log\n", b""))
    return folder / f"checkpoint_{step}.npz"


def test_a_checkpoint_is_read_as_it_was_written(tmp_path):
    path = written(tmp_path)
    found = checkpoint_files.read(path)
    assert (found.step, found.log, found.metrics, found.loop.scores) == (
        7,
        b"log\n",
        b"",
        {"a": 0.1},
    )
    assert {name: array.tolist() for name, array in found.state.items()} == {
        name: array.tolist() for name, array in STATE.items()
    }
    assert checkpoint_files.damage(path) == ""
    assert os.listdir(tmp_path) == [path.name]


def test_the_last_two_checkpoints_are_kept_and_listed_newest_first(tmp_path):
    for step in (9, 10, 100, 99):
        written(tmp_path, step)
    (tmp_path / "checkpoint_x.npz").touch()
    assert [path.name for path in checkpoint_files.found(tmp_path)] == [
        "checkpoint_100.npz",
        "checkpoint_99.npz",
    ]
    assert checkpoint_files.found(tmp_path / "none") == []


@examples(60)
@given(cut=st.booleans(), offset=st.integers(0, 10_000))
def test_damage_is_detected(tmp_path_factory, cut, offset):
    """Truncate the file, or change one byte of the names, sizes or content of the members."""
    path = written(tmp_path_factory.mktemp("one"))
    data = bytearray(path.read_bytes())
    offset %= len(data)
    if cut:
        data = data[:offset]
    else:
        data[offset] ^= 0x55
    path.write_bytes(data)
    if not checkpoint_files.damage(path):
        # The byte has no effect, such as a date or the length of an empty comment.
        found = checkpoint_files.read(path)
        assert all(np.array_equal(found.state[name], STATE[name]) for name in STATE)
        assert (found.log, found.metrics) == (b"log\n", b"")


@pytest.mark.parametrize("save", [np.savez_compressed, np.savez])
def test_another_archive_is_not_a_checkpoint(tmp_path, save):
    save(tmp_path / "checkpoint_1.npz", a=np.zeros(3))
    assert checkpoint_files.damage(tmp_path / "checkpoint_1.npz")


def test_a_full_disk_leaves_no_partial_checkpoint(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    path = written(tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        written(tmp_path, 8)
    assert os.listdir(tmp_path) == [path.name]


def test_the_state_of_the_loop_is_read_as_it_was_written(tmp_path):
    found = checkpoint_files.read(written(tmp_path)).loop
    assert math.isnan(found.block.loss)
    found.block.loss = 1.0
    assert found.to_json() == {**LOOP.to_json(), "block": {**LOOP.to_json()["block"], "loss": 1.0}}


def test_the_loop_state_of_another_version_is_read():
    """Use defaults for keys that an older version lacks, and ignore unknown keys."""
    older = {
        "block": {"number": 2, "first_step": 3, "stop_step": 4, "new": 1},
        "scores": {"a": 1.0},
        "new": 1,
    }
    assert LoopState.from_json(older).scores == {"a": 1.0}
    assert LoopState.from_json(older).block.stop_step == 4
    for damaged in (
        {},
        [],
        None,
        "block",
        {"block": []},
        {"block": {"number": 1}},
        {**older, "contention": 1},
    ):
        with pytest.raises(ValueError, match="not the state of a loop"):
            LoopState.from_json(json.loads(json.dumps(damaged)))
