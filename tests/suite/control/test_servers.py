"""Processes that serve the workers: a dead server is named, not the workers that fail of it.

Supervision does not wait for a server to end once all workers have ended.
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from suite.control import run_monitor
from suite.control.supervise import Supervisor
from suite.environments.environment import Environment
from suite.launch import processes
from suite.launch.mxnet import MXNET
from suite.worker.heartbeat import WorkerStatus, heartbeat_path
from tests.helpers import python, wait_until
from tests.suite.two_hosts import make_run


def ended(code):
    way = f"os.kill(os.getpid(), {-code})" if code < 0 else f"os._exit({code})"
    process = subprocess.Popen([sys.executable, "-S", "-c", f"import os; {way}"])
    process.wait()
    return process


@pytest.fixture
def lasting():
    with python("import time; time.sleep(600)") as process:
        yield process


@pytest.fixture
def supervisor(tmp_path, lasting):
    """Return the supervisor of a run whose two workers are alive."""
    run = make_run(devices=2, update="async", folder=str(tmp_path))
    run = replace(run, watchdog_seconds=300.0, setup_watchdog_seconds=300.0)
    found = Supervisor(run, MXNET, Environment("mxnet-cpu", (), sys.executable), None)
    found.monitor.servers = {"scheduler", "server"}
    found.worker_pid = lasting.pid
    say(found)
    return found


def look(supervisor):
    return supervisor.monitor.poll(lambda heartbeats: None)


def say(supervisor, status="", reason="", phase="train"):
    for process in range(2):
        heartbeat = WorkerStatus(
            process, supervisor.worker_pid, phase, status=status, reason=reason
        )
        heartbeat_path(supervisor.folder, process).write_text(json.dumps(asdict(heartbeat)))


LASTING, KILLED, ABORTED = None, -9, -6
"""Exit codes. None means that the process is still running."""


@pytest.mark.parametrize(
    ("children", "workers", "status", "process", "reason"),
    [
        ({"scheduler": LASTING, "server": KILLED}, "", "rank_died", None,
         "the server died (killed by SIGKILL): its last words"),
        ({"scheduler": LASTING, "server": KILLED}, "failed", "rank_died", None,
         "the server died (killed by SIGKILL): its last"),
        ({"scheduler": LASTING, "server": KILLED, "worker-0": ABORTED}, "", "rank_died", None,
         "the server died (killed"),
        ({"scheduler": LASTING, "server": 1, "worker-0": ABORTED}, "", "rank_died", 0,
         "process 0 died"),
        ({"server": LASTING, "scheduler": 3}, "", "failed", None,
         "the scheduler died (exit code 3): see server.log"),
        ({"scheduler": LASTING, "server": 0}, "failed", "failed", 0,
         "process 0: ValueError: theirs"),
    ],
    ids=["killed", "killed, and workers fail of it", "killed, and a worker dies of it",
         "fails of a worker that died", "fails", "ends well, since it has lost its workers"],
)  # fmt: skip
def test_the_process_that_failed_first_is_named(
    supervisor, lasting, children, workers, status, process, reason
):
    """Check which process is named if both a server and a worker have ended.

    A killed server can make a worker die, and a worker's death can make a server fail.
    """
    found = {name: lasting if code is LASTING else ended(code) for name, code in children.items()}
    supervisor.monitor.children = found
    supervisor.worker_pid = found.get("worker-0", lasting).pid
    (supervisor.folder / "server.log").write_text("its last words\n")
    say(supervisor, workers, "ValueError: theirs")
    status_of_run = look(supervisor)
    assert (status_of_run.status, status_of_run.process) == (status, process)
    assert status_of_run.reason.startswith(reason)


def test_a_run_is_over_when_its_workers_are(supervisor, lasting):
    supervisor.monitor.children = {"server": lasting, "worker-0": ended(0), "worker-1": ended(0)}
    say(supervisor, "success", phase="done")
    assert look(supervisor).status == "success"
    supervisor._end_processes()
    assert wait_until("the server has ended", lambda: lasting.poll() is not None)


def test_a_server_that_ends_after_the_last_worker_is_done_changes_nothing(supervisor, lasting):
    supervisor.monitor.children = {"server": ended(1), "worker-0": lasting}
    say(supervisor, "success", phase="done")
    assert look(supervisor) is None  # a worker is about to leave


def test_a_worker_that_is_done_and_does_not_exit_does_not_delay_the_end(
    supervisor, lasting, monkeypatch
):
    monkeypatch.setattr(run_monitor, "EXIT_SECONDS", 0.0)
    supervisor.monitor.children = {"worker-0": lasting, "worker-1": ended(0)}
    say(supervisor, "success", phase="done")
    assert wait_until("the result is final", lambda: look(supervisor)).status == "success"


@pytest.mark.parametrize("phase", ["setup", "open data", "train", "evaluate"])
def test_setting_up_and_opening_data_may_take_longer_than_training(supervisor, lasting, phase):
    supervisor.monitor.servers = set()
    supervisor.monitor.run_spec = replace(supervisor.run_spec, watchdog_seconds=0.0)
    supervisor.monitor.children = {"worker-0": lasting, "worker-1": lasting}
    say(supervisor, phase=phase)
    found = look(supervisor) or look(supervisor)
    assert (found and found.status) == ("hung" if phase in ("train", "evaluate") else None)


@pytest.mark.parametrize(
    "has_beat", [True, False], ids=["after its first heartbeat", "before its first heartbeat"]
)
@pytest.mark.parametrize("stopped", [0, 1])
def test_a_stopped_worker_is_named_though_its_peers_are_silent_too(
    supervisor, lasting, stopped, has_beat
):
    """Check that the stopped worker is named, although its peers wait for it and are silent too.

    State `T` in /proc identifies the stopped worker. SIGTSTP is not tested: the kernel ignores it
    in a process group without a terminal.
    """
    supervisor.monitor.servers = set()
    supervisor.monitor.run_spec = replace(
        supervisor.run_spec, watchdog_seconds=0.0, setup_watchdog_seconds=0.0
    )
    with python("import time; time.sleep(600)") as peer:
        pids = {stopped: lasting.pid, 1 - stopped: peer.pid}
        supervisor.monitor.children = {f"worker-{stopped}": lasting, f"worker-{1 - stopped}": peer}
        for process, pid in pids.items():
            path = heartbeat_path(supervisor.folder, process)
            path.write_text(json.dumps(asdict(WorkerStatus(process, pid, "train"))))
            if process == stopped and not has_beat:
                path.unlink()
        os.kill(lasting.pid, signal.SIGSTOP)
        wait_until("it is stopped", lambda: processes.is_stopped(lasting.pid))
        found = look(supervisor) or look(supervisor)
        os.kill(lasting.pid, signal.SIGCONT)
        wait_until("it runs again", lambda: not processes.is_stopped(lasting.pid))
    assert (found.status, found.process) == ("hung", stopped)
    for text in (
        f"process {stopped} (process id {lasting.pid}) has been stopped",
        "state T",
        "resume=true",
    ):
        assert text in found.reason
    assert "no Python line" not in found.reason
