"""A machine that an agent serves: the same questions as of this one, answered from what the agent has told."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from suite.agent.message_stream import Message, packed, unpacked
from suite.common import checkpoints
from suite.common.paths import PROJECT
from suite.common.run_folder import RUN_FILE, STATUS_FILE
from suite.common.runspec import Host, write_atomically
from suite.control.hosts.connection import AgentConnection, ConnectionLost, HostFailure, ignore_message
from suite.environments.environment import Environment
from suite.launch.children import ENDING_SECONDS, GRACE_SECONDS
from suite.launch.known import tuning_variables
from suite.launch.worker_env import inherited_variables
from suite.worker.heartbeat import STACK_SIGNAL

CARRIED = ("SUITE_", "PYTHONPATH", "PYTHONSAFEPATH", "NVIDIA_TF32_OVERRIDE")
"""Beginnings of the variables that a user sets for workers where the command is typed, beside those of `tuning_variables`. All
others are the machine's own."""
BEGIN_SECONDS = 60.0
PIECE_BYTES = 4 << 20
END_SECONDS = 2 * GRACE_SECONDS + ENDING_SECONDS + 4.0
"""Of which ENDING_SECONDS are taken by containers alone."""
TELEMETRY_PROCESS = "telemetry"
"""Name of the process that samples the machine."""
OF_MACHINE = ("telemetry.jsonl", "topology.json", f"{TELEMETRY_PROCESS}.log")
_FILE = re.compile(r"\.?[\w=+-][\w.=+-]*")
_OURS = (RUN_FILE, STATUS_FILE)
"""Files of a run's folder that the controller alone writes."""


def carried_variables() -> dict[str, str]:
    """Those of this process that workers on other machines get."""
    carried = (*CARRIED, *tuning_variables())
    return {name: value for name, value in inherited_variables(os.environ).items() if name.startswith(carried)}


def own_variables() -> dict[str, str]:
    """The same for the suite's own modules, which may be imported from anywhere."""
    carried = carried_variables()
    path = [str(PROJECT), carried.get("PYTHONPATH", "")]
    return {**carried, "PYTHONPATH": os.pathsep.join(filter(None, path))}


class RemoteCommand:
    """A command on another machine."""

    def __init__(self, machine: RemoteHost, name: str) -> None:
        self._machine, self._name = machine, name

    def poll(self) -> int | None:
        """As far as it is known here."""
        self._machine.link.listen()
        return self._machine.exits.get(self._name)


