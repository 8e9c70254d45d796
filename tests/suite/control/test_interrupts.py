"""Signals to the controller, a closed terminal, and the command that resumes an interrupted run."""

import io
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time

import psutil
import pytest

from suite.control.interrupts import (
    MIN_COLUMNS,
    SIGNALS,
    WholeLines,
    listen,
    resuming_command,
    signals_held,
)
from tests.helpers import PROJECT, TOY_RUN, alive, only, status, suite_env, suite_here, wait_until


def restore_signals():
    """Handle signals as on a terminal: a shell starts background jobs with signals ignored."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def started(tmp_path, *words, **streams):
    """Return a controller and the folder of its run as soon as the run trains."""
    arguments = [*TOY_RUN, "workload.misbehave=sleep", "stop=epochs:1000", *words]
    controller = subprocess.Popen(
        [sys.executable, str(PROJECT / "run_suite.py"), *arguments],
        env=suite_env(tmp_path, toy=True),
        cwd=tmp_path,
        preexec_fn=restore_signals,
        **({"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} | streams),
    )

    def logs():
        return list(tmp_path.glob("**/run_0/result_0.txt"))

    try:
        wait_until("run_start", lambda: any("run_start" in log.read_text() for log in logs()))
        return controller, only(logs()).parent
    except BaseException:
        controller.kill()
        raise


@pytest.mark.parametrize("numbers", [(signal.SIGINT,) * 3, (signal.SIGTERM, signal.SIGINT)])
def test_signals_in_quick_succession_end_the_tree_and_leave_interrupted(tmp_path, numbers):
    """Check that tables do not count the interrupted run as a failure."""
    controller, folder = started(tmp_path)
    workers = psutil.Process(controller.pid).children(recursive=True)
    for number in numbers:
        controller.send_signal(number)
        time.sleep(0.15)
    output, _ = controller.communicate(timeout=240)
    assert controller.returncode == 130
    assert b"Traceback" not in output
    assert status(folder)["status"] == "interrupted"
    assert len(workers) == 1
    assert not any(map(alive, workers))
    text = suite_here(tmp_path, "report", tmp_path / "logs").stdout
    assert "interrupted" in text
    assert " failed" not in text


def test_a_terminal_that_closes_leaves_interrupted(tmp_path):
    ours, theirs = pty.openpty()
    controller, folder = started(tmp_path, stdout=theirs, stderr=theirs, stdin=theirs)
    os.close(theirs)
    os.close(ours)  # from now on a write to the terminal fails
    controller.send_signal(signal.SIGHUP)
    assert controller.wait(timeout=240) == 130
    assert status(folder)["status"] == "interrupted"


def test_the_printed_command_resumes_the_run(tmp_path):
    output = tmp_path / "my runs"
    controller, folder = started(tmp_path, f"output={output}", "runs=2")
    controller.send_signal(signal.SIGINT)
    printed, _ = controller.communicate(timeout=240)
    resume_command = re.search(r"run:\n  (.+)\n", printed.decode())[1]
    assert shlex.split(resume_command)[-2:] == [f"output={output}", "resume=true"]
    assert folder.is_relative_to(output)
    # If the run could not be resumed, the command would end with an error and start no attempt.
    process = subprocess.Popen(
        ["sh", "-c", f"exec {resume_command}"],
        env=suite_env(tmp_path, toy=True, PYTHONUNBUFFERED="1"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    attempts = 0
    for line in process.stdout:
        if "unfinished attempt kept in" in line:
            attempts += 1
            process.terminate()
    process.wait(timeout=240)
    assert attempts == 1
    assert only(output.glob("*/superseded/run_0-1"))


@pytest.mark.parametrize("columns", ["0", "00", "-1", "", "abc", "²", "1", "9" * 12, None])
@pytest.mark.parametrize("terminal", [False, True])
def test_an_unusable_terminal_size_does_not_hide_the_output(monkeypatch, columns, terminal):
    """Check sizes with which rich prints an empty text or a single character per line."""
    for name in ("COLUMNS", "LINES"):
        if columns is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, columns)
    monkeypatch.delenv("TERM", raising=False)
    stream = io.StringIO()
    console = WholeLines(file=stream, force_terminal=terminal, color_system=None)
    console.print("a line of words")
    assert stream.getvalue() == "a line of words\n"
    assert console.width >= MIN_COLUMNS
    assert console.height >= 2


def test_a_usable_terminal_size_is_followed(monkeypatch):
    monkeypatch.setenv("COLUMNS", "132")
    assert WholeLines(file=io.StringIO()).width == 132


@pytest.mark.parametrize(
    "changed", [{"COLUMNS": "0"}, {"COLUMNS": "0", "LINES": "0"}, {"LINES": "0", "TERM": ""}]
)
def test_a_dry_run_is_printed_whatever_the_terminal_size(tmp_path, changed):
    done = subprocess.run(
        [sys.executable, str(PROJECT / "run_suite.py"), *TOY_RUN, "dry_run=true"],
        env=suite_env(tmp_path, toy=True, **changed),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0
    assert "dry run, no process is started: 1 run(s) would be written to" in done.stdout


def test_the_resume_command_names_the_folder_that_was_created(tmp_path):
    words = ["-m", "workload=ncf", "workload.target='0.5'", "output=elsewhere", "resume=false"]
    command = resuming_command(words, tmp_path / "logs" / "2026")
    kept = ["-m", "workload=ncf", "workload.target='0.5'"]
    assert shlex.split(command)[-5:] == [*kept, f"output={tmp_path}/logs/2026", "resume=true"]


@pytest.fixture
def listening():
    """Handle signals in this process as a controller does, until the test ends.

    A shell's `&` may have set them to be ignored, so they are restored first.
    """
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    listen()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


# SIGHUP: see test_a_terminal_that_closes_leaves_interrupted.
@pytest.mark.parametrize("number", set(SIGNALS) - {signal.SIGHUP})
def test_each_signal_interrupts_once(listening, number):
    with pytest.raises(KeyboardInterrupt, match=number.name):
        signal.raise_signal(number)
    signal.raise_signal(number)


def test_a_signal_in_a_protected_block_is_raised_after_the_block(listening):
    done = []

    def block():
        with signals_held():
            with signals_held():
                signal.raise_signal(signal.SIGTERM)
                done.append("inner")
            done.append("outer")

    with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
        block()
    assert done == ["inner", "outer"]
    with signals_held():
        pass  # the interrupt is raised only once


class Interrupting(io.StringIO):
    """A stream whose reader sends a signal as soon as it has a line."""

    def write(self, text):
        count = super().write(text)
        # `os.kill` could deliver the signal to another thread, and later.
        signal.raise_signal(signal.SIGINT)
        return count


def test_a_line_is_printed_once_whenever_the_signal_comes(listening):
    console = WholeLines(file=Interrupting())
    with pytest.raises(KeyboardInterrupt):
        console.print("epoch 2")
    console.print("interrupted")
    assert console.file.getvalue() == "epoch 2\ninterrupted\n"
