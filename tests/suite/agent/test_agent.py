"""An agent: the files that it sends, the processes that it ends, and its end."""

import os
import platform
import signal
import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from suite.agent import messages
from suite.agent.agent import Agent
from suite.agent.file_tailer import CHUNK_BYTES, FileTailer
from suite.agent.messages import ExitEvent, FileEvent, GoneEvent, HeartbeatEvent, pack
from suite.machine import exhaustion
from tests.helpers import wait_until
from tests.suite.agent.agents import agent

SLEEPER = [sys.executable, "-S", "-c", "import time; print('here', flush=True); time.sleep(600)"]
STUBBORN = [
    *(sys.executable, "-S", "-c"),
    (
        "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM,"
        " signal.SIG_IGN);subprocess.Popen(['sleep', '601'], start_new_session=True); print('here',"
        " flush=True); time.sleep(600)"
    ),
]


def begun(connection, **run):
    folder = connection.call(messages.BEGIN, run={"folder": "", **run}, watches_pids=True).path
    for at, data in ((0, b"abc"), (3, b"de")):
        connection.call(messages.PUT, name="facts-x.npy", at=at, data=pack(data))
    assert (Path(folder) / "facts-x.npy").read_bytes() == b"abcde"
    return folder


def children_of(pid):
    return psutil.Process(pid).children(recursive=True)


def test_an_agent_sends_the_facts_of_its_machine(tmp_path):
    with agent(tmp_path) as (connection, _):
        facts = connection.facts
    assert (facts.name, facts.cores) == (platform.node(), tuple(sorted(os.sched_getaffinity(0))))
    assert facts.hardware["memory_bytes"] == pytest.approx(psutil.virtual_memory().total, rel=0.01)
    assert set(facts.addresses.values()) == {
        entry.address
        for name, entries in psutil.net_if_addrs().items()
        for entry in entries[:1]
        if entry.family == socket.AF_INET and not entry.address.startswith("127.")
    }


def test_the_exit_code_of_a_command_is_not_lost(tmp_path):
    """Check a command that ends a second before its output.

    Meanwhile, the agent looks for orphans that have ended.
    """
    order = {
        "command": ["sh", "-c", "sleep 1 & echo here; exit 3"],
        "most_seconds": 60.0,
        "env": {},
    }
    with agent(tmp_path) as (connection, _):
        found = connection.call(messages.RUN_COMMAND, 60, **order)
        assert (found.code, found.output, found.errors) == (3, "here\n", "")
        with pytest.raises(ValueError, match=r"sleep does not answer within 0\.5 s$"):
            connection.call(
                messages.RUN_COMMAND,
                60,
                **{**order, "command": ["sleep", "600"], "most_seconds": 0.5},
            )
        with pytest.raises(ValueError, match=r"no-such-command: No such file or directory$"):
            connection.call(messages.RUN_COMMAND, 60, **{**order, "command": ["no-such-command"]})


def test_files_are_sent_as_they_are_written(tmp_path):
    """Check that logs are sent as they grow, heartbeats whole, and remaining files after `finish`.

    No file is left on the machine.
    """
    taken = []
    with agent(tmp_path) as (connection, _):
        connection.on_event = taken.append
        folder = begun(connection)
        writer = [*SLEEPER[:3], "import sys; print('x' * 300_000); sys.exit(3)"]
        connection.call(messages.START, name="worker-0", arguments=writer, env={})
        wait_until(
            "exit",
            lambda: (
                connection.listen(0.1) or [event for event in taken if isinstance(event, ExitEvent)]
            ),
        )
        assert ExitEvent("worker-0", 3, "") in taken
        with open(os.path.join(folder, ".worker-0.json"), "w") as heartbeat:
            heartbeat.write('{"pid": 1}')
        with open(os.path.join(folder, ".note"), "w"):
            pass
        connection.call(messages.FINISH)
        assert not os.path.exists(folder)
    files = [event for event in taken if isinstance(event, FileEvent)]
    parts = [event for event in files if event.name == "worker-0.log" and event.data]
    assert [event.offset for event in parts] == [0, CHUNK_BYTES]
    assert b"".join(event.data for event in parts) == b"x" * 300_000 + b"\n"
    assert HeartbeatEvent(".worker-0.json", '{"pid": 1}') in taken
    assert FileEvent(".note", 0, b"") in taken
    assert taken.index(parts[-1]) < taken.index(ExitEvent("worker-0", 3, ""))
    assert not [event for event in files if event.name in ("run.json", "facts-x.npy")]


