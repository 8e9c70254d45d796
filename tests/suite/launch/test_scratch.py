"""Scratch folders: they are removed when their run ends, and results are kept."""

import json
import os
import shutil
import subprocess

import pytest

from suite.launch import scratch
from suite.launch.scratch import MARKER, PREFIX, Scratch, scratch_above
from tests.helpers import python, refusal, run_suite
from workloads.process_identity import this_process


def ended_process():
    """Return the marker entry of a process of this machine that has ended."""
    return {**this_process(), "pid": 2**22 + 1}


HOLD = (
    "from suite.launch.scratch import Scratch; import sys; print(Scratch().path, flush=True);"
    " sys.stdin.read()"
)


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """Set TMPDIR to a temporary folder, here and for child processes."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left_behind():
    """Return the folder of a holder that was killed."""
    with python(HOLD, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        folder = scratch.Path(holder.stdout.readline().strip())
        Scratch().end()
        assert folder.exists(), "its holder lives"
    return folder


def test_a_scratch_folder_exists_while_it_is_held(temporary):
    first, second = Scratch(), Scratch()
    (first.path / "some" / "deep").mkdir(parents=True)
    assert sorted(temporary.iterdir()) == sorted([first.path, second.path])
    assert first.path.stat().st_mode & 0o077 == 0, "it is private"
    first.end()
    second.end()
    assert not list(temporary.iterdir())


def test_the_next_holder_removes_the_folder_of_a_killed_holder(temporary):
    folder = left_behind()
    (folder / "tmp").mkdir()
    # The run.json that an agent writes, whose run folder is the scratch folder.
    (folder / "run.json").write_text(json.dumps({"folder": str(folder)}))
    Scratch().end()
    assert not list(temporary.iterdir())


def result(folder):
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_text(json.dumps({"folder": "/home/me/logs/run_0"}))


NEIGHBOURS = {
    "a file": lambda path, left: path.touch(),
    "an unrelated folder": lambda path, left: (path.mkdir(), (path / "paper.txt").touch()),
    "a result": lambda path, left: result(path),
    "a link to what is left": lambda path, left: path.symlink_to(left),
    "a copy of what is left": lambda path, left: shutil.copytree(left, path),
    "a marker that is a pipe": lambda path, left: (path.mkdir(), os.mkfifo(path / MARKER)),
    "a marker without an end": lambda path, left: (
        path.mkdir(),
        (path / MARKER).symlink_to("/dev/zero"),
    ),
    "an invalid marker": lambda path, left: (
        path.mkdir(),
        (path / MARKER).write_text("[" * 100_000),
    ),
    "a marker of another kind": lambda path, left: (path.mkdir(), (path / MARKER).write_text("[]")),
}


@pytest.mark.parametrize("make", NEIGHBOURS.values(), ids=NEIGHBOURS)
def test_paths_without_a_valid_marker_are_kept(temporary, make):
    left = temporary / f"{PREFIX}left"
    left.mkdir()
    (left / MARKER).write_text(json.dumps({"folder": left.name, "process": ended_process()}))
    make(temporary / f"{PREFIX}other", left)
    Scratch().end()
    assert [path.name for path in temporary.iterdir()] == [f"{PREFIX}other"]


@pytest.mark.parametrize("subfolder", ["", "kept", "run_0/deep"])
def test_a_result_in_a_scratch_folder_is_kept(subfolder):
    folder = left_behind()
    (folder / subfolder).mkdir(parents=True, exist_ok=True)
    result(folder / subfolder)
    Scratch().end()
    assert (folder / subfolder / "run.json").exists()
    held = Scratch()
    result(held.path)
    held.end()
    assert (held.path / "run.json").exists()


def test_links_in_a_scratch_folder_are_not_followed(temporary):
    (temporary / "mine").mkdir()
    (temporary / "mine" / "paper.txt").touch()
    held = Scratch()
    (held.path / "link").symlink_to(temporary / "mine")
    held.end()
    assert (temporary / "mine" / "paper.txt").exists()
    assert not held.path.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="another user's folder is made by root")
def test_the_folder_of_another_user_is_kept(temporary):
    left = temporary / f"{PREFIX}theirs"
    left.mkdir()
    (left / MARKER).write_text(json.dumps({"folder": left.name, "process": ended_process()}))
    os.chown(left, 12345, 12345)
    Scratch().end()
    assert left.exists()


@pytest.mark.slow
def test_no_run_writes_into_a_scratch_folder(temporary):
    held = Scratch()
    (temporary / "link").symlink_to(held.path)
    for output in (held.path, held.path / "a" / "b", temporary / "link" / "a"):
        assert scratch_above(output) == held.path
        done = run_suite(temporary, "workload=ncf", "profile=demo", f"output={output}")
        assert "output=FOLDER" in refusal(done)
    assert [path.name for path in held.path.iterdir()] == [MARKER]
    assert scratch_above(temporary / f"{PREFIX}tuesday") is None
    held.end()


def test_a_path_that_is_a_link_to_itself_is_in_no_scratch_folder(temporary):
    (temporary / "loop").symlink_to(temporary / "loop")
    assert scratch_above(temporary / "loop") is None
    assert scratch_above(temporary / "loop" / "below") is None
