"""The file of a checkpoint: whole or not at all, and damage is told wherever it lies."""

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


def test_what_is_written_is_read(tmp_path):
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


def test_the_last_two_are_kept_and_found_the_newest_first(tmp_path):
    for step in (9, 10, 100, 99):
        written(tmp_path, step)
    (tmp_path / "checkpoint_x.npz").touch()
    assert [path.name for path in checkpoint_files.found(tmp_path)] == [
        "checkpoint_100.npz",
        "checkpoint_99.npz",
    ]
    assert checkpoint_files.found(tmp_path / "none") == []


@examples(60)
@given(cut=st.booleans(), where=st.integers(0, 10_000))
def test_damage_is_told(tmp_path_factory, cut, where):
    """Cut off anywhere, or one byte changed in what is read: names and sizes of the members, and
    their content.
    """
    path = written(tmp_path_factory.mktemp("one"))
    data = bytearray(path.read_bytes())
    where %= len(data)
    if cut:
        data = data[:where]
    else:
        data[where] ^= 0x55
    path.write_bytes(data)
    if not checkpoint_files.damage(path):
        found = checkpoint_files.read(
            path
        )  # a byte that nothing depends on: a date, a comment's length of zero
        assert all(np.array_equal(found.state[name], STATE[name]) for name in STATE)
        assert (found.log, found.metrics) == (b"log\n", b"")


@pytest.mark.parametrize("save", [np.savez_compressed, np.savez])
def test_another_archive_is_none(tmp_path, save):
    save(tmp_path / "checkpoint_1.npz", a=np.zeros(3))
    assert checkpoint_files.damage(tmp_path / "checkpoint_1.npz")


def test_a_disk_without_room_leaves_no_part(tmp_path, monkeypatch):
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


def test_the_state_of_the_loop_of_other_versions():
    """Keys that were added later have defaults; keys of a later version are left out."""
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