def test_the_end_of_a_worker_is_reported_after_its_last_heartbeat(tmp_path):
    taken = []
    with agent(tmp_path) as (connection, _):
        connection.on_event = taken.append
        begun(connection)
        code = "import json, os; status = {'pid': os.getpid(), 'status': 'failed'}"
        code += "; open('.worker-0.json', 'w').write(json.dumps(status))"
        connection.call(messages.START, name="worker-0", arguments=[*SLEEPER[:3], code], env={})
        wait_until(
            "gone",
            lambda: (
                connection.listen(0.1) or [event for event in taken if isinstance(event, GoneEvent)]
            ),
        )
    kinds = [type(event) for event in taken if not isinstance(event, FileEvent)]
    assert kinds[0] is HeartbeatEvent
    assert set(kinds[1:]) == {ExitEvent, GoneEvent}


@pytest.mark.parametrize("how", ["finish", "end of input", "lease", "signal"])
def test_no_process_outlives_a_run(tmp_path, how):
    """Check also a process that ignores SIGTERM, and a process in a separate session."""
    with agent(tmp_path, lease_seconds=2.0) as (connection, process):
        folder = begun(connection)
        connection.call(messages.START, name="worker-0", arguments=STUBBORN, env={"NAME": "value"})
        wait_until("two processes", lambda: len(children_of(process.pid)) == 2)
        started = children_of(process.pid)
        assert started[0].environ()["NAME"] == "value"
        if how == "finish":
            connection.call(messages.FINISH)
        elif how == "end of input":
            connection.stream.close()
        elif how == "lease":
            # The controller stays connected but sends no messages, as if the network were down.
            connection.stream._outgoing.put(None)
        else:
            process.send_signal(signal.SIGTERM)
            lost = wait_until("signal", connection.failure)
            assert (lost.status, lost.reason) == (
                "interrupted",
                "machine here got SIGTERM: its scheduler ends the run",
            )
            connection.close()
        _, alive = psutil.wait_procs(started, timeout=15)
        assert not alive
        wait_until("clean", lambda: not os.path.exists(folder), 15)
        if how != "finish":
            assert process.wait(10) == 0


def test_containers_are_ended_after_the_processes(tmp_path):
    """Check that the command which ends the containers starts after the run's processes have ended.

    If it were started earlier, the agent would end it like a process of the run.
    """
    output = tmp_path / "output"
    with agent(tmp_path) as (connection, process):
        begun(connection)
        connection.call(messages.START, name="worker-0", arguments=SLEEPER, env={})
        (worker,) = children_of(process.pid)
        script = (
            f"kill -0 {worker.pid} 2> /dev/null || echo gone > {output}; sleep 0.5; echo ended >>"
            f" {output}"
        )
        connection.call(messages.FINISH, ending=["sh", "-c", script])
        assert output.read_text() == "gone\nended\n"
        connection.call(messages.FINISH, ending=["/nowhere"])


def test_workers_die_with_their_agent(tmp_path):
    with agent(tmp_path) as (connection, process):
        begun(connection)
        connection.call(messages.START, name="worker-0", arguments=SLEEPER, env={})
        started = children_of(process.pid)
        process.kill()
        assert not psutil.wait_procs(started, timeout=10)[1]
        lost = wait_until("lost", connection.failure)
        assert (lost.status, lost.reason) == (
            "rank_died",
            "machine here is lost: its agent closed the connection",
        )


def test_a_silent_agent_is_lost_after_its_lease(tmp_path):
    with agent(tmp_path, lease_seconds=2.0) as (connection, process):
        process.send_signal(signal.SIGSTOP)
        lost = wait_until("lost", connection.failure, 5)
        process.send_signal(signal.SIGCONT)
    assert lost.reason.startswith("machine here is lost: silent for 2 s (launch.lease_seconds=2)")


