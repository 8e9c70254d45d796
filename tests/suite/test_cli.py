"""The `suite` command in general: unknown subcommands, closed pipes, encodings, and imports."""

import subprocess
import sys
from pathlib import Path

import pytest

from testing.fake_logs import write_run
from tests.helpers import PROJECT, TOY_RUN, only, refusal, status, suite_env, suite_here

SCRIPT = Path(sys.executable).parent / "suite"
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def test_text_of_a_log_in_an_error_stays_one_printable_line(tmp_path):
    write_run(tmp_path / "logs", "a", workload="\x1b[2Jevil\nINJECTED")
    line = refusal(suite_here(tmp_path, "scaling", "logs", "--devices", "4"))
    assert "evil injected in pytorch on laptop" in line
    assert "\x1b" not in line


@pytest.mark.parametrize(
    ("command", "suggestion"), [("reprot", "report"), ("Check", "check"), ("tabels", "tables")]
)
def test_a_mistyped_command_gets_a_suggestion(tmp_path, command, suggestion):
    done = suite_here(tmp_path, command, "logs", exits=2)
    assert done.stderr.startswith(
        f"suite {command}: no such command; there are run, env, data, check, "
    )
    assert done.stderr.endswith(f"(did you mean '{suggestion}'?)\n")


@pytest.mark.parametrize("arguments", [("published", "list"), ("data", "list"), ("check", "logs")])
def test_a_closed_pipe_ends_a_command_without_an_error(tmp_path, arguments):
    for index in range(40):
        write_run(tmp_path / "logs", f"job_{index}")
    command = [sys.executable, "-m", "suite.cli", *arguments]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, env=suite_env(tmp_path), **streams) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_output_for_an_ascii_terminal_is_ascii(tmp_path):
    write_run(tmp_path / "logs", "a")
    report = [sys.executable, "-m", "suite.cli", "report", "logs"]
    for command in (report, [sys.executable, str(PROJECT / "run_suite.py"), *TOY_RUN]):
        done = subprocess.run(
            command, capture_output=True, cwd=tmp_path, env=suite_env(tmp_path, toy=True, **ASCII)
        )
        assert done.returncode == 0, done.stderr
        assert b"codec" not in done.stdout + done.stderr
        assert done.stdout.isascii()
        assert b"samples/s" in done.stdout


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no PYTHONSAFEPATH")
def test_python_files_in_the_current_folder_are_never_imported(tmp_path):
    for name in (
        "json",
        "torch",
        "mxnet",
        "tensorflow",
        "numpy",
        "suite",
        "workloads",
        "yaml",
        "re",
    ):
        noted = f"open({str(tmp_path / 'imported')!r}, 'a').write('{name} ')"
        (tmp_path / f"{name}.py").write_text(f"{noted}\nraise SystemExit(9)\n")
    write_run(tmp_path / "logs", "a")
    environment = suite_env(tmp_path, toy=True)
    run = [sys.executable, str(PROJECT / "run_suite.py"), *TOY_RUN, f"output={tmp_path / 'ran'}"]
    arguments = (
        ("report", "logs"),
        ("check", "logs"),
        ("doctor",),
        ("env", "list"),
        ("data", "list"),
    )
    commands = [run, *([SCRIPT, *each] for each in arguments)]
    for command in commands:
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=environment
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert not (tmp_path / "imported").exists(), (command, (tmp_path / "imported").read_text())
    assert status(only((tmp_path / "ran").glob("*/run_0")))["status"] == "success"
