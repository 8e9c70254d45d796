"""Per-host work of the supervisor: machine facts, and the process ids that it can check.

No process is started.
"""

import json
import os
import platform
from dataclasses import asdict, replace

import pytest

from suite.control import advice
from suite.control.run_status import RunStatus
from suite.control.supervise import Supervisor
from suite.environments.environment import Environment
from suite.launch.mxnet import MXNET
from suite.launch.tensorflow import TENSORFLOW
from suite.worker.heartbeat import WorkerStatus, heartbeat_path
from tests.suite.two_hosts import HOSTS, make_run

TORCH = Environment("torch", (), "/python")
PID_MAXIMUM = 1 << 22
"""The kernel's largest process id on 64-bit machines is below this number, proc(5)."""


def supervisor(folder, framework, prefix=()):
    """Return the supervisor of a run on this machine and node-b."""
    run = make_run(
        (replace(HOSTS[0], name=platform.node()), HOSTS[1]), devices=8, folder=str(folder)
    )
    return Supervisor(run, framework, Environment("torch", prefix, "/python"), None)


@pytest.mark.parametrize("hosts", [1, 2])
def test_machine_facts_of_several_hosts_are_in_folders_with_their_names(tmp_path, hosts):
    alone = Supervisor(make_run(folder=str(tmp_path)), TENSORFLOW, TORCH, None)
    watch, folder = (
        (alone, tmp_path)
        if hosts == 1
        else (supervisor(tmp_path, TENSORFLOW), tmp_path / platform.node())
    )
    watch._records.prepare()
    (telemetry,) = watch._records._telemetry
    assert (telemetry.path, telemetry.log.parent) == (folder / "telemetry.jsonl", tmp_path)
    assert json.loads((folder / "topology.json").read_text())["kernel"] == os.uname().release


@pytest.mark.parametrize(
    ("process", "prefix", "dead"), [(3, (), True), (3, ("docker", "run"), False), (4, (), False)]
)
def test_only_process_ids_of_this_machine_are_checked(tmp_path, process, prefix, dead):
    """Check that only ids of local processes are searched.

    The id of a worker in a container or on a remote host has no meaning on this machine.
    """
    watching = supervisor(tmp_path, MXNET, prefix)
    heartbeat_path(tmp_path, process).write_text(
        json.dumps(asdict(WorkerStatus(process, PID_MAXIMUM + 1)))
    )
    ended = watching.monitor.died(watching.monitor.heartbeats())
    assert (ended.status, ended.process) == ("rank_died", process) if dead else ended is None


def test_a_process_that_dies_on_a_full_disk_is_recorded_with_the_disk(tmp_path, monkeypatch):
    """Check the reason of a process that the kernel killed for writing to a file on a full disk."""
    monkeypatch.setattr(advice.disks, "full", lambda *_: "no space left in /here")
    run = make_run(folder=str(tmp_path), update="sync")
    ended = Supervisor(run, TENSORFLOW, TORCH, None)._end(RunStatus("rank_died", "killed"))
    assert ended.reason == "killed; no space left in /here"
    filed = json.loads((tmp_path / "status.json").read_text())
    assert (filed["reason"], filed["code"]) == (ended.reason, "disk_full")


def test_a_full_disk_that_a_worker_reported_is_recorded_once(tmp_path, monkeypatch):
    monkeypatch.setattr(advice.disks, "full", lambda *_: "no space left in /here")
    run = make_run(folder=str(tmp_path), update="sync")
    ended = Supervisor(run, TENSORFLOW, TORCH, None)._end(
        RunStatus("failed", "any words", code="disk_full")
    )
    assert (ended.reason, ended.code) == ("any words", "disk_full")


@pytest.mark.parametrize("error", [PermissionError, ProcessLookupError])
def test_a_worker_that_cannot_be_signaled_has_no_stack(tmp_path, monkeypatch, error):
    def kill(*_):
        raise error

    monkeypatch.setattr(os, "kill", kill)
    assert not supervisor(tmp_path, MXNET).monitor.controls[0].stack(os.getpid())
