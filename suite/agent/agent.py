"""The agent executes the controller's requests on one machine and reports events.

Events report changes of the machine's processes and of the files that the processes write. The
agent checks its processes ten times per second. The agent exits when the connection closes or its
lease expires.

The first event describes the machine. suite/agent/messages.py defines all requests and events.
"""

from __future__ import annotations

import contextlib
import inspect
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

from suite.agent import messages
from suite.agent.facts import host_facts
from suite.agent.file_tailer import FileTailer
from suite.agent.message_stream import Message, MessageStream
from suite.agent.messages import (
    CommandOutput,
    Done,
    Event,
    ExitEvent,
    FileContent,
    FreePorts,
    GoneEvent,
    HeartbeatEvent,
    MemoryEvent,
    OomEvent,
    Request,
    Route,
    RunFolder,
    SignalEvent,
    StartedProcess,
    WorkerState,
    encode,
    encode_event,
    unpack,
)
from suite.common.run_folder import RUN_FILE
from suite.launch import children, network, processes
from suite.launch.private_network import PrivateNetwork
from suite.launch.scratch import Scratch
from suite.launch.worker_env import inherited_variables, worker_variables
from suite.machine import cgroups, disks, exhaustion
from workloads import files

TICK_SECONDS = 0.1
MAX_BYTES = 4 << 20
"""Maximum number of file bytes sent per tick, summed over all files.

Without `MAX_BYTES`, a worker with endless output would delay the heartbeats.
"""
MAX_BACKLOG = 200
"""Maximum number of queued messages. Above this number, only heartbeats are added to the queue.

Without `MAX_BACKLOG`, the queue could fill the memory while the connection is down.
"""
READ_BYTES = 1 << 20
"""Maximum number of bytes that a `read` request returns. The controller uses `read` for data
manifests and marker files.
"""
FROM_SCHEDULER = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)


