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


def test_one_holder_at_a_time_and_none_afterwards(tmp_path):
    output = tmp_path / "a" / "b"
    assert not holder_was_killed(output), "nobody was ever there"
    for _ in range(2):
        with output_locked(output):
            assert not holder_was_killed(output)
            said = f"{output}: a running run_suite.py already writes into this folder"
            with pytest.raises(ValueError, match=said), output_locked(output):
                pass
        assert not output.exists()
        assert not holder_was_killed(output), "it ended and let go"


def test_a_killed_holder_is_told_from_one_that_lives(holder, tmp_path, monkeypatch):
    output = tmp_path / "held"
    assert not holder_was_killed(output)
    holder.kill()
    holder.wait()
    assert holder_was_killed(output)
    assert holder_was_killed(output), "asking changes nothing"
    monkeypatch.setattr(output_lock.socket, "gethostname", lambda: "elsewhere")
    assert not holder_was_killed(output), (
        "whether another machine's holder lives cannot be seen from here"
    )
    monkeypatch.undo()
    with output_locked(output):
        assert not holder_was_killed(output)
    assert not (output / LOCK_FILE).exists()


def test_of_a_copied_folder_nobody_can_tell(holder, tmp_path):
    copy = shutil.copytree(tmp_path / "held", tmp_path / "copy")
    assert not holder_was_killed(copy)


def bind_socket(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


NO_LOCKS = {
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
    "a second name of a file": lambda path: path.hardlink_to(path.with_name("empty")),
}


@pytest.mark.parametrize("make", NO_LOCKS.values(), ids=NO_LOCKS)
def test_what_is_no_lock_is_not_overwritten(tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)  # a socket's path may have a hundred bytes
    (tmp_path / "mine").write_text("mine\n")
    (tmp_path / "empty").touch()
    make(Path(LOCK_FILE)) if make is bind_socket else make(tmp_path / LOCK_FILE)
    message = (
        rf"{LOCK_FILE} is not a lock file of this suite, so it is not overwritten\. "
        r"Remove it, or set a different output=FOLDER$"
    )
    with pytest.raises(ValueError, match=message), output_locked(tmp_path):
        pass
    assert os.path.lexists(tmp_path / LOCK_FILE)
    assert ((tmp_path / "mine").read_text(), (tmp_path / "empty").read_bytes()) == ("mine\n", b"")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("place", ["loop", "loop/below", "nowhere", "nowhere/below"])
def test_an_output_that_is_a_link_to_nothing_is_one_line(tmp_path, place):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    for words in ([], ["dry_run=true"], ["resume=true"]):
        line = refusal(
            run_suite_here(tmp_path, *TOY_RUN, f"output={tmp_path / place}", *words, toy=True)
        )
        assert "is a broken link. Remove the link, or set a different output=FOLDER" in line
    assert not (tmp_path / "gone").exists()


def test_a_linked_lock_is_one_line_of_a_run(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / LOCK_FILE).symlink_to(tmp_path / "precious")
    line = refusal(run_suite_here(tmp_path, *TOY_RUN, f"output={tmp_path / 'out'}", toy=True))
    assert "is not a lock file of this suite" in line
    assert not (tmp_path / "precious").exists()


@pytest.mark.parametrize("content", [b"", b"\0" * 300, b"host 1\n"])
def test_a_lock_file_that_no_controller_wrote(tmp_path, content):
    (tmp_path / LOCK_FILE).write_bytes(content)
    assert not holder_was_killed(tmp_path)
    (tmp_path / LOCK_FILE).unlink()
    (tmp_path / LOCK_FILE).mkdir()
    assert not holder_was_killed(tmp_path)


def test_a_folder_that_is_made_again_is_another(tmp_path):
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
    assert (output / LOCK_FILE).exists()  # not the one that was locked


@pytest.mark.parametrize("was_there", [False, True])
def test_a_folder_that_was_made_and_stays_empty_goes(tmp_path, was_there):
    output = tmp_path / "out"
    if was_there:
        output.mkdir()
    with pytest.raises(ValueError, match="refused"), output_locked(output):
        raise ValueError("refused")
    assert output.exists() == was_there
