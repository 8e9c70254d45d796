"""Paths that cannot be stored in a log or in JSON are refused before any file is written."""

import os
import re
import subprocess
import sys

import pytest

from tests.helpers import PROJECT, TOY_RUN, refusal, run_suite

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
EXPORT = "paths in this locale are ASCII. Run: export LC_ALL=C.UTF-8"


@pytest.mark.parametrize(
    ("locale", "setting", "message"),
    [
        ({}, "output", r"t\\xff: the path is not valid UTF-8\. Set a different folder"),
        ({}, "SUITE_LOG_DIR", r"SUITE_LOG_DIR=.*t\\xff: the path is not valid UTF-8"),
        ({}, "SUITE_DATA_DIR", r"SUITE_DATA_DIR=.*t\\xff: the path is not valid UTF-8"),
        (ASCII, "output", EXPORT),
    ],
)
def test_a_path_that_is_not_text_is_refused(tmp_path, locale, setting, message):
    path = os.fsdecode(
        os.fsencode(tmp_path / "new") + (b"/t\xff" if not locale else "/zählung".encode())
    )
    overrides, environment = (
        ([f"output={path}"], {}) if setting == "output" else ([], {setting: path})
    )
    assert re.search(
        message,
        refusal(run_suite(tmp_path, *TOY_RUN, *overrides, toy=True, **locale, **environment)),
    )
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "logs").exists()


def test_a_non_ascii_path_in_a_file_is_refused_in_an_ascii_locale(tmp_path):
    path = tmp_path / "user" / "study" / "night.yaml"
    path.parent.mkdir(parents=True)
    text = "sentence: One.\nset: {workload: toy, framework: plain, output: zählung}\n"
    path.write_text(text, encoding="utf-8")
    arguments = ("--config-dir", "user", "study=night", "profile=demo")
    assert EXPORT in refusal(run_suite(tmp_path, *arguments, toy=True, **ASCII))
    assert [entry.name for entry in tmp_path.iterdir()] == ["user"]


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