class Agent:
    """Executes the requests of one controller for any number of successive runs."""

    def __init__(self, wire: MessageStream, lease_seconds: float) -> None:
        self.wire = wire
        self.lease_seconds = lease_seconds
        self.folder: Path | None = None
        """Folder that the workers of the run write to. The attribute is None between runs."""
        self.started: dict[str, subprocess.Popen[bytes]] = {}
        self._network: PrivateNetwork | None = None
        self._reported_exits: set[str] = set()
        self._pids: dict[str, int] = {}
        """Maps the name of a worker's heartbeat file to the worker's process id."""
        self._gone: set[int] = set()
        self._watches_pids = True
        self._oom_kills = cgroups.oom_kills()
        self._reported_kills = 0
        self._reported_exhausted = False
        self._signal = 0
        self._leaving = False
        handlers: Mapping[Request[Any], Callable[..., Any]] = {
            messages.BEGIN: self._begin,
            messages.PUT: self._put,
            messages.START: self._start,
            messages.STACK: self._stack,
            messages.IS_STOPPED: self._is_stopped,
            messages.PING: self._ping,
            messages.FINISH: self._finish,
            messages.RUN_COMMAND: self._run_command,
            messages.READ: self._read,
            messages.PORTS: self._ports,
            messages.ROUTE: self._route,
            messages.LEAVE: self._leave,
        }
        self._handlers = {request.name: handler for request, handler in handlers.items()}
        """Maps the name of each request to the method that handles it.

        The arguments of a request are passed to the method as keyword arguments.
        """

    def run(self) -> None:
        """Execute requests until the agent must exit, then end all processes.

        The agent exits when the controller sends `leave`, the connection closes, or the lease
        expires.
        """
        for number in FROM_SCHEDULER:
            signal.signal(number, self._note_signal)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the controller handles Ctrl-C
        children.adopt_orphans()
        self._send(host_facts())
        try:
            while not (
                self._leaving
                or self.wire.ended.is_set()
                or self.wire.silent_seconds > self.lease_seconds
            ):
                for message in self.wire.received(TICK_SECONDS):
                    self._handle(message)
                self.tick()
        finally:
            self._forget_run()
            self.wire.close()

    def _send(self, event: Event) -> None:
        self.wire.send(**encode_event(event))

    def _note_signal(self, number: int, frame: FrameType | None) -> None:
        self._signal = self._signal or number

    def tick(self) -> None:
        """Check the processes once, and send new events and file contents.

        The agent detects exits before it reads the files, and sends the exit events after the file
        contents. The controller thus receives a worker's final heartbeat before the worker's exit
        event.
        """
        if self._signal:
            self._send(SignalEvent(signal.Signals(self._signal).name))
            self._signal = 0
        exits = {
            name: child.poll()
            for name, child in self.started.items()
            if name not in self._reported_exits
        }
        gone = [
            pid for pid in self._pids.values() if pid not in self._gone and not processes.alive(pid)
        ]
        self._ship()
        for name, code in exits.items():
            if code is not None:
                self._reported_exits.add(name)
                full_disk = disks.full(self.folder) if code and self.folder else ""
                self._send(ExitEvent(name, code, full_disk))
        if gone:
            self._gone |= set(gone)
            self._send(GoneEvent(tuple(gone)))
        self._report_memory()
        processes.reap(frozenset(child.pid for child in self.started.values()))

    def _ship(self, most_bytes: float = MAX_BYTES) -> None:
        if self.folder is None:
            return
        for event in self._new_files.new(most_bytes if self.wire.backlog < MAX_BACKLOG else 0):
            if isinstance(event, HeartbeatEvent) and self._watches_pids:
                with contextlib.suppress(ValueError, KeyError):
                    self._pids[event.name] = json.loads(event.content)["pid"]
            self._send(event)

    def _report_memory(self) -> None:
        kills = cgroups.oom_kills() - self._oom_kills
        if kills != self._reported_kills:
            self._reported_kills = kills
            self._send(OomEvent(kills))
        if not self._reported_exhausted and (
            why := exhaustion.exhausts(set(self._pids.values()) - self._gone)
        ):
            self._reported_exhausted = True
            self._send(MemoryEvent(why))

    # Handlers of the controller's requests

    def _handle(self, message: Message) -> None:
        name, number = message.get("do"), message.get("id")
        arguments = {key: value for key, value in message.items() if key not in ("do", "id")}
        if name == messages.RUN_COMMAND.name:
            arguments["number"] = number
        try:
            handler = self._handlers.get(str(name))
            if handler is None:
                raise ValueError(f"unknown request {name}")
            try:
                inspect.signature(handler).bind(**arguments)
            except TypeError as error:
                raise ValueError(f"request {name}: {error}") from None
            response = handler(**arguments)
        except (OSError, ValueError) as error:
            self.wire.send(answer=number, error=getattr(error, "strerror", None) or str(error))
            return
        if response is not None:
            self.wire.send(answer=number, response=encode(response))

    def _begin(self, run: dict[str, Any], watches_pids: bool) -> RunFolder:
        """Create a temporary folder for a run, and write run.json into it.

        Args:
            run: Content of run.json.
            watches_pids: Use process ids to check whether workers are alive. `watches_pids` is
                false for workers in containers, whose process ids differ from those on the machine.
        """
        self._forget_run()
        self._scratch = Scratch()
        self.folder = self._scratch.path
        (self.folder / "tmp").mkdir()
        run["folder"] = str(self.folder)
        (self.folder / RUN_FILE).write_text(
            json.dumps(run, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        self._new_files, self._watches_pids = FileTailer(self.folder), watches_pids
        self._oom_kills, self._reported_kills, self._reported_exhausted = (
            cgroups.oom_kills(),
            0,
            False,
        )
        return RunFolder(str(self.folder))

    def _put(self, name: str, at: int, data: str) -> Done:
        """Append a chunk of data to a file of the run.

        The agent does not send the file to the controller, because the controller already has the
        file.

        Args:
            name: Name of the file.
            at: Offset of the chunk in bytes. Chunks arrive in order, and offset 0 starts a new
                file.
            data: The chunk, encoded by `pack`.
        """
        assert self.folder is not None
        self._new_files.known_files.add(name)
        with open(self.folder / name, "ab" if at else "wb") as stream:
            stream.write(unpack(data))
        return Done()

    def _start(
        self, name: str, arguments: list[str], env: Mapping[str, str], private: bool = False
    ) -> StartedProcess:
        """Start a process whose output is written to `name`.log.

        Args:
            name: Name of the process, such as `worker-0`.
            arguments: The command line.
            env: Environment variables, added to the machine's environment variables.
            private: Start the process in a private network that all private processes of the run
                share.
        """
        assert self.folder is not None
        if private and self._network is None:
            self._network = PrivateNetwork()
        log = self.folder / f"{name}.log"
        env = {**worker_variables(os.environ, self.folder / "tmp"), **env}
        child = children.start(arguments, env, log, self.folder, self._network if private else None)
        self.started[name] = child
        return StartedProcess(child.pid)

    def _stack(self, pid: int, number: int) -> Done:
        if pid not in self._pids.values():
            raise ValueError(f"{pid} is not a worker here")
        os.kill(pid, number)
        return Done()

    def _is_stopped(self, pid: int) -> WorkerState:
        return WorkerState(pid in self._pids.values() and processes.is_stopped(pid))

    def _ping(self) -> Done:
        """Answer after the next tick, so that all earlier events are sent before the answer."""
        self.tick()
        return Done()

    def _finish(self, ending: Sequence[str] = ()) -> Done:
        """End all processes of the run, then its containers, and send the remaining files.

        Args:
            ending: Command that ends the containers.
        """
        processes.end_descendants()
        # Run the command `ending` after `end_descendants`, which would otherwise end the command
        # too.
        children.run_ending(ending)
        self.tick()
        self._ship(math.inf)
        self._forget_run()
        return Done()

    def _run_command(
        self, number: int, command: list[str], most_seconds: float, env: Mapping[str, str]
    ) -> None:
        """Run a command in a thread.

        When the command ends, the agent answers with the command's exit code and output.
        """

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
                output = CommandOutput(done.returncode, done.stdout, done.stderr)
                self.wire.send(answer=number, response=encode(output))
            except subprocess.TimeoutExpired:
                self.wire.send(
                    answer=number, error=f"{command[0]} does not answer within {most_seconds:g} s"
                )
            except OSError as error:
                self.wire.send(answer=number, error=f"{command[0]}: {error.strerror}")

        threading.Thread(target=work, daemon=True).start()

    def _read(self, path: str) -> FileContent:
        """Return the first `READ_BYTES` bytes of a file on this machine."""
        try:
            with files.open_stream(path) as stream:
                return FileContent(stream.read(READ_BYTES))
        except FileNotFoundError:
            return FileContent(None)

    def _ports(self, count: int, address: str) -> FreePorts:
        return FreePorts(tuple(network.free_ports(count, address)))

    def _route(self, to: str) -> Route:
        """Return the network route from this machine to a host.

        The route contains the host's address, and the local address and interface through which the
        host is reached.
        """
        peer = network.resolved(to)
        address, interface = network.route(peer)
        return Route(peer, address, interface)

    def _leave(self) -> Done:
        self._leaving = True
        return Done()

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