def test_an_agent_reports_a_stopped_worker(tmp_path):
    with agent(tmp_path) as (connection, _):
        begun(connection)
        code = "import json, os, time; status = {'pid': os.getpid(), 'status': ''}"
        code += "; open('.worker-0.json', 'w').write(json.dumps(status)); time.sleep(600)"
        pid = connection.call(
            messages.START, name="worker-0", arguments=[*SLEEPER[:3], code], env={}
        ).pid
        os.kill(pid, signal.SIGSTOP)
        # This process is not a worker of the agent.
        assert connection.call(messages.IS_STOPPED, pid=os.getpid()).is_stopped is False
        os.kill(pid, signal.SIGCONT)
        wait_until(
            "its first heartbeat was read",
            lambda: connection.listen(0.1) or _stops(connection, pid),
        )
        os.kill(pid, signal.SIGCONT)
        assert connection.call(messages.IS_STOPPED, pid=pid).is_stopped is False


def _stops(connection, pid):
    """Stop a worker and return whether the agent reports it as stopped."""
    os.kill(pid, signal.SIGSTOP)
    stopped = connection.call(messages.IS_STOPPED, pid=pid).is_stopped
    if not stopped:
        os.kill(pid, signal.SIGCONT)
    return stopped


def test_requests_that_fail_return_an_error(tmp_path):
    with agent(tmp_path) as (connection, _):
        begun(connection)
        with pytest.raises(ValueError, match="here: No such file or directory"):
            connection.call(messages.START, name="worker-0", arguments=["/nowhere"], env={})
        with pytest.raises(ValueError, match="here: 1 is not a worker here"):
            connection.call(messages.STACK, pid=1, number=int(signal.SIGUSR2))
        with pytest.raises(
            ValueError, match="here: request stack: missing a required argument: 'number'"
        ):
            connection.call(messages.STACK, pid=1)
        with pytest.raises(ValueError, match="here: unknown request dance"):
            connection.call(messages.Request("dance", messages.Done))
        assert connection.call(messages.READ, path="/nowhere").data is None
        assert len(set(connection.call(messages.PORTS, count=3, address="127.0.0.1").ports)) == 3
        route = connection.call(messages.ROUTE, to="localhost")
        assert (route.peer, route.address, route.interface) == ("127.0.0.1", "127.0.0.1", "lo")


def test_a_file_that_is_replaced_is_sent_again_from_its_start(tmp_path):
    new_files = FileTailer(tmp_path)
    (tmp_path / "a.log").write_text("long text")
    (tmp_path / ".a.log.1.tmp").write_text("never")
    assert [event.data for event in new_files.new(1)] == [b"long text"]
    assert list(new_files.new(1)) == []
    (tmp_path / "b").write_text("other")
    os.replace(tmp_path / "b", tmp_path / "a.log")
    assert [(event.offset, event.data) for event in new_files.new(1)] == [(0, b"other")]
    (tmp_path / ".worker-3.json").write_text("{}")
    (tmp_path / "c").write_text("waits")
    assert [event.name for event in new_files.new(0)] == [".worker-3.json"]


def test_a_run_that_exhausts_the_machine_is_reported_once(monkeypatch, tmp_path):
    """Check that the rule of suite/machine/exhaustion.py is applied to the running workers."""
    asked, sent = [], []

    def exhausts(pids):
        asked.append(set(pids))
        return "no memory" if pids else ""

    monkeypatch.setattr(exhaustion, "exhausts", exhausts)
    served = Agent(SimpleNamespace(send=lambda **message: sent.append(message)), 5.0)
    served.tick()
    served._pids = {".worker-0.json": os.getpid(), ".worker-1.json": 1 << 30}
    served.tick()
    served.tick()
    assert asked == [set(), {os.getpid()}]
    assert [message for message in sent if "memory" in message] == [
        {"memory": {"reason": "no memory"}}
    ]
