"""Helpers of the tests: the command line in a subprocess or in this process, waiting, and logs."""

import argparse
import contextlib
import copy
import functools
import io
import json
import logging
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path
from unittest import mock

import psutil
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from suite.common import registry
from suite.config.compose import compose
from suite.control.interrupts import SIGNALS
from suite.launch import private_network

PROJECT = Path(__file__).resolve().parent.parent
TOY = PROJECT / "tests" / "data" / "toy"
TOY_RUN = ("workload=toy", "framework=plain", "profile=demo")

FIXED = {"derandomize": True, "database": None}
PROFILES = {
    "fixed": FIXED,
    "check": {**FIXED, "max_examples": 25},
    "search": {"max_examples": 1000},
}
"""Profiles of Hypothesis.

`fixed` runs the same examples every time, `check` (`make check`) a quarter of them, and `search`
(`make test-full`) new random examples.
"""


def examples(count, **options):
    """Decorate a Hypothesis test to run `count` examples.

    The profile `check` runs a quarter of them, and `search` ten times as many.
    """
    scaled = {"check": max(10, count // 4), "search": 10 * count}
    return settings(max_examples=scaled.get(settings.get_current_profile_name(), count), **options)


def full_of(values, *long):
    """Return parameters for a test; those in `long` are marked `full`.

    A tuple is used as several parameters.
    """
    cases = [(value if isinstance(value, tuple) else (value,), value in long) for value in values]
    return [
        pytest.param(*value, marks=pytest.mark.full if is_long else ()) for value, is_long in cases
    ]


def full_but(values, *short):
    """Return parameters for a test; those not in `short` are marked `full`."""
    return full_of(values, *(value for value in values if value not in short))


def suite_env(tmp_path, toy=False, **extra):
    """Return the environment of a command whose logs and generated data are below tmp_path."""
    values = {**os.environ, "SUITE_LOG_DIR": str(tmp_path / "logs"), "COLUMNS": "200"}
    # joblib sets it in this process when sacremoses is imported, and runs would record it.
    values.pop("KMP_INIT_AT_FORK", None)
    if toy:
        values["SUITE_DATA_DIR"] = str(tmp_path / "data")
        # The path selects this checkout, even if .venv belongs to a different checkout.
        values["PYTHONPATH"] = os.pathsep.join([str(TOY), str(PROJECT)])
    return {**values, **extra}


def ended(done, exits):
    """Return a completed command, after a check of its exit code if `exits` is not None."""
    assert exits in (
        None,
        done.returncode,
    ), f"{done.returncode}, not {exits}\n{done.stdout}{done.stderr}"
    return done


def can_connect(port, uid):
    """Return whether a process of this user id can connect to a port of this machine.

    The process is outside of any private network.
    """
    pid = os.fork()
    if pid == 0:
        try:
            if uid != os.getuid():
                os.setuid(uid)
            # create_connection would import a module that this user cannot read.
            with socket.socket() as probe:
                probe.settimeout(10)
                probe.connect(("127.0.0.1", port))
            os._exit(0)
        except OSError:
            os._exit(1)
        finally:
            os._exit(2)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, 1)
    return code == 0


def where_grpc_is_open():
    """Return overrides for several TensorFlow processes if no private network can be created."""
    return ("framework.allow_open_grpc=true",) if private_network.unavailable_reason() else ()


def refusal(done):
    """Return the one-line message of a command that was refused with exit code 2."""
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stdout + done.stderr
    return done.stderr


def one_line(text):
    """Return a pattern for `pytest.raises` that matches a single line with this text."""
    return rf"\A[^\n]*{re.escape(text)}[^\n]*\Z"


def run_suite(tmp_path, *arguments, toy=False, timeout=300, exits=None, **extra):
    """Run `python run_suite.py …` in a subprocess; `exits` is the expected exit code."""
    command = [sys.executable, str(PROJECT / "run_suite.py"), *arguments]
    options = {"capture_output": True, "text": True, "timeout": timeout, "cwd": tmp_path}
    return ended(subprocess.run(command, **options, env=suite_env(tmp_path, toy, **extra)), exits)


def suite(tmp_path, *arguments, timeout=300, exits=None, **extra):
    """Run `suite …` in a subprocess."""
    command = [sys.executable, "-m", "suite.cli", *map(str, arguments)]
    options = {"capture_output": True, "text": True, "timeout": timeout, "cwd": tmp_path}
    return ended(subprocess.run(command, **options, env=suite_env(tmp_path, **extra)), exits)


def run_suite_here(tmp_path, *arguments, toy=False, exits=None, **extra):
    """Return the result of `run_suite` from a call in this process, which takes 0.5 s less."""
    from suite.control.start import main

    return ended(
        called_here(main, "run_suite.py", arguments, tmp_path, suite_env(tmp_path, toy, **extra)),
        exits,
    )


def suite_here(tmp_path, *arguments, exits=None, **extra):
    """Return the result of `suite` from a call in this process."""
    from suite.cli import main

    return ended(
        called_here(main, "suite", arguments, tmp_path, suite_env(tmp_path, **extra)), exits
    )


def called_here(main, name, arguments, folder, environment):
    """Call `main(arguments)` in this process, isolated like a separate process.

    The call has its folder, environment variables, signal handlers, warnings and streams.
    """
    arguments = [str(argument) for argument in arguments]
    out, err = io.StringIO(), io.StringIO()
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    with (
        pytest.MonkeyPatch.context() as patch,
        mock.patch.dict(os.environ, environment, clear=True),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        _warnings_are_printed(),
        logging_as_at_a_start(),
    ):
        patch.chdir(folder)
        patch.setattr(sys, "argv", [name, *arguments])
        patch.setattr(
            sys, "path", [*environment.get("PYTHONPATH", "").split(os.pathsep), *sys.path]
        )
        registry.refresh()
        try:
            code = main(arguments)
        except SystemExit as ended:
            code = ended.code
        except Exception:  # A process would print the traceback and exit with 1.
            traceback.print_exc()
            code = 1
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
    registry.refresh()
    if isinstance(code, str):
        err.write(f"{code}\n")
        code = 1
    return subprocess.CompletedProcess(
        [name, *arguments], code or 0, out.getvalue(), err.getvalue()
    )


@contextlib.contextmanager
def logging_as_at_a_start():
    """Remove all logging handlers, and restore the handlers and the level afterwards.

    The handlers that Hydra adds would write to streams that are closed by then.
    """
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    root.handlers = []
    try:
        yield
    finally:
        root.handlers = handlers
        root.setLevel(level)


@contextlib.contextmanager
def _warnings_are_printed():
    """Use Python's filters and output of warnings instead of pytest's."""

    def show(message, category, filename, lineno, file=None, line=None):
        print(
            warnings.formatwarning(message, category, filename, lineno, line),
            file=sys.stderr,
            end="",
        )

    with warnings.catch_warnings():
        warnings.resetwarnings()
        for category in (
            DeprecationWarning,
            PendingDeprecationWarning,
            ImportWarning,
            ResourceWarning,
        ):
            warnings.simplefilter("ignore", category)
        warnings.showwarning = show
        yield


@functools.cache
def _composed(overrides):
    return compose(overrides).jobs[0].config


def composed(*overrides):
    """Return a modifiable copy of the configuration of the single job of these overrides.

    The configuration is composed once and cached.
    """
    return copy.deepcopy(_composed(overrides))


def cpu_seconds():
    """Return the CPU time of this process and its completed child processes.

    In contrast to elapsed time, it does not depend on the load of the machine.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + used.ru_utime + used.ru_stime


def wait_until(what, condition, seconds=240):
    """Return the value of `condition()` as soon as it is true, and fail after `seconds`.

    The limit is long, because the machine may be busy.
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.05)
    return value


