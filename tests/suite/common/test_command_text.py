"""Commands in messages are written so that the user's shell finds the program."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from suite.cli import COMMANDS
from suite.common.command_text import localize_commands, program
from tests.helpers import PROJECT, run_suite

BIN = Path(sys.executable).parent


def started_by_a_script(monkeypatch, folder, path=""):
    monkeypatch.setattr(sys, "argv", [str(PROJECT / "run_suite.py")])
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", path)


def test_a_path_below_the_working_directory_is_relative(monkeypatch):
    started_by_a_script(monkeypatch, PROJECT)
    below = os.path.relpath(BIN)
    start = below if not below.startswith("..") else str(BIN)
    assert (
        localize_commands("type: suite env create torch") == f"type: {start}/suite env create torch"
    )
    assert (
        localize_commands("python run_suite.py workload=ncf")
        == f"{start}/python run_suite.py workload=ncf"
    )


def test_another_working_directory_needs_an_absolute_path_or_a_name_on_path(monkeypatch, tmp_path):
    started_by_a_script(monkeypatch, tmp_path)
    assert localize_commands("(suite published list)") == f"({BIN}/suite published list)"
    assert (
        localize_commands("python run_suite.py a=1")
        == f"{sys.executable} {PROJECT}/run_suite.py a=1"
    )
    started_by_a_script(monkeypatch, tmp_path, str(BIN))
    assert localize_commands("type: suite data list") == "type: suite data list"
    assert localize_commands("python run_suite.py a=1") == f"python {PROJECT}/run_suite.py a=1"


def test_text_without_commands_stays_unchanged(monkeypatch, tmp_path):
    started_by_a_script(monkeypatch, tmp_path)
    for text in (
        "the suite is not installed",
        ".venv/bin/suite env list",
        "suite/compliance",
        "suite.control.x",
    ):
        assert localize_commands(text) == text


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("run_suite.py", "run_suite.py"),
        ("tests/pytest/__main__.py", "run_suite.py"),
        *(
            (script, "suite run")
            for script in ("suite/cli.py", "suite/__main__.py", ".venv/bin/suite")
        ),
    ],
)
def test_the_program_name_is_the_started_script(script, name, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(PROJECT / script)])
    assert program() == name


def test_the_main_module_of_another_program_is_not_the_suite(monkeypatch, tmp_path):
    (tmp_path / "__main__.py").touch()
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "__main__.py")])
    assert localize_commands("type: suite data list") == "type: suite data list"


def test_the_command_of_a_hint_runs_unchanged(tmp_path):
    done = run_suite(tmp_path, "workload=ncf", "profile=demo", SUITE_ENV_DIR=str(tmp_path / "none"))
    command = done.stderr.strip().rpartition("Run: ")[2].split()
    assert command[-3:] == ["env", "create", "torch"]
    listing = subprocess.run(
        [*command[:-2], "list"], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert "torch" in listing.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_subcommand_is_recognized(command, monkeypatch, tmp_path):
    started_by_a_script(monkeypatch, tmp_path)
    assert localize_commands(f"type: suite {command} x") == f"type: {BIN}/suite {command} x"
