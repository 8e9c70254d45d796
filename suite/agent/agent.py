"""Executes the controller's requests on one machine, and reports events of the machine's processes and files.

The agent checks its processes ten times per second. It exits when the connection closes or its lease expires.

The controller sends requests: `{"do": …, "id": n, …}`. The agent answers each with `{"answer": n, …}`, or with
`{"answer": n, "error": text}`. The agent also sends events: `facts` of the machine (once), `exit` of a command, `gone` with
the ids of ended workers, `file` with contents, `oom_kills`, `exhausts` (why the run must end before this machine runs out of
memory), and `signal` when the scheduler sends a signal.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from suite.agent.facts import facts
from suite.agent.file_tailer import FileTailer
from suite.agent.message_stream import Message, MessageStream, packed, unpacked
from suite.common.run_folder import RUN_FILE, is_beat
from suite.launch import children, network, processes
from suite.launch.private_network import PrivateNetwork
from suite.launch.scratch import Scratch
from suite.launch.worker_env import inherited_variables, worker_variables
from suite.machine import cgroups, disks, exhaustion
from workloads import files

TICK_SECONDS = 0.1
MAX_BYTES = 4 << 20
"""Limit of the bytes sent per tick, over all files. A worker that writes without end must not delay heartbeats."""
MAX_BACKLOG = 200
"""Number of queued messages above which only heartbeats are added. The queue of a broken connection must not fill memory."""
READ_BYTES = 1 << 20
"""Limit of the bytes that `read` returns of a file. The controller reads manifests and markers."""
FROM_SCHEDULER = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)


class Agent:
    """Serves one controller during any number of runs, which follow each other."""

    def __init__(self, wire: MessageStream, lease_seconds: float) -> None:
        self.wire = wire
        self.lease_seconds = lease_seconds
        self.folder: Path | None = None
        """Folder that the workers of the run write to. None between runs."""
        self.started: dict[str, subprocess.Popen[bytes]] = {}
        self._network: PrivateNetwork | None = None
        self._reported_exits: set[str] = set()
        self._pids: dict[str, int] = {}
        """Maps the heartbeat file of a worker to the worker's process id."""
        self._gone: set[int] = set()
        self._watches_pids = True
        self._oom_kills = cgroups.oom_kills()
        self._reported_kills = 0
        self._reported_exhausted = False
        self._signal = 0
        self._leaving = False
        self._requests: dict[str, Callable[..., dict[str, Any] | None]] = {
            "begin": self._begin,
            "put": self._put,
            "start": self._start,
            "stack": self._stack,
            "is_stopped": self._is_stopped,
            "ping": self._ping,
            "finish": self._finish,
            "run_command": self._run_command,
            "read": self._read,
            "ports": self._ports,
            "route": self._route,
            "leave": self._leave,
        }
        """Maps each value of `do` to its method. The remaining keys of the request are the method's arguments."""

    def run(self) -> None:
        """Serve until the controller sends `leave`, the connection closes, or the lease expires. Then end all processes."""
        for number in FROM_SCHEDULER:
            signal.signal(number, self._note_signal)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the controller handles Ctrl-C
        children.adopt_orphans()
        self.wire.send(facts=facts())
        try:
            while not (self._leaving or self.wire.ended.is_set() or self.wire.silent_seconds > self.lease_seconds):
                for message in self.wire.received(TICK_SECONDS):
                    self._handle(message)
                self.tick()
        finally:
            self._forget_run()
            self.wire.close()

    def _note_signal(self, number: int, frame: FrameType | None) -> None:
        self._signal = self._signal or number

    def tick(self) -> None:
        """Check the processes once, and send new events and file contents.

        Exits are detected before the files are read, and are sent after the files. The controller thus has a worker's final
        heartbeat before it learns that the worker has ended.
        """
        if self._signal:
            self.wire.send(signal=signal.Signals(self._signal).name)
            self._signal = 0
        exits = {name: child.poll() for name, child in self.started.items() if name not in self._reported_exits}
        gone = [pid for pid in self._pids.values() if pid not in self._gone and not processes.alive(pid)]
        self._ship()
        for name, code in exits.items():
            if code is not None:
                self._reported_exits.add(name)
                self.wire.send(exit=name, code=code, full=disks.full(self.folder) if code and self.folder else "")
        if gone:
            self._gone |= set(gone)
            self.wire.send(gone=gone)
        self._report_memory()
        processes.reap(frozenset(child.pid for child in self.started.values()))

    def _ship(self, most_bytes: float = MAX_BYTES) -> None:
        if self.folder is None:
            return
        for message in self._new_files.new(most_bytes if self.wire.backlog < MAX_BACKLOG else 0):
            if is_beat(message["file"]) and self._watches_pids:
                with contextlib.suppress(ValueError, KeyError):
                    self._pids[message["file"]] = json.loads(message["whole"])["pid"]
            self.wire.send(**message)

    def _report_memory(self) -> None:
        kills = cgroups.oom_kills() - self._oom_kills
        if kills != self._reported_kills:
            self._reported_kills = kills
            self.wire.send(oom_kills=kills)
        if not self._reported_exhausted and (why := exhaustion.exhausts(set(self._pids.values()) - self._gone)):
            self._reported_exhausted = True
            self.wire.send(exhausts=why)

    # -- requests of the controller -------------------------------------------------------------------------------

    def _handle(self, message: Message) -> None:
        request = {name: value for name, value in message.items() if name not in ("do", "id")}
        try:
            if message["do"] == "run_command":
                request["number"] = message["id"]
            answer: dict[str, Any] | None = self._requests[message["do"]](**request)
        except (OSError, ValueError) as error:
            answer = {"error": getattr(error, "strerror", None) or str(error)}
        if answer is not None:
            self.wire.send(answer=message["id"], **answer)

    def _begin(self, run: dict[str, Any], watches_pids: bool) -> dict[str, Any]:
        """Create a temporary folder for a run, and write run.json into it.

        Args:
            run: Content of run.json.
            watches_pids: Check by process id whether workers are alive. False in containers, where process ids differ.

        Returns:
            The path of the folder.
        """
        self._forget_run()
        self._scratch = Scratch()
        self.folder = self._scratch.path
        (self.folder / "tmp").mkdir()
        run["folder"] = str(self.folder)
        (self.folder / RUN_FILE).write_text(json.dumps(run, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        self._new_files, self._watches_pids = FileTailer(self.folder), watches_pids
        self._oom_kills, self._reported_kills, self._reported_exhausted = cgroups.oom_kills(), 0, False
        return {"folder": str(self.folder)}

    def _put(self, name: str, at: int, data: str) -> dict[str, Any]:
        """Append a part to a file of the run. The file is not sent back, because the controller has it.

        Args:
            name: Name of the file.
            at: Offset of the part in bytes. Parts arrive in order, and 0 starts a new file.
            data: The part, from `packed`.
        """
        assert self.folder is not None
        self._new_files.known.add(name)
        with open(self.folder / name, "ab" if at else "wb") as stream:
            stream.write(unpacked(data))
        return {}

    def _start(self, name: str, arguments: list[str], env: Mapping[str, str], private: bool = False) -> dict[str, Any]:
        """Start a process. Its output goes to `name`.log.

        Args:
            name: Name of the process, such as `worker-0`.
            arguments: The command line.
            variables: Environment variables, added to those of the machine.
            private: Start it in the private network that all such processes of the run share.

        Returns:
            The process id.
        """
        assert self.folder is not None
        if private and self._network is None:
            self._network = PrivateNetwork()
        log = self.folder / f"{name}.log"
        env = {**worker_variables(os.environ, self.folder / "tmp"), **env}
        child = children.start(arguments, env, log, self.folder, self._network if private else None)
        self.started[name] = child
        return {"pid": child.pid}

    def _stack(self, pid: int, number: int) -> dict[str, Any]:
        if pid not in self._pids.values():
            raise ValueError(f"{pid} is not a worker here")
        os.kill(pid, number)
        return {}

    def _is_stopped(self, pid: int) -> dict[str, Any]:
        return {"stopped": pid in self._pids.values() and processes.is_stopped(pid)}

    def _ping(self) -> dict[str, Any]:
        """Answer after a tick, so that the controller has received all earlier events before the answer."""
        self.tick()
        return {}

    def _finish(self, ending: Sequence[str] = ()) -> dict[str, Any]:
        """End all processes of the run, then its containers with the command `ending`, and send the remaining files."""
        processes.end_descendants()
        children.run_ending(ending)  # only now, because `end_descendants` would end this command too
        self.tick()
        self._ship(math.inf)
        self._forget_run()
        return {}

    def _run_command(self, number: int, command: list[str], most_seconds: float, env: Mapping[str, str]) -> None:
        """Run a command in a thread. Its exit code and output are sent as the answer when it ends."""

        def work() -> None:
            try:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=most_seconds,
                    env={**inherited_variables(os.environ), **env},
                    check=False,
                )
                self.wire.send(answer=number, code=done.returncode, output=done.stdout, errors=done.stderr)
            except subprocess.TimeoutExpired:
                self.wire.send(answer=number, error=f"{command[0]} does not answer within {most_seconds:g} s")
            except OSError as error:
                self.wire.send(answer=number, error=f"{command[0]}: {error.strerror}")

        threading.Thread(target=work, daemon=True).start()

    def _read(self, path: str) -> dict[str, Any]:
        """Return the first `READ_BYTES` of a file on this machine. None if the file does not exist."""
        try:
            with files.open_stream(path) as stream:
                return {"data": packed(stream.read(READ_BYTES))}
        except FileNotFoundError:
            return {"data": None}

    def _ports(self, count: int, address: str) -> dict[str, Any]:
        return {"ports": network.free_ports(count, address)}

    def _route(self, to: str) -> dict[str, Any]:
        """Return the address that a host name resolves to here, and the local address and interface that reach it."""
        peer = network.resolved(to)
        address, interface = network.route(peer)
        return {"peer": peer, "address": address, "interface": interface}

    def _leave(self) -> dict[str, Any]:
        self._leaving = True
        return {}

    def _forget_run(self) -> None:
        """End all processes of the run, and delete its files."""
        processes.end_descendants()
        for child in self.started.values():
            child.poll()
        self.started, self._reported_exits, self._pids, self._gone = {}, set(), {}, set()
        if self._network is not None:
            self._network.close()
            self._network = None
        if self.folder is not None:
            self._scratch.end()
            self.folder = None
