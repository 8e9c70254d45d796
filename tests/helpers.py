"""What several tests use: the command line in a real subprocess, with the toy plugin where it is asked for."""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from hypothesis import settings

PROJECT = Path(__file__).resolve().parent.parent
TOY = PROJECT / "tests" / "data" / "toy"
TOY_RUN = ("workload=toy", "framework=plain", "profile=demo")

PROFILES = {"fixed": {"derandomize": True, "database": None}, "search": {"max_examples": 1000}}
"""Of hypothesis: the same examples in every run, or others in each (`--hypothesis-profile=search`)."""
SEARCH_FACTOR = 10


def examples(count):
    """Decorates a test of hypothesis that looks at `count` examples, at ten times as many if it searches."""
    searching = settings.get_current_profile_name() == "search"
    return settings(max_examples=count * (SEARCH_FACTOR if searching else 1))


def variables(tmp_path, toy=False, **extra):
    """The environment of a command: logs and generated data below tmp_path."""
    values = {**os.environ, "SUITE_LOG_DIR": str(tmp_path / "logs"), "COLUMNS": "200", **extra}
    if toy:
        values["SUITE_DATA_DIR"] = str(tmp_path / "data")
        values["PYTHONPATH"] = os.pathsep.join([str(TOY), str(PROJECT)])  # this checkout, wherever .venv was made
    return values


def run_suite(tmp_path, *arguments, toy=False, timeout=300, **extra):
    """`python run_suite.py …` to its end."""
    return subprocess.run(
        [sys.executable, str(PROJECT / "run_suite.py"), *arguments],
        capture_output=True, text=True, timeout=timeout, cwd=tmp_path, env=variables(tmp_path, toy, **extra),
    )  # fmt: skip


def suite(tmp_path, *arguments, timeout=300, **extra):
    """`suite …` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "suite.cli", *map(str, arguments)],
        capture_output=True, text=True, timeout=timeout, cwd=tmp_path, env=variables(tmp_path, **extra),
    )  # fmt: skip


def cpu_seconds():
    """CPU time of all processes started here that have ended: a wait for others on a busy machine is not in it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def wait_until(what, condition, seconds=240):
    """What `condition()` gives once it is true. A busy machine may take long; one that never gets there fails."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.05)
    return found


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
    """Those that the run itself wrote: without the line on the machine that the controller puts behind them."""
    return [event for event in events(log) if event[0] != "suite_condition"]


def only(paths):
    """The one element."""
    found = list(paths)
    assert len(found) == 1, found
    return found[0]
