"""Tests whether a run's controller still exists, and the status of runs whose controller ended."""

import json
import os
import signal
import subprocess

import pytest

from suite.common.output_lock import output_locked
from suite.results.logs.collect import collect
from testing.fake_logs import write_run
from tests.helpers import python
from workloads import process_identity
from workloads.process_identity import is_alive, this_process

RUN = """import sys, pathlib, time, json
from suite.common.output_lock import output_locked
from workloads.process_identity import this_process
output = pathlib.Path(sys.argv[1])
with output_locked(output):
    folder = output / "killed" / "run_0"
    folder.mkdir(parents=True)
    status = {"status": "running", "reason": "", "controller": this_process()}
    (folder / "status.json").write_text(json.dumps(status))
    print("running", flush=True)
    time.sleep(600)
"""


def status(folder):
    (run,) = [run for run in collect([folder]) if run.path.parent.name == "killed"]
    return run.status, run.reason


@pytest.fixture
def controller(tmp_path):
    with python(RUN, tmp_path / "out", stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "running\n"
        yield process
        process.kill()


def test_a_killed_run_stays_interrupted_when_another_command_uses_its_folder(controller, tmp_path):
    output = tmp_path / "out"
    assert status(output)[0] == "running"
    os.kill(controller.pid, signal.SIGKILL)
    controller.wait()
    assert status(output) == ("interrupted", "its controller was killed")
    with output_locked(output):
        write_run(output, "later")
        assert status(output) == (
            "interrupted",
            "its controller was killed",
        ), "while the other command runs"
    assert not (output / ".lock").exists()
    assert status(output) == ("interrupted", "its controller was killed"), "after the other command"


def test_a_process_is_identified_by_its_start_and_its_machine(monkeypatch):
    here = this_process()
    assert json.loads(json.dumps(here)) == here
    assert is_alive(here) is True
    assert is_alive({**here, "start_ticks": here["start_ticks"] - 1}) is False, (
        "another process has the id now"
    )
    assert is_alive({**here, "boot": "earlier"}) is False, "the machine was rebooted"
    assert is_alive({**here, "host": "elsewhere"}) is None
    assert is_alive({**here, "namespace": "pid:[1]"}) is None, (
        "in another container of the host's name"
    )
    for damaged in (
        None,
        "",
        [],
        {},
        {**here, "pid": "1"},
        {**here, "pid": True},
        {**here, "pid": None},
    ):
        assert is_alive(damaged) is None
    monkeypatch.setattr(
        process_identity, "_machine", lambda: {"host": here["host"], "boot": "", "namespace": ""}
    )
    assert is_alive(here) is None
