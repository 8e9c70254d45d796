"""The `suite` command before any subcommand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testing.fake_logs import write_run
from tests.helpers import PROJECT, TOY_RUN, only, status, suite_here, variables

SCRIPT = Path(sys.executable).parent / "suite"
RUN = str(PROJECT / "run_suite.py")
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def test_text_of_a_log_in_an_error_stays_one_printable_line(tmp_path):
    write_run(tmp_path / "logs", "a", workload="\x1b[2Jevil\nINJECTED")
    done = suite_here(tmp_path, "scaling", "logs", "--devices", "4")
    assert done.returncode == 2
    assert "evil injected in pytorch on laptop" in done.stderr
    assert "\x1b" not in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("typed", "meant"), [("reprot", "report"), ("Check", "check"), ("tabels", "tables")])
def test_a_mistyped_command_names_the_nearest(tmp_path, typed, meant):
    done = suite_here(tmp_path, typed, "logs")
    assert done.returncode == 2
    assert done.stderr.startswith(f"suite {typed}: no such command; there are run, env, data, check, ")
    assert done.stderr.endswith(f"(did you mean '{meant}'?)\n")


@pytest.mark.parametrize("words", [("published", "list"), ("data", "list"), ("check", "logs")])
def test_a_reader_that_goes_ends_a_command_quietly(tmp_path, words):
    for index in range(40):
        write_run(tmp_path / "logs", f"job_{index}")
    command = [sys.executable, "-m", "suite.cli", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=variables(tmp_path)
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_a_terminal_without_our_characters_gets_others(tmp_path):
    write_run(tmp_path / "logs", "a")
    for command in (
        [sys.executable, "-m", "suite.cli", "report", "logs"],
        [sys.executable, str(PROJECT / "run_suite.py"), *TOY_RUN],
    ):
        done = subprocess.run(command, capture_output=True, cwd=tmp_path, env=variables(tmp_path, toy=True, **ASCII))
        assert done.returncode == 0, done.stderr
        assert b"codec" not in done.stdout + done.stderr
        assert done.stdout.isascii()
        assert b"samples/s" in done.stdout


LATIN, UMLAUT = os.fsdecode(b"x\xff"), "\u00e4"


@pytest.mark.parametrize(
    ("words", "extra", "said"),
    [
        ((RUN, *TOY_RUN, f"output={LATIN}/out"), {}, "output=x\ufffd/out: not UTF-8"),
        ((RUN, *TOY_RUN), {"SUITE_LOG_DIR": LATIN}, "SUITE_LOG_DIR=x\ufffd: not UTF-8"),
        ((RUN, *TOY_RUN), {"SUITE_CACHE_DIR": LATIN}, "SUITE_CACHE_DIR=x\ufffd: not UTF-8"),
        ((SCRIPT, "data", "prepare", "ml-20m", "--from", LATIN), {}, "x\ufffd: not UTF-8"),
        ((RUN, *TOY_RUN, f"output={UMLAUT}/out"), ASCII, "output=?/out: Python takes names for ascii here; type export"),
        ((RUN, *TOY_RUN), {**ASCII, "SUITE_LOG_DIR": UMLAUT}, "SUITE_LOG_DIR=?: Python takes names for ascii"),
        ((RUN, "--config-dir", "own", "experiment=night"), ASCII, "output=?: Python takes names for ascii"),
    ],
)  # fmt: skip
def test_a_path_that_cannot_be_written_down_is_refused_before_anything_is_written(tmp_path, words, extra, said):
    (tmp_path / "own" / "experiment").mkdir(parents=True)
    text = "# @package _global_\ndefaults: [override /workload: toy, override /framework: plain]\noutput: ä\n"
    (tmp_path / "own" / "experiment" / "night.yaml").write_text(text, encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    own = variables(tmp_path, toy=True, **extra)
    done = subprocess.run([sys.executable, *words], capture_output=True, cwd=tmp_path, env=own)
    assert done.returncode == 2
    (line,) = done.stderr.decode().splitlines()
    assert said in line
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("words", [(RUN, *TOY_RUN), (RUN, "--help"), (SCRIPT, "report", "logs")])
def test_a_current_folder_that_was_deleted_is_one_line(tmp_path, words):
    gone = tmp_path / "gone"
    gone.mkdir()
    command = ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "-", sys.executable, *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=gone, env=variables(tmp_path, toy=True))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "the current folder does not exist any more" in line


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no PYTHONSAFEPATH")
def test_python_files_in_the_current_folder_are_never_imported(tmp_path):
    for name in ("json", "torch", "mxnet", "tensorflow", "numpy", "suite", "workloads", "yaml", "re"):
        (tmp_path / f"{name}.py").write_text(
            f"open({str(tmp_path / 'imported')!r}, 'a').write('{name} ')\nraise SystemExit(9)\n"
        )
    write_run(tmp_path / "logs", "a")
    own = variables(tmp_path, toy=True)
    run = [sys.executable, str(PROJECT / "run_suite.py"), *TOY_RUN, f"output={tmp_path / 'ran'}"]
    commands = [
        run,
        *(
            [SCRIPT, *words]
            for words in (("report", "logs"), ("check", "logs"), ("doctor",), ("env", "list"), ("data", "list"))
        ),
    ]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=own)
        assert "Traceback" not in done.stderr, done.stderr
        assert not (tmp_path / "imported").exists(), (command, (tmp_path / "imported").read_text())
    assert status(only((tmp_path / "ran").glob("*/run_0")))["status"] == "success"
