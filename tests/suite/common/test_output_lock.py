"""The lock of an output folder: one holder, detection of killed holders, and invalid lock files."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from suite.common import output_lock
from suite.common.output_lock import LOCK_FILE, holder_was_killed, output_locked
from tests.helpers import TOY_RUN, python, refusal, run_suite_here

HOLD = """import sys, pathlib, time
from suite.common.output_lock import output_locked
with output_locked(pathlib.Path(sys.argv[1])):
    print('held', flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    with python(HOLD, tmp_path / "held", stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process


def test_a_folder_has_one_holder_and_is_removed_if_empty(tmp_path):
    output = tmp_path / "a" / "b"
    assert not holder_was_killed(output), "the folder was never locked"
    for _ in range(2):
        with output_locked(output):
            assert not holder_was_killed(output)
            message = f"{output}: a running run_suite.py already writes into this folder"
            with pytest.raises(ValueError, match=message), output_locked(output):
                pass
        assert not output.exists()
        assert not holder_was_killed(output), "the holder released the lock"


def test_a_killed_holder_is_distinguished_from_a_live_holder(holder, tmp_path, monkeypatch):
    output = tmp_path / "held"
    assert not holder_was_killed(output)
    holder.kill()
    holder.wait()
    assert holder_was_killed(output)
    assert holder_was_killed(output), "the check does not change the lock"
    monkeypatch.setattr(output_lock.socket, "gethostname", lambda: "elsewhere")
    assert not holder_was_killed(output), "the state of a holder on another machine is unknown"
    monkeypatch.undo()
    with output_locked(output):
        assert not holder_was_killed(output)
    assert not (output / LOCK_FILE).exists()


def test_the_holder_of_a_copied_folder_is_unknown(holder, tmp_path):
    copy = shutil.copytree(tmp_path / "held", tmp_path / "copy")
    assert not holder_was_killed(copy)


def bind_socket(path):
    with socket.socket(socket.AF_UNIX) as bound_socket:
        bound_socket.bind(str(path))


INVALID_LOCKS = {
    "a text": lambda path: path.write_text("mine\n"),
    "a pipe": os.mkfifo,
    "a folder": lambda path: path.mkdir(),
    "a socket": bind_socket,
    "a link to a file": lambda path: path.symlink_to("mine"),
    "a link to a lock": lambda path: path.symlink_to("empty"),
    "a link to a folder": lambda path: path.symlink_to("."),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a hard link to a file": lambda path: path.hardlink_to(path.with_name("empty")),
}


@pytest.mark.parametrize("create", INVALID_LOCKS.values(), ids=INVALID_LOCKS)
def test_a_path_that_is_not_a_lock_is_not_overwritten(tmp_path, monkeypatch, create):
    monkeypatch.chdir(tmp_path)  # The path of a socket has at most 108 bytes.
    (tmp_path / "mine").write_text("mine\n")
    (tmp_path / "empty").touch()
    create(Path(LOCK_FILE)) if create is bind_socket else create(tmp_path / LOCK_FILE)
    message = (
        rf"{LOCK_FILE} is not a lock file of this suite, so it is not overwritten\. "
        r"Remove it, or set a different output=FOLDER$"
    )
    with pytest.raises(ValueError, match=message), output_locked(tmp_path):
        pass
    assert os.path.lexists(tmp_path / LOCK_FILE)
    assert ((tmp_path / "mine").read_text(), (tmp_path / "empty").read_bytes()) == ("mine\n", b"")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("path", ["loop", "loop/below", "nowhere", "nowhere/below"])
def test_an_output_that_is_a_broken_link_is_refused_in_one_line(tmp_path, path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    for arguments in ([], ["dry_run=true"], ["resume=true"]):
        line = refusal(
            run_suite_here(tmp_path, *TOY_RUN, f"output={tmp_path / path}", *arguments, toy=True)
        )
        assert "is a broken link. Remove the link, or set a different output=FOLDER" in line
    assert not (tmp_path / "gone").exists()


def test_a_run_refuses_a_linked_lock_in_one_line(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / LOCK_FILE).symlink_to(tmp_path / "precious")
    line = refusal(run_suite_here(tmp_path, *TOY_RUN, f"output={tmp_path / 'out'}", toy=True))
    assert "is not a lock file of this suite" in line
    assert not (tmp_path / "precious").exists()


@pytest.mark.parametrize("content", [b"", b"\0" * 300, b"host 1\n"])
def test_a_foreign_lock_file_has_no_killed_holder(tmp_path, content):
    (tmp_path / LOCK_FILE).write_bytes(content)
    assert not holder_was_killed(tmp_path)
    (tmp_path / LOCK_FILE).unlink()
    (tmp_path / LOCK_FILE).mkdir()
    assert not holder_was_killed(tmp_path)


def test_a_deleted_and_recreated_folder_is_detected(tmp_path):
    output = tmp_path / "out"
    with output_locked(output) as check:
        check()
        shutil.rmtree(output)
        for _ in range(2):
            with pytest.raises(
                FileNotFoundError, match="deleted while the suite wrote into it"
            ) as error:
                check()
            assert error.value.filename == str(output)
            output.mkdir(exist_ok=True)
            (output / LOCK_FILE).touch()
    assert (output / LOCK_FILE).exists()  # not the file that was locked


@pytest.mark.parametrize("exists_before", [False, True])
def test_a_created_folder_that_stays_empty_is_removed(tmp_path, exists_before):
    output = tmp_path / "out"
    if exists_before:
        output.mkdir()
    with pytest.raises(ValueError, match="refused"), output_locked(output):
        raise ValueError("refused")
    assert output.exists() == exists_before
