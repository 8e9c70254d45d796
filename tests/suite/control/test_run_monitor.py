"""The process that is named if a process of a run fails."""

import os
from types import SimpleNamespace

import pytest

from suite.common.runspec import Host
from suite.control.hosts.host_control import HostFailure
from suite.control.run_monitor import RunMonitor
from suite.worker.heartbeat import HeartbeatWriter


def test_the_process_that_failed_and_its_text_log_are_named(tmp_path):
    here = Host("laptop", "127.0.0.1", 0, (0, 1), (0, 1))
    monitor = RunMonitor(
        SimpleNamespace(folder=str(tmp_path)), [here], [here, here], has_agents=False
    )
    monitor.controls = [
        SimpleNamespace(
            alive=lambda pid: pid == os.getpid(),
            failure=lambda: None,
            flush_events=lambda: None,
            exhausts=lambda pids: "",
        )
    ]
    HeartbeatWriter(tmp_path, 0)
    (tmp_path / "worker-1.log").write_text("Traceback (most recent call last):\n")
    HeartbeatWriter(tmp_path, 1).finish(
        "failed", "NameError: name 'x' is not defined, at /plugin/trainer.py:7 in setup"
    )
    ended = monitor.poll(lambda heartbeats: None)
    assert (ended.status, ended.process) == ("failed", 1)
    reason = (
        "NameError: name 'x' is not defined, at /plugin/trainer.py:7 in setup; traceback in"
        " worker-1.log"
    )
    assert ended.reason == f"process 1: {reason}"


LEFT, RIGHT = (Host(name, "127.0.0.1", 0, (0,), (0,)) for name in ("left", "right"))


def control(host, **functions):
    """Return the control of a machine without failures, except for the given functions."""
    values = {
        "alive": lambda pid: True,
        "oom_killed": lambda: False,
        "failure": lambda: None,
        "flush_events": lambda: None,
        "exhausts": lambda pids: "",
    }
    return SimpleNamespace(host=host, **{**values, **functions})


def monitor_of(folder, *controls):
    """Return the monitor of a run with one worker on each machine."""
    hosts = [item.host for item in controls]
    monitor = RunMonitor(SimpleNamespace(folder=str(folder)), hosts, hosts, has_agents=False)
    monitor.controls = list(controls)
    return monitor


def test_an_interrupted_machine_is_the_cause_of_a_lost_machine(tmp_path):
    """A scheduler that ends a job interrupts one machine, and its peers lose their connections."""
    monitor = monitor_of(
        tmp_path,
        control(LEFT, failure=lambda: HostFailure("rank_died", "left is lost")),
        control(RIGHT, failure=lambda: HostFailure("interrupted", "SIGTERM on right")),
    )
    found = monitor.failure()
    assert (found.status, found.reason, found.node) == ("interrupted", "SIGTERM on right", "right")


@pytest.mark.parametrize(("killed", "status"), [(True, "oom"), (False, "rank_died")])
def test_a_worker_that_the_kernel_killed_ran_out_of_memory(tmp_path, killed, status):
    monitor = monitor_of(
        tmp_path, control(LEFT, alive=lambda pid: False, oom_killed=lambda: killed)
    )
    HeartbeatWriter(tmp_path, 0)
    assert monitor.died(monitor.heartbeats()).status == status


def test_a_command_that_exits_with_0_before_its_worker_finished_has_failed(tmp_path):
    monitor = monitor_of(tmp_path, control(LEFT))
    HeartbeatWriter(tmp_path, 0)
    monitor.children = {"worker-0": SimpleNamespace(poll=lambda: 0)}
    found = monitor._left(monitor.heartbeats(), {"worker-0": 0})
    assert (found.status, found.process) == ("failed", 0)
    HeartbeatWriter(tmp_path, 0).finish("success")
    assert monitor._left(monitor.heartbeats(), {"worker-0": 0}) is None
