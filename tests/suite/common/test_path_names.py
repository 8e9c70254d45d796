"""Paths that neither a log nor JSON can hold are refused before anything is written."""

import os
import re
import subprocess
import sys

import pytest

from tests.helpers import PROJECT, TOY_RUN, variables

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize(
    ("locale", "setting", "said"),
    [
        ({}, "output", rb"t\\xff: its bytes are no UTF-8; name another folder"),
        ({}, "SUITE_LOG_DIR", rb"SUITE_LOG_DIR=.*t\\xff: its bytes are no UTF-8"),
        ({}, "SUITE_DATA_DIR", rb"SUITE_DATA_DIR=.*t\\xff: its bytes are no UTF-8"),
        (ASCII, "output", b"this locale's paths are ASCII; type: export LC_ALL=C.UTF-8"),
    ],
)
def test_a_path_that_is_no_text_is_refused(tmp_path, locale, setting, said):
    place = os.fsencode(tmp_path / "new") + (b"/t\xff" if not locale else "/zählung".encode())
    typed = [b"output=" + place] if setting == "output" else []
    surroundings = {**variables(tmp_path, toy=True), **locale, **({} if typed else {setting: os.fsdecode(place)})}
    done = subprocess.run(
        [sys.executable, str(PROJECT / "run_suite.py"), *TOY_RUN, *typed],
        capture_output=True, timeout=300, cwd=tmp_path, env=surroundings,
    )  # fmt: skip
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1), done.stderr
    assert re.search(said, done.stderr), done.stderr
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "logs").exists()


def test_a_path_of_a_file_is_refused_where_paths_are_ascii(tmp_path):
    path = tmp_path / "own" / "study" / "night.yaml"
    path.parent.mkdir(parents=True)
    text = "sentence: One.\nset: {workload: toy, framework: plain, output: zählung}\n"
    path.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(PROJECT / "run_suite.py"), "--config-dir", "own", "study=night", "profile=demo"],
        capture_output=True, timeout=300, cwd=tmp_path, env={**variables(tmp_path, toy=True), **ASCII},
    )  # fmt: skip
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1), done.stderr
    assert b"this locale's paths are ASCII; type: export LC_ALL=C.UTF-8" in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["own"]


@pytest.mark.parametrize("command", [[str(PROJECT / "run_suite.py"), "--help"], ["-m", "suite.cli", "report", "x"]])
def test_a_current_folder_that_was_deleted_is_named(tmp_path, command):
    code = f"import os, subprocess, sys; os.rmdir(os.getcwd()); sys.exit(subprocess.call([sys.executable, *{command}]))"
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "gone", capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "type cd FOLDER" in done.stderr
