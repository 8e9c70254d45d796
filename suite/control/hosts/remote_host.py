"""Control a machine through its agent, and copy the files of the run from the machine."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from suite.agent import messages
from suite.agent.messages import (
    Event,
    ExitEvent,
    FileEvent,
    GoneEvent,
    HeartbeatEvent,
    MemoryEvent,
    OomEvent,
    pack,
)
from suite.common import checkpoint_files
from suite.common.paths import PROJECT
from suite.common.run_folder import RUN_FILE, STATUS_FILE
from suite.common.runspec import Host, write_atomically
from suite.control.hosts.connection import AgentConnection, PendingResponse, ignore_event
from suite.control.hosts.host_control import ConnectionLost, HostFailure
from suite.environments.environment import Environment
from suite.launch.children import ENDING_SECONDS, GRACE_SECONDS
from suite.launch.registered_frameworks import tuning_variables
from suite.launch.worker_env import inherited_variables
from suite.worker.heartbeat import STACK_SIGNAL

CARRIED = ("SUITE_", "PYTHONPATH", "PYTHONSAFEPATH", "NVIDIA_TF32_OVERRIDE")
"""Prefixes of the environment variables that are copied from the controller to remote workers, in
addition to `tuning_variables`. All other variables come from the worker's machine.
"""
BEGIN_SECONDS = 60.0
"""Time limit in seconds for each response at the start of a run."""
PIECE_BYTES = 4 << 20
"""Size in bytes of the chunks in which files are sent to a machine."""
END_SECONDS = 2 * GRACE_SECONDS + ENDING_SECONDS + 4.0
"""Time limit in seconds for ending a run on a machine. ENDING_SECONDS is part of the limit because
containers may have to be ended.
"""
TELEMETRY_PROCESS = "telemetry"
"""Name of the process that records telemetry of the machine."""
OF_MACHINE = ("telemetry.jsonl", "topology.json", f"{TELEMETRY_PROCESS}.log")
"""Files that describe the machine. They are stored in the folder for the files of the machine."""
_FILE = re.compile(r"\.?[\w=+-][\w.=+-]*")
_OURS = (RUN_FILE, STATUS_FILE)
"""Files in a run's folder that only the controller writes."""


def carried_variables() -> dict[str, str]:
    """Return the environment variables that remote workers get from this process."""
    carried = (*CARRIED, *tuning_variables())
    return {
        name: value
        for name, value in inherited_variables(os.environ).items()
        if name.startswith(carried)
    }


def suite_variables() -> dict[str, str]:
    """Return the copied environment variables, with this checkout on the Python path.

    The controller starts modules of the suite on remote machines with these environment variables.
    """
    carried = carried_variables()
    path = [str(PROJECT), carried.get("PYTHONPATH", "")]
    return {**carried, "PYTHONPATH": os.pathsep.join(filter(None, path))}


class RemoteCommand:
    """A command on a remote machine, with the interface of `Started`."""

    def __init__(self, machine: RemoteHost, name: str) -> None:
        self._machine, self._name = machine, name

    def poll(self) -> int | None:
        self._machine.connection.listen()
        return self._machine.exits.get(self._name)