class RemoteHost:
    """One machine during one run. Its workers write into a folder of their machine; what appears there appears here."""

    def __init__(self, link: AgentConnection, host: Host, environment: Environment, folder: Path, own: Path) -> None:
        """`folder`: the run's, here; `own`: what the machine says of itself comes there."""
        self.link, self.host, self._copy, self._own = link, host, folder, own
        self.exits: dict[str, int] = {}
        self.full_disk = ""
        """As the agent told when a command failed."""
        self._gone: set[int] = set()
        self._oom_kills = 0
        self._exhausts = ""
        self._ending: int | None = None
        link.tell = self._take
        run = json.loads((folder / RUN_FILE).read_text(encoding="utf-8"))
        watches = not environment.argv_prefix  # ids inside a container are not the machine's
        begun = link.call("begin", BEGIN_SECONDS, run=run, watches_pids=watches)
        self.folder = Path(begun["folder"])
        for path in sorted([*folder.glob("*.npy"), *checkpoints.found(folder)]):
            self._put(path)
        self._watch_machine(str(run["settings"]["device"]))

    def _put(self, path: Path) -> None:
        """A file of the run's folder into that of the machine, in pieces: beats go between them."""
        with open(path, "rb") as stream:
            at = 0
            while data := stream.read(PIECE_BYTES):
                self.link.call("put", BEGIN_SECONDS, name=path.name, at=at, data=packed(data))
                at += len(data)

    def _watch_machine(self, device: str) -> None:
        """Telemetry and topology, where the machine has this Python with its packages."""
        words = [sys.executable, "-m", "suite.control.telemetry", str(self.folder), device]
        with contextlib.suppress(ValueError):
            self.link.call("start", name=TELEMETRY_PROCESS, arguments=words, variables=own_variables())

    def ports(self) -> list[int]:
        ports = self.link.call("ports", count=len(self.host.replicas) + 1, address=self.host.address)["ports"]
        own = [] if self.link.port is None else [self.link.port]
        return [*own, *map(int, ports)][: len(ports)]

    def start(
        self, name: str, arguments: Sequence[str], variables: Mapping[str, str], private: bool = False
    ) -> RemoteCommand:
        """Start a process with the machine's own variables, those that a user sets for workers, and these.

        `private`: start it in the private network that all such processes of the run share.
        """
        variables = {**carried_variables(), **variables}
        self.link.call("start", name=name, arguments=list(arguments), variables=variables, private=private)
        return RemoteCommand(self, name)

    def alive(self, pid: int) -> bool:
        """False once the agent has missed it."""
        self.link.listen()
        return pid not in self._gone

    def is_stopped(self, pid: int) -> bool:
        """Return True if a signal or a debugger has stopped the worker, according to the agent."""
        try:
            answer = self.link.call("is_stopped", seconds=self.link.lease_seconds, pid=pid)
        except (ConnectionLost, ValueError):
            return False
        return answer.get("stopped") is True

    def stack(self, pid: int) -> bool:
        try:
            self.link.call("stack", seconds=self.link.lease_seconds, pid=pid, number=int(STACK_SIGNAL))
        except (ConnectionLost, ValueError):
            return False
        return True

    def oom_killed(self) -> bool:
        """By the count of the machine's control group."""
        return self._oom_kills > 0

    def exhausts(self, pids: Iterable[int]) -> str:
        """What the agent told, which looks at the workers that it knows."""
        return self._exhausts

    def failure(self) -> HostFailure | None:
        return self.link.failure()

    def flush_events(self) -> None:
        """A question that is answered after a look: either it comes back, or the machine turns out to be lost."""
        try:
            self.link.call("ping", seconds=2 * self.link.lease_seconds)
        except ConnectionLost:
            self.link.failure()

    def terminate(self, pids: Iterable[int], ending: Sequence[str]) -> None:
        """Ask the agent to end everything. A lost machine does so by itself, at the latest when the connection is closed."""
        if self.link.failure() is None:
            self._ending = self.link.ask("finish", ending=list(ending))
        else:
            self.link.close()

    def wait(self) -> None:
        if self._ending is not None:
            with contextlib.suppress(ConnectionLost, ValueError):
                self.link.answer(self._ending, END_SECONDS)
        self.link.listen()
        self.link.tell = ignore_message

    def _take(self, message: Message) -> None:
        """What the agent tells."""
        if "file" in message:
            self._write(message)
        elif "exit" in message:
            self.exits[message["exit"]] = int(message["code"])
            self.full_disk = f"machine {self.host.name}: {message['full']}" if message["full"] else self.full_disk
        elif "gone" in message:
            self._gone |= set(message["gone"])
        elif "oom_kills" in message:
            self._oom_kills = int(message["oom_kills"])
        elif "exhausts" in message:
            self._exhausts = f"machine {self.host.name}: {message['exhausts']}"

    def _write(self, message: Message) -> None:
        name: Any = message["file"]
        if not isinstance(name, str) or not _FILE.fullmatch(name) or name in _OURS:
            return
        if "whole" in message:
            write_atomically(self._copy / name, message["whole"])
            return
        if name == f"{TELEMETRY_PROCESS}.log" and not message["data"]:
            return  # nothing went wrong
        folder = self._own if name in OF_MACHINE else self._copy
        folder.mkdir(exist_ok=True)
        descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            if message["at"] == 0:
                os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, unpacked(message["data"]), message["at"])
        finally:
            os.close(descriptor)
        if checkpoints.step_of(Path(name)) >= 0 and message["at"] == 0:
            checkpoints.prune(self._copy)
