"""Which process of a run is named when one of them fails."""

import os
from types import SimpleNamespace

from suite.common.runspec import Host
from suite.control.watch import Watch
from suite.worker.heartbeat import Heart


def test_the_process_that_failed_and_its_text_log_are_named(tmp_path):
    here = Host("laptop", "127.0.0.1", 0, (0, 1), (0, 1))
    watch = Watch(SimpleNamespace(folder=str(tmp_path)), [here], [here, here], has_agents=False)
    watch.controls = [SimpleNamespace(alive=lambda pid: pid == os.getpid(), lost=lambda: None, settle=lambda: None,
                                      exhausts=lambda pids: "")]  # fmt: skip
    Heart(tmp_path, 0)
    (tmp_path / "worker-1.log").write_text("Traceback (most recent call last):\n")
    Heart(tmp_path, 1).finish("failed", "NameError: name 'x' is not defined, at /plugin/trainer.py:7 in setup")
    ended = watch.look(lambda beats: None)
    assert (ended.status, ended.process) == ("failed", 1)
    reason = "NameError: name 'x' is not defined, at /plugin/trainer.py:7 in setup; traceback in worker-1.log"
    assert ended.reason == f"process 1: {reason}"
