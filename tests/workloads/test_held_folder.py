"""Working folders end with their process, or with the next call.

Folders of other users or living processes are not touched.
"""

import json
import os
import subprocess

import pytest

from tests.helpers import python
from workloads import held_folder
from workloads.held_folder import MARKER, HeldFolder, names_itself, remove_left
from workloads.held_folder import held_folder as held
from workloads.process_identity import this_process

PREFIX = ".work."
HOLD = """import sys, pathlib
from workloads.held_folder import HeldFolder
print(HeldFolder(pathlib.Path(sys.argv[1]), ".work.").path, flush=True)
sys.stdin.read()
"""
ENDED = {**this_process(), "pid": 2**22 + 1}
EARLIER_BOOT = {**this_process(), "boot": "00000000-0000-0000-0000-000000000000"}


def make(parent, marker, name="left"):
    """Create a folder with a marker, as a killed holder leaves it."""
    folder = parent / f"{PREFIX}{name}"
    folder.mkdir()
    (folder / "paper.txt").touch()
    (folder / MARKER).write_text(
        json.dumps(marker if "folder" in marker else {"folder": folder.name, **marker})
    )
    return folder


def test_a_folder_exists_while_it_is_held(tmp_path):
    with held(tmp_path, PREFIX) as folder:
        (folder / "deep").mkdir()
        remove_left(tmp_path, PREFIX)
        assert folder.is_dir()
    assert not list(tmp_path.iterdir())


def test_the_next_call_removes_what_a_killed_process_left(tmp_path):
    with python(
        HOLD, tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        folder = held_folder.Path(process.stdout.readline().strip())
        remove_left(tmp_path, PREFIX)
        assert folder.is_dir(), "its holder lives"
        process.kill()
        process.wait()
    remove_left(tmp_path, ".other.")
    assert folder.is_dir(), "another command's"
    HeldFolder(tmp_path, PREFIX).end()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("process", [ENDED, EARLIER_BOOT], ids=["ended", "earlier boot"])
def test_folders_of_ended_holders_are_removed(tmp_path, process):
    make(tmp_path, {"process": process})
    remove_left(tmp_path, PREFIX)
    assert not list(tmp_path.iterdir())


UNKNOWN = {
    "a process that lives": {"process": this_process()},
    "no process": {},
    "a process of another machine": {"process": {**EARLIER_BOOT, "host": "elsewhere"}},
    "a process of another container": {"process": {**ENDED, "namespace": "pid:[1]"}},
    "no boot id": {
        "process": {name: value for name, value in ENDED.items() if name != "boot"}
        | {"host": "elsewhere"}
    },
    "a process id of another kind": {"process": {**ENDED, "pid": "1"}},
    "a process that is a list": {"process": [1]},
    "the name of another folder": {"folder": "other", "process": ENDED},
}


@pytest.mark.parametrize("marker", UNKNOWN.values(), ids=UNKNOWN)
def test_a_folder_whose_holder_may_live_stays(tmp_path, marker):
    folder = make(tmp_path, marker)
    remove_left(tmp_path, PREFIX)
    assert (folder / "paper.txt").exists()


def linked_marker(folder, parent):
    marker = parent / "marker"
    (folder / MARKER).rename(marker)
    (folder / MARKER).symlink_to(marker)


def hard_linked_marker(folder, parent):
    (parent / "marker").hardlink_to(folder / MARKER)


def folder_for_marker(folder, parent):
    (folder / MARKER).unlink()
    (folder / MARKER).mkdir()


@pytest.mark.parametrize("change", [linked_marker, hard_linked_marker, folder_for_marker])
def test_a_marker_that_is_not_a_regular_file_is_ignored(tmp_path, change):
    folder = make(tmp_path, {"process": ENDED})
    change(folder, tmp_path)
    remove_left(tmp_path, PREFIX)
    assert (folder / "paper.txt").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to other users")
@pytest.mark.parametrize("strangers", ["the marker", "the folder", "both"])
def test_files_of_other_users_stay(tmp_path, strangers):
    folder = make(tmp_path, {"process": ENDED})
    for path in {
        "the marker": [folder / MARKER],
        "the folder": [folder],
        "both": [folder, folder / MARKER],
    }[strangers]:
        os.chown(path, 12345, 12345)
    remove_left(tmp_path, PREFIX)
    assert (folder / "paper.txt").exists()


def test_links_to_and_in_a_folder_are_not_followed(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    real = make(kept, {"process": ENDED})
    (tmp_path / real.name).symlink_to(real)
    remove_left(tmp_path, PREFIX)
    assert (real / "paper.txt").exists()
    left = make(tmp_path, {"process": ENDED}, "second")
    (left / "link").symlink_to(kept)
    remove_left(tmp_path, PREFIX)
    assert not left.exists()
    assert (real / "paper.txt").exists()
    assert not names_itself(tmp_path / real.name)


def test_missing_parents_and_file_systems_without_locks_work(tmp_path, monkeypatch):
    remove_left(tmp_path / "none", PREFIX)
    monkeypatch.setattr(held_folder, "_locked", lambda folder: None)
    with held(tmp_path, PREFIX) as folder:
        assert folder.is_dir()
    assert not list(tmp_path.iterdir())
