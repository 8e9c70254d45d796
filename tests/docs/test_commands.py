"""Every command in the documentation is valid: it runs, or its program accepts the arguments."""

import importlib.util
import re
import sys
from pathlib import Path
from unittest import mock

import pytest

from suite.cli import COMMANDS
from suite.cli import main as suite
from suite.common import registry
from suite.config.compose import compose
from suite.control.hosts import commands
from testing.fake_logs import write_run
from tests.docs.commands import PAGES, UNMARKED, Command, commands_of
from tests.docs.page_files import write_files
from tests.helpers import PROJECT, run_suite_here, suite_here

SHOWN = sorted(
    (command for page in PAGES for command in commands_of(page)), key=lambda command: command.runs
)
ALL = list({command.words: command for command in SHOWN}.values())
RUN = [command for command in ALL if command.runs]
TUTORIAL = "docs/tutorials/add_a_workload.md"
MAKE_TARGETS = set(re.findall(r"^([a-z-]+):.*##", (PROJECT / "Makefile").read_text(), re.MULTILINE))


def name(command):
    return f"{command}-{'_'.join(command.words[:4])}".replace("/", "_")


@pytest.fixture
def folder(tmp_path):
    """Return the folder for commands, with the logs of two sweeps over 1 and 2 devices."""
    for sweep, factor in (("before", 1.0), ("after", 0.8)):
        for devices, seconds in ((1, 2.0), (2, 1.2)):
            epoch_seconds = factor * seconds
            figures = {"seconds_per_epoch": epoch_seconds, "train_seconds": epoch_seconds - 0.4}
            write_run(tmp_path / "logs" / sweep, f"ncf-{devices}", devices=devices, **figures)
    (tmp_path / "tests").symlink_to(PROJECT / "tests")
    return tmp_path


def lines_plugin(tmp_path):
    """Return the folder for the commands of the tutorial."""
    write_files(PROJECT / TUTORIAL, tmp_path / "lines_plugin")
    return tmp_path / "lines_plugin"


def test_pages_are_found_and_have_commands():
    assert len(PAGES) > 20
    assert len(ALL) > 40
    assert len(RUN) > 10


def test_the_readme_starts_with_a_demo_the_tests_and_a_run():
    first = [
        " ".join(command.words).removeprefix(".venv/bin/python ")
        for command in commands_of(PROJECT / "README.md")
    ]
    assert first == ["make demo", "make test", "run_suite.py workload=ssd gpus=8"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_command_is_in_an_indented_block(page):
    assert not UNMARKED.search(page.read_text(encoding="utf-8")), (
        "put the command into a block of sh, so that tests find it"
    )


@pytest.fixture
def plugins_forgotten(monkeypatch):
    """Remove the modules and paths that a command with `plugins=` adds to this process."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    monkeypatch.undo()
    for name in [name for name in sys.modules if name.partition(".")[0] == "lines"]:
        # The tutorial's package has the same name as the package in the test data.
        del sys.modules[name]
    registry.refresh()


def marked(command):
    """Return a parameter that is marked slow if the command is a study or a sweep."""
    many = any(word == "-m" or word.startswith("study=") for word in command.arguments)
    return pytest.param(command, marks=[pytest.mark.slow] * many)


@pytest.mark.parametrize("command", [marked(command) for command in ALL], ids=name)
@pytest.mark.usefixtures("plugins_forgotten")
def test_a_command_is_accepted_by_its_program(command, monkeypatch, tmp_path):
    """Parse overrides of runs, options of subcommands, targets of make, and scripts."""
    if command.program == "run_suite.py":
        monkeypatch.chdir(lines_plugin(tmp_path) if command.page == TUTORIAL else PROJECT)
        resumes_folder = {word.partition("=")[0] for word in command.arguments} == {
            "resume",
            "output",
        }
        if (
            "--help" not in command.words and not resumes_folder
        ):  # A resumed run takes its settings from the folder.
            assert compose(command.arguments).jobs
    elif command.program == "suite":
        here, elsewhere = mock.Mock(return_value=0), mock.Mock(return_value=0)
        monkeypatch.setattr(
            importlib.import_module(f"suite.commands.{command.arguments[0]}"), "run", here
        )
        monkeypatch.setattr(commands, "run_on_hosts", elsewhere)
        assert suite(command.arguments) == 0
        assert elsewhere.called == bool({"--hosts", "--hostfile"}.intersection(command.arguments))
        assert here.called != elsewhere.called
    elif command.program == "make":
        assert set(command.arguments) <= MAKE_TARGETS
    elif command.program.startswith("benchmarks."):
        text = Path(importlib.util.find_spec(command.program).origin).read_text(encoding="utf-8")
        assert all(f'"{word}"' in text for word in command.arguments if word.startswith("--"))
    else:
        assert command.program in {"pip", "curl", "source", "git", "export", "salloc", "docker"}


@pytest.mark.parametrize("command", RUN, ids=name)
@pytest.mark.usefixtures("plugins_forgotten")
def test_a_command_without_a_mark_runs(command, folder):
    if command.program == "run_suite.py":
        done = run_suite_here(
            lines_plugin(folder) if command.page == TUTORIAL else folder, *command.arguments
        )
    else:
        assert command.program == "suite", "mark what a test cannot run: needs …, takes …"
        done = suite_here(folder, *command.arguments, SUITE_LOG_DIR=str(folder / "logs"))
    assert done.returncode == 0, done.stderr


def test_the_documentation_shows_every_subcommand():
    assert {command.words[1] for command in ALL if command.words[0].endswith("suite")} == set(
        COMMANDS
    )


def test_comments_and_continued_lines_are_parsed(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.docs.commands.PROJECT", tmp_path)
    page = tmp_path / "page.md"
    code = (
        "# note",
        ".venv/bin/suite report logs/ \\",
        "  --html a.html  # needs data: b",
        "python -m benchmarks.x --a",
    )
    page.write_text("\n".join(["x\n\n```sh", *code, "```\n"]))
    assert list(commands_of(page)) == [
        Command(
            "page.md",
            6,
            (".venv/bin/suite", "report", "logs/", "--html", "a.html"),
            "needs data: b",
        ),
        Command("page.md", 7, ("python", "-m", "benchmarks.x", "--a"), ""),
    ]
    first, second = commands_of(page)
    assert (first.program, first.arguments, first.runs) == (
        "suite",
        ("report", "logs/", "--html", "a.html"),
        False,
    )
    assert (second.program, second.arguments, second.runs) == ("benchmarks.x", ("--a",), True)