class RemoteHost:
    """Controls a machine that has an agent (`HostControl`).

    The agent sends new files in its run folder to the controller's machine.
    """

    def __init__(
        self,
        connection: AgentConnection,
        host: Host,
        environment: Environment,
        folder: Path,
        records: Path,
    ) -> None:
        """Start a run on the machine.

        Args:
            connection: Connection to the agent.
            host: The machine.
            environment: Environment of the workers.
            folder: Folder of the run on the controller's machine.
            records: Folder for telemetry and topology of the machine.

        Raises:
            ConnectionLost: The agent does not respond.
            ValueError: The agent cannot create its folder or a file of the run.
        """
        self.connection, self.host, self._copy, self._records = connection, host, folder, records
        self.exits: dict[str, int] = {}
        self.full_disk = ""
        self._gone: set[int] = set()
        self._oom_kills = 0
        self._exhausts = ""
        self._ending: PendingResponse[messages.Done] | None = None
        connection.on_event = self._take
        run = json.loads((folder / RUN_FILE).read_text(encoding="utf-8"))
        # A process id inside a container is not valid outside the container.
        watches = not environment.command_prefix
        self.folder = Path(
            connection.call(messages.BEGIN, BEGIN_SECONDS, run=run, watches_pids=watches).path
        )
        for path in sorted([*folder.glob("*.npy"), *checkpoint_files.found(folder)]):
            self._put(path)
        self._watch_machine(str(run["settings"]["device"]))

    def _put(self, path: Path) -> None:
        """Copy a file of the run to the machine in chunks.

        Between two chunks, heartbeats can be sent.
        """
        with open(path, "rb") as stream:
            at = 0
            while data := stream.read(PIECE_BYTES):
                self.connection.call(
                    messages.PUT, BEGIN_SECONDS, name=path.name, at=at, data=pack(data)
                )
                at += len(data)

    def _watch_machine(self, device: str) -> None:
        """Start the process that records telemetry and topology."""
        argv = [sys.executable, "-m", "suite.control.telemetry", str(self.folder), device]
        with contextlib.suppress(ValueError):
            self.connection.call(
                messages.START, name=TELEMETRY_PROCESS, arguments=argv, env=suite_variables()
            )

    def ports(self) -> list[int]:
        count = len(self.host.replicas) + 1
        ports = self.connection.call(messages.PORTS, count=count, address=self.host.address).ports
        first = [] if self.connection.port is None else [self.connection.port]
        return [*first, *ports][: len(ports)]

    def start(
        self, name: str, arguments: Sequence[str], env: Mapping[str, str], private: bool = False
    ) -> RemoteCommand:
        env = {**carried_variables(), **env}
        self.connection.call(
            messages.START, name=name, arguments=list(arguments), env=env, private=private
        )
        return RemoteCommand(self, name)

    def alive(self, pid: int) -> bool:
        self.connection.listen()
        return pid not in self._gone

    def is_stopped(self, pid: int) -> bool:
        try:
            return self.connection.call(
                messages.IS_STOPPED, seconds=self.connection.lease_seconds, pid=pid
            ).is_stopped
        except (ConnectionLost, ValueError):
            return False

    def stack(self, pid: int) -> bool:
        try:
            self.connection.call(
                messages.STACK,
                seconds=self.connection.lease_seconds,
                pid=pid,
                number=int(STACK_SIGNAL),
            )
        except (ConnectionLost, ValueError):
            return False
        return True

    def oom_killed(self) -> bool:
        return self._oom_kills > 0

    def exhausts(self, pids: Iterable[int]) -> str:
        return self._exhausts

    def failure(self) -> HostFailure | None:
        return self.connection.failure()

    def flush_events(self) -> None:
        """Send a request that the agent answers only after it has checked its processes.

        If the agent does not respond, the machine is considered lost.
        """
        try:
            self.connection.call(messages.PING, seconds=2 * self.connection.lease_seconds)
        except ConnectionLost:
            self.connection.failure()

    def terminate(self, pids: Iterable[int], ending: Sequence[str]) -> None:
        """Send the agent a request to end all processes.

        If the machine is lost, its agent ends the processes when the connection closes.
        """
        if self.connection.failure() is None:
            self._ending = self.connection.send_request(messages.FINISH, ending=list(ending))
        else:
            self.connection.close()

    def wait(self) -> None:
        if self._ending is not None:
            with contextlib.suppress(ConnectionLost, ValueError):
                self.connection.get_response(self._ending, END_SECONDS)
        self.connection.listen()
        self.connection.on_event = ignore_event

    def _take(self, event: Event) -> None:
        """Process an event from the agent."""
        match event:
            case HeartbeatEvent():
                if _may_write(event.name):
                    write_atomically(self._copy / event.name, event.content)
            case FileEvent():
                if _may_write(event.name):
                    self._write(event)
            case ExitEvent():
                self.exits[event.name] = event.code
                self.full_disk = (
                    f"machine {self.host.name}: {event.full_disk}"
                    if event.full_disk
                    else self.full_disk
                )
            case GoneEvent():
                self._gone |= set(event.pids)
            case OomEvent():
                self._oom_kills = event.kills
            case MemoryEvent():
                self._exhausts = f"machine {self.host.name}: {event.reason}"

    def _write(self, part: FileEvent) -> None:
        """Write a chunk of a remote file to the local folder of the run or of the machine."""
        name = part.name
        if name == f"{TELEMETRY_PROCESS}.log" and not part.data:
            return  # an empty log of the telemetry process is not copied
        folder = self._records if name in OF_MACHINE else self._copy
        folder.mkdir(exist_ok=True)
        descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            if part.offset == 0:
                os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, part.data, part.offset)
        finally:
            os.close(descriptor)
        if checkpoint_files.step_of(Path(name)) >= 0 and part.offset == 0:
            checkpoint_files.prune(self._copy)


def _may_write(name: str) -> bool:
    """Check whether an agent may write a file named `name` into a run's folder."""
    return _FILE.fullmatch(name) is not None and name not in _OURS
