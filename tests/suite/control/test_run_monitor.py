"""The process that is named if a process of a run fails."""

import os
from types import SimpleNamespace

from suite.common.runspec import Host
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
