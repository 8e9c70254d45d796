"""Processes that serve the workers: one that dies is named, not the workers that fail of it; and nobody waits for its end."""

import json
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from suite.control import watch
from suite.control.supervise import Supervisor
from suite.environments.environment import Environment
from suite.launch.mxnet import MXNET
from suite.worker.heartbeat import Beat, beat_path
from tests.helpers import wait_until
from tests.suite.two_hosts import make_run


def ended(code):
    """A process that has ended so: by a signal if negative."""
    way = f"os.kill(os.getpid(), {-code})" if code < 0 else f"os._exit({code})"
    process = subprocess.Popen([sys.executable, "-S", "-c", f"import os; {way}"])
    process.wait()
    return process


@pytest.fixture
def lasting():
    """A process that does not end by itself."""
    process = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def supervisor(tmp_path, lasting):
    """The supervisor of a run whose two workers are alive."""
    run = make_run(devices=2, update="async", folder=str(tmp_path))
    run = replace(run, watchdog_seconds=300.0, setup_watchdog_seconds=300.0)
    found = Supervisor(run, MXNET, Environment("mxnet-cpu", (), sys.executable), None)
    found.watch.servers = {"scheduler", "server"}
    found.worker_pid = lasting.pid
    say(found)
    return found


def look(supervisor):
    """Without a console."""
    return supervisor.watch.look(lambda beats: None)


def say(supervisor, status="", reason="", phase="train"):
    for process in range(2):
        beat = Beat(process, supervisor.worker_pid, phase, status=status, reason=reason)
        beat_path(supervisor.folder, process).write_text(json.dumps(asdict(beat)))


@pytest.mark.parametrize("failed", ["", "failed"])
def test_a_server_that_is_killed_is_named_whether_or_not_workers_have_failed_of_it(supervisor, lasting, failed):
    supervisor.watch.children = {"scheduler": lasting, "server": ended(-9)}
    (supervisor.folder / "server.log").write_text("its last words\n")
    say(supervisor, failed, "RuntimeError: connection closed by peer")
    status = look(supervisor)
    assert (status.status, status.process) == ("rank_died", None)
    assert status.reason == "the server died (killed by SIGKILL): its last words (see server.log)"


@pytest.mark.parametrize(("code", "process"), [(-9, None), (1, 0)])
def test_of_a_server_and_a_worker_that_are_gone_the_killed_server_is_named_else_the_worker(
    supervisor, lasting, code, process
):
    """The worker died of a server that was killed; a server that failed may have failed of the worker's death."""
    supervisor.watch.children = {"scheduler": lasting, "server": ended(code), "worker-0": ended(-6)}
    supervisor.worker_pid = supervisor.watch.children["worker-0"].pid
    say(supervisor)
    status = look(supervisor)
    assert (status.status, status.process) == ("rank_died", process)


def test_a_server_that_fails_is_named(supervisor, lasting):
    supervisor.watch.children = {"server": lasting, "scheduler": ended(3)}
    status = look(supervisor)
    assert (status.status, status.reason) == (
        "failed",
        "the scheduler died (exit code 3): see scheduler.log, which is empty",
    )


def test_a_server_that_dies_after_its_workers_have_failed_is_not_their_reason(supervisor, lasting):
    """It ends well, since it has lost its workers."""
    supervisor.watch.children = {"scheduler": lasting, "server": ended(0)}
    say(supervisor, "failed", "ValueError: theirs")
    status = look(supervisor)
    assert (status.status, status.reason) == ("failed", "process 0: ValueError: theirs")


def test_a_run_is_over_when_its_workers_are(supervisor, lasting):
    supervisor.watch.children = {"server": lasting, "worker-0": ended(0), "worker-1": ended(0)}
    say(supervisor, "success", phase="done")
    assert look(supervisor).status == "success"
    supervisor._end_tree()
    assert wait_until("the server has ended", lambda: lasting.poll() is not None)


def test_a_server_that_ends_after_the_last_worker_is_done_changes_nothing(supervisor, lasting):
    supervisor.watch.children = {"server": ended(1), "worker-0": lasting}
    say(supervisor, "success", phase="done")
    assert look(supervisor) is None  # a worker is about to leave


def test_a_worker_that_is_done_and_does_not_leave_holds_nobody_up(supervisor, lasting, monkeypatch):
    monkeypatch.setattr(watch, "EXIT_SECONDS", 0.0)
    supervisor.watch.children = {"worker-0": lasting, "worker-1": ended(0)}
    say(supervisor, "success", phase="done")
    assert wait_until("the result stands", lambda: look(supervisor)).status == "success"


@pytest.mark.parametrize(
    ("phase", "hangs"), [("setup", False), ("open data", False), ("train", True), ("evaluate", True)]
)
def test_setting_up_and_opening_data_may_take_longer_than_training(supervisor, lasting, phase, hangs):
    supervisor.watch.servers = set()
    supervisor.watch.run_spec = replace(supervisor.run_spec, watchdog_seconds=0.0)
    supervisor.watch.children = {"worker-0": lasting, "worker-1": lasting}
    say(supervisor, phase=phase)
    found = look(supervisor) or look(supervisor)
    assert (found and found.status) == ("hung" if hangs else None)
