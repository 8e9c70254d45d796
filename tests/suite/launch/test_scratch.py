"""Temporary files of a run end with it."""

import subprocess
import sys

import pytest

from suite.launch import scratch
from suite.launch.scratch import PREFIX, Scratch

HOLD = "from suite.launch.scratch import Scratch; import sys; print(Scratch().path, flush=True); sys.stdin.read()"


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """An own TMPDIR, here and for processes."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_exists_while_it_is_held(temporary):
    one, other = Scratch(), Scratch()
    (one.path / "some" / "deep").mkdir(parents=True)
    assert sorted(temporary.iterdir()) == sorted([one.path, other.path])
    assert one.path.stat().st_mode & 0o077 == 0, "nobody else looks into it"
    one.end()
    other.end()
    assert not list(temporary.iterdir())


def test_the_next_one_removes_what_a_killed_holder_left_and_nothing_else(temporary):
    (temporary / f"{PREFIX}file").touch()
    (temporary / "mine").mkdir()
    (temporary / f"{PREFIX}link").symlink_to(temporary / "mine")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        held = temporary / holder.stdout.readline().strip()
        Scratch().end()
        assert held.exists(), "its holder lives"
        holder.kill()
    Scratch().end()
    assert {path.name for path in temporary.iterdir()} == {f"{PREFIX}file", "mine", f"{PREFIX}link"}
