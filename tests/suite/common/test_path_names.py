"""Paths that neither a log nor JSON can hold are refused before anything is written."""

import os
import re
import subprocess
import sys

import pytest

from tests.helpers import PROJECT, TOY_RUN, refusal, run_suite

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
EXPORT = "paths in this locale are ASCII. Run: export LC_ALL=C.UTF-8"


@pytest.mark.parametrize(
    ("locale", "setting", "said"),
    [
        ({}, "output", r"t\\xff: the path is not valid UTF-8\. Set a different folder"),
        ({}, "SUITE_LOG_DIR", r"SUITE_LOG_DIR=.*t\\xff: the path is not valid UTF-8"),
        ({}, "SUITE_DATA_DIR", r"SUITE_DATA_DIR=.*t\\xff: the path is not valid UTF-8"),
        (ASCII, "output", EXPORT),
    ],
)
def test_a_path_that_is_no_text_is_refused(tmp_path, locale, setting, said):
    place = os.fsdecode(
        os.fsencode(tmp_path / "new") + (b"/t\xff" if not locale else "/zählung".encode())
    )
    typed, own = ([f"output={place}"], {}) if setting == "output" else ([], {setting: place})
    assert re.search(
        said, refusal(run_suite(tmp_path, *TOY_RUN, *typed, toy=True, **locale, **own))
    )
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "logs").exists()


def test_a_path_of_a_file_is_refused_where_paths_are_ascii(tmp_path):
    path = tmp_path / "own" / "study" / "night.yaml"
    path.parent.mkdir(parents=True)
    text = "sentence: One.\nset: {workload: toy, framework: plain, output: zählung}\n"
    path.write_text(text, encoding="utf-8")
    words = ("--config-dir", "own", "study=night", "profile=demo")
    assert EXPORT in refusal(run_suite(tmp_path, *words, toy=True, **ASCII))
    assert [one.name for one in tmp_path.iterdir()] == ["own"]


@pytest.mark.parametrize(
    "command", [[str(PROJECT / "run_suite.py"), "--help"], ["-m", "suite.cli", "report", "x"]]
)
def test_a_current_folder_that_was_deleted_is_named(tmp_path, command):
    code = (
        "import os, subprocess, sys; os.rmdir(os.getcwd());"
        f" sys.exit(subprocess.call([sys.executable, *{command}]))"
    )
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "gone", capture_output=True, text=True
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "Run: cd FOLDER" in done.stderr