def alive(process):
    """Return whether a process runs.

    A process has ended if it is a zombie, or if its id was reused.
    """
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def written(folder):
    """Return the inode, size and modification time of each file below `folder`.

    Each of them changes if the file is written.
    """
    file_stats = {path: path.stat() for path in folder.rglob("*") if path.is_file()}
    return {
        path: (stat.st_ino, stat.st_size, stat.st_mtime_ns) for path, stat in file_stats.items()
    }


def status(folder):
    """Return the content of `status.json` in a run's folder."""
    return json.loads((folder / "status.json").read_text())


def events(log):
    """Return the records of a log in order, as (key, value, metadata)."""
    records = []
    for line in Path(log).read_text().splitlines():
        record = json.loads(line.partition(":::MLLOG ")[2])
        records.append((record["key"], record["value"], record["metadata"]))
    return records


def run_events(log):
    """Return the records of the run, without the controller's `suite_condition` record."""
    return [event for event in events(log) if event[0] != "suite_condition"]


def only(paths):
    """Return the only element."""
    elements = list(paths)
    assert len(elements) == 1, elements
    return elements[0]


def json_values(max_leaves, keys=None):
    """Return a strategy for nested JSON values of every type.

    `keys` is the strategy for the keys of objects, by default short text.
    """
    keys = st.text(max_size=8) if keys is None else keys
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    return st.recursive(
        leaves,
        lambda children: (
            st.lists(children, max_size=3) | st.dictionaries(keys, children, max_size=4)
        ),
        max_leaves=max_leaves,
    )


def subcommand(module, *arguments):
    """Return the exit code of a module of suite/commands with these arguments.

    Errors of the module are raised.
    """
    parser = argparse.ArgumentParser()
    module.configure(parser)
    return module.run(parser.parse_args([str(argument) for argument in arguments]))


@contextlib.contextmanager
def python(code, *arguments, **options):
    """Run `code` in a Python process during a `with` block; `options` are passed to Popen."""
    with subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], **options) as process:
        try:
            yield process
        finally:
            process.kill()


BURN = "while True: pass"
"""Code for `python` that keeps a core busy."""
