import os
import shutil
import subprocess

import pytest

from suite.common import output_lock
from suite.common.output_lock import LOCK_FILE, holder_was_killed, output_locked
from tests.helpers import python

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
            said = f"{output}: another run_suite.py writes into it now"
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
    assert not holder_was_killed(output), "whether another machine's holder lives cannot be seen from here"
    monkeypatch.undo()
    with output_locked(output):
        assert not holder_was_killed(output)
    assert not (output / LOCK_FILE).exists()


def test_of_a_copied_folder_nobody_can_tell(holder, tmp_path):
    copy = shutil.copytree(tmp_path / "held", tmp_path / "copy")
    assert not holder_was_killed(copy)


@pytest.mark.parametrize("make", [lambda one: one.write_text("mine\n"), os.mkfifo, lambda one: one.symlink_to("mine")])
def test_what_is_no_lock_is_not_overwritten(tmp_path, make):
    (tmp_path / "mine").write_text("mine\n")
    make(tmp_path / LOCK_FILE)
    with pytest.raises((ValueError, OSError), match=LOCK_FILE), output_locked(tmp_path):
        pass
    assert os.path.lexists(tmp_path / LOCK_FILE)
    assert (tmp_path / "mine").read_text() == "mine\n"


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
            with pytest.raises(FileNotFoundError, match="deleted while the suite wrote into it") as error:
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
