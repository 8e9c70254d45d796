"""What several tests use: the command line in a real subprocess or in this one, with the toy plugin
where it is asked for.
"""

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
"""Of hypothesis: the same examples in every run, a quarter of them (`make check`), or others in
each (`make test-full`).
"""


def examples(count, **others):
    """Decorates a test of hypothesis that looks at `count` examples, at a quarter or ten times as
    many in other profiles.
    """
    scaled = {"check": max(10, count // 4), "search": 10 * count}
    return settings(max_examples=scaled.get(settings.get_current_profile_name(), count), **others)


def full_of(values, *long):
    """Cases of a parameter, those of them that are `long` with the mark `full`; a tuple is several
    parameters.
    """
    cases = [(one if isinstance(one, tuple) else (one,), one in long) for one in values]
    return [pytest.param(*one, marks=pytest.mark.full if is_long else ()) for one, is_long in cases]


def full_but(values, *short):
    """The same of those that are not `short`."""
    return full_of(values, *(one for one in values if one not in short))


def suite_env(tmp_path, toy=False, **extra):
    """The environment of a command: logs and generated data below tmp_path."""
    values = {**os.environ, "SUITE_LOG_DIR": str(tmp_path / "logs"), "COLUMNS": "200"}
    values.pop(
        "KMP_INIT_AT_FORK", None
    )  # joblib sets it in this process when sacremoses is imported; runs would record it
    if toy:
        values["SUITE_DATA_DIR"] = str(tmp_path / "data")
        values["PYTHONPATH"] = os.pathsep.join(
            [str(TOY), str(PROJECT)]
        )  # this checkout, wherever .venv was made
    return {**values, **extra}


def ended(done, exits):
    """A command that ended, with this exit code if one is given; else the test fails with all that
    it said.
    """
    assert exits in (
        None,
        done.returncode,
    ), f"{done.returncode}, not {exits}\n{done.stdout}{done.stderr}"
    return done


def can_connect(port, uid):
    """Whether a process of this user id, outside of any private network, can connect to a port of
    this machine.
    """
    pid = os.fork()
    if pid == 0:
        try:
            if uid != os.getuid():
                os.setuid(uid)
            with (
                socket.socket() as probe
            ):  # create_connection imports a module, which the other user may not read
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
    """What a command with several TensorFlow processes must set on a machine that cannot make a
    private network for them.
    """
    return ("framework.allow_open_grpc=true",) if private_network.unavailable_reason() else ()


def refusal(done):
    """The one line of a command that was refused, with exit code 2."""
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stdout + done.stderr
    return done.stderr


def one_line(said):
    """A pattern for `pytest.raises`: one line, in which these words stand."""
    return rf"\A[^\n]*{re.escape(said)}[^\n]*\Z"


def run_suite(tmp_path, *arguments, toy=False, timeout=300, exits=None, **extra):
    """`python run_suite.py …` to its end; `exits`: the exit code that it must have."""
    command = [sys.executable, str(PROJECT / "run_suite.py"), *arguments]
    options = {"capture_output": True, "text": True, "timeout": timeout, "cwd": tmp_path}
    return ended(subprocess.run(command, **options, env=suite_env(tmp_path, toy, **extra)), exits)


def suite(tmp_path, *arguments, timeout=300, exits=None, **extra):
    """`suite …` to its end."""
    command = [sys.executable, "-m", "suite.cli", *map(str, arguments)]
    options = {"capture_output": True, "text": True, "timeout": timeout, "cwd": tmp_path}
    return ended(subprocess.run(command, **options, env=suite_env(tmp_path, **extra)), exits)


def run_suite_here(tmp_path, *arguments, toy=False, exits=None, **extra):
    """What `run_suite` gives, from a call in this process: half a second less than from a Python of
    its own.
    """
    from suite.control.start import main

    return ended(
        called_here(main, "run_suite.py", arguments, tmp_path, suite_env(tmp_path, toy, **extra)),
        exits,
    )


def suite_here(tmp_path, *arguments, exits=None, **extra):
    """What `suite` gives, from a call in this process."""
    from suite.cli import main

    return ended(
        called_here(main, "suite", arguments, tmp_path, suite_env(tmp_path, **extra)), exits
    )


def called_here(main, name, arguments, folder, environment):
    """`main(arguments)` with the folder, variables, signal handlers, warnings and streams that a
    process of its own has.
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
        except Exception:  # what a process would print before it ends with 1
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
    """No handlers, and the level of before afterwards: those that Hydra sets up write to streams
    that are closed by then.
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
    """Python's own filters, and its own way to show a warning, in place of pytest's."""

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
def _composed(words):
    return compose(words).jobs[0].config


def composed(*words):
    """The configuration of the one job that these words ask for, to do with as a test likes;
    composed once.
    """
    return copy.deepcopy(_composed(words))


def cpu_seconds():
    """CPU time of this process and of all started here that have ended: a wait for others on a busy
    machine is not in it.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + used.ru_utime + used.ru_stime


def wait_until(what, condition, seconds=240):
    """What `condition()` gives once it is true.

    A busy machine may take long; one that never gets there fails.
    """
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.05)
    return found


def alive(process):
    """Whether a process runs: one that ended, or whose id another one has, does not, and neither
    does a zombie.
    """
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def written(folder):
    """What a write below `folder` changes: each file's inode, size and time of writing (the time of
    access is others').
    """
    dataset_info = {path: path.stat() for path in folder.rglob("*") if path.is_file()}
    return {
        path: (fact.st_ino, fact.st_size, fact.st_mtime_ns) for path, fact in dataset_info.items()
    }


def status(folder):
    """`status.json` of a run's folder."""
    return json.loads((folder / "status.json").read_text())


def events(log):
    """The records of a log in order: (key, value, metadata)."""
    found = []
    for line in Path(log).read_text().splitlines():
        record = json.loads(line.partition(":::MLLOG ")[2])
        found.append((record["key"], record["value"], record["metadata"]))
    return found


def run_events(log):
    """Those that the run itself wrote: without the line on the machine that the controller puts
    after them.
    """
    return [event for event in events(log) if event[0] != "suite_condition"]


def only(paths):
    """The one element."""
    found = list(paths)
    assert len(found) == 1, found
    return found[0]


def json_values(max_leaves, keys=None):
    """Values as JSON has them, of every type, nested; `keys`: those that objects have (any short
    text).
    """
    keys = st.text(max_size=8) if keys is None else keys
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    return st.recursive(
        leaves,
        lambda one: st.lists(one, max_size=3) | st.dictionaries(keys, one, max_size=4),
        max_leaves=max_leaves,
    )


def subcommand(module, *arguments):
    """The exit code of a module of suite/commands with these words, as `suite` calls it.

    Raises what the module raises.
    """
    parser = argparse.ArgumentParser()
    module.configure(parser)
    return module.run(parser.parse_args([str(argument) for argument in arguments]))


@contextlib.contextmanager
def python(code, *arguments, **options):
    """A process of this Python that runs `code`, for the length of a block; `options` as of Popen."""
    with subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], **options) as process:
        try:
            yield process
        finally:
            process.kill()


BURN = "while True: pass"
"""Of `python`: wants a core."""
