"""Determine whether a run has ended, how it ended, and which failure came first.

The decision is based on the heartbeats, processes, and machines of the run.
"""

from __future__ import annotations

import datetime
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from suite.common.runspec import Host, RunSpec
from suite.control import memory
from suite.control.hosts.host_control import HostControl, Started
from suite.control.run_status import RunStatus
from suite.launch.children import exit_text
from suite.worker.heartbeat import WorkerStatus, heartbeat_path, read_heartbeat
from workloads import files

POLL_SECONDS = 0.1
STACK_SECONDS = 5.0
"""Time limit in seconds for a hung worker to write its stack traces. The limit is also
sufficient on a busy machine.
"""
LOG_BYTES = 1 << 20
"""Maximum number of bytes that are read from a worker's text log."""
EXIT_SECONDS = 20.0
"""Time limit in seconds for the processes to exit after all workers have finished."""


class RunMonitor:
    """Monitors the processes of a run, which the supervisor registers.

    A run ends when all workers have finished (see `HeartbeatWriter`), or at the first failure. If
    several failures are found, the first failure in this list is reported as the cause:

    1. a lost machine
    2. a killed server
    3. a worker that died
    4. a server that failed
    5. a worker that reports a failure

    The order matters because a single failure makes all other workers fail. Before the cause is
    determined, each machine must report all its events.
    """

    def __init__(
        self, run: RunSpec, hosts: Sequence[Host], process_hosts: Sequence[Host], has_agents: bool
    ) -> None:
        """Prepare the monitoring of a run.

        Args:
            run: The run.
            hosts: Machines of the run.
            process_hosts: Machine of each worker.
            has_agents: True if agents report the events of the machines. Events from agents arrive
                with a delay.
        """
        self.run_spec = run
        self.folder = Path(run.folder)
        self.hosts, self.process_hosts = list(hosts), list(process_hosts)
        self.controls: list[HostControl] = []
        """The `HostControl` of each machine, in the order of `hosts`."""
        self.children: dict[str, subprocess.Popen[bytes] | Started] = {}
        self.command_hosts: dict[str, Host] = {}
        """Maps the name of each command to the host on which the command was started."""
        self.servers: set[str] = set()
        """Names of the commands that are servers for the workers."""
        self._has_agents = has_agents
        self._last_count = [-1] * len(process_hosts)
        self._last_change = [time.monotonic()] * len(process_hosts)
        self._done_since: float | None = None

    def poll(self, show: Callable[[list[WorkerStatus | None]], None]) -> RunStatus | None:
        """Check all processes and machines once.

        Args:
            show: Function that prints the progress from the heartbeats.

        Returns:
            How the run ended, or None while the run continues.
        """
        # Read the exit codes before the heartbeats, so that the last heartbeat of an exited worker
        # is included.
        exits = self._exits()
        heartbeats = self.heartbeats()
        show(heartbeats)
        all_done = all(heartbeat is not None and heartbeat.status for heartbeat in heartbeats)
        lost = None if all_done else self.failure()
        ended = (
            lost
            or self._exhausts(heartbeats)
            or self.died(heartbeats)
            or self._server_died(heartbeats, exits)
            or self._failed(heartbeats)
        )
        if ended is not None:
            # If a process dies, its peers fail too. A peer's failure may be visible before the exit
            # of the process. Wait, so that the cause can be found.
            time.sleep(POLL_SECONDS)
            return self._first_of_all(ended)
        workers = [code for name, code in exits.items() if name not in self.servers]
        if all_done and (all(code is not None for code in workers) or self._left_late()):
            first = heartbeats[0]
            assert first is not None
            return RunStatus(first.status, first.reason)
        left = None if all_done else self._left(heartbeats, exits)
        # An agent may report the exit of a process before the heartbeat with the process's reason
        # arrives.
        if left is not None and self._has_agents:
            return self._first_of_all(self._failed(self.heartbeats()) or left)
        return None if all_done else left or self._hung(heartbeats)

    def _first_of_all(self, ended: RunStatus) -> RunStatus:
        """Return the first failure, in the order that the docstring of the class defines.

        A machine is considered lost only after its lease has expired. By this time, the workers on
        other machines have already failed. Each machine is therefore requested to report all its
        events. A machine that does not respond is lost.
        """
        for control in self.controls:
            control.flush_events()
        heartbeats = self.heartbeats()
        server = self._server_died(heartbeats, self._exits())
        killed = server if server is not None and server.status == "rank_died" else None
        return self.failure() or killed or self.died(heartbeats) or server or ended

    def failure(self) -> RunStatus | None:
        """Return the run's status if a machine is lost."""
        losses = [(loss, control.host) for control in self.controls if (loss := control.failure())]
        for loss, host in sorted(losses, key=lambda item: item[0].status != "interrupted"):
            return RunStatus(
                loss.status, loss.reason, self.process_hosts.index(host), self._node(host)
            )
        return None

    def _exits(self) -> dict[str, int | None]:
        """Return the exit code of each command, or None for a command that is still running."""
        return {name: child.poll() for name, child in self.children.items()}

    def _server_died(
        self, heartbeats: list[WorkerStatus | None], exits: dict[str, int | None]
    ) -> RunStatus | None:
        """Return the run's status if a server failed while workers still needed it.

        A server whose workers have ended exits with code 0.
        """
        if all(
            heartbeat is not None and heartbeat.status in ("success", "target_missed")
            for heartbeat in heartbeats
        ):
            return None
        for name in sorted(self.servers):
            if code := exits[name]:
                how = f"the {name} died ({exit_text(code)}): {self._last_line(name)}"
                return RunStatus("rank_died" if code < 0 else "failed", how)
        return None

    def _exhausts(self, heartbeats: list[WorkerStatus | None]) -> RunStatus | None:
        """Return the run's status if the run is about to exhaust a machine's memory."""
        for control in self.controls:
            reason = control.exhausts(self.pids(control, heartbeats))
            if reason:
                return RunStatus("oom", reason, node=self._node(control.host))
        return None

    def pids(self, control: HostControl, heartbeats: list[WorkerStatus | None]) -> list[int]:
        """Return the process ids of a machine's workers."""
        return [
            heartbeat.pid
            for heartbeat in heartbeats
            if heartbeat is not None and self._control_of(heartbeat.process) is control
        ]

    def _control_of(self, process: int) -> HostControl:
        """Return the `HostControl` of a worker's machine."""
        return self.controls[self.hosts.index(self.process_hosts[process])]

    def _node(self, host: Host) -> str:
        """Return the name of a machine for `status.json`, or "" for a single machine."""
        return host.name if len(self.hosts) > 1 else ""

    def _left_late(self) -> bool:
        """Check whether EXIT_SECONDS have passed since all workers finished.

        If EXIT_SECONDS have passed, the run ends even if some processes are still running.
        """
        self._done_since = self._done_since or time.monotonic()
        return time.monotonic() - self._done_since > EXIT_SECONDS

    def died(self, heartbeats: list[WorkerStatus | None]) -> RunStatus | None:
        """Return the run's status if a worker exited before it finished."""
        for heartbeat in heartbeats:
            if (
                heartbeat is None
                or heartbeat.status
                or self._control_of(heartbeat.process).alive(heartbeat.pid)
            ):
                continue
            # Read the heartbeat again, because a failing worker writes the reason just before it
            # exits.
            last_heartbeat = read_heartbeat(self.folder, heartbeat.process)
            if last_heartbeat is None or not last_heartbeat.status:
                name = f"worker-{heartbeat.process}"
                position = (
                    f"in phase '{heartbeat.phase}' at step {heartbeat.step}:"
                    f" {self._last_line(name)}"
                )
                exit_code = self._exit_text(name)
                if self._control_of(heartbeat.process).oom_killed():
                    return self._worker_status(
                        heartbeat.process, "oom", f" was killed by the kernel {position}"
                    )
                return self._worker_status(
                    heartbeat.process, "rank_died", f" died{exit_code} {position}"
                )
        return None

    def _worker_status(self, process: int, status: str, predicate: str) -> RunStatus:
        """Return a run status that refers to a worker.

        Args:
            process: Rank of the worker.
            status: The status.
            predicate: End of the sentence about the worker. The sentence begins with the rank and
                the machine of the worker.
        """
        node = self._node(self.process_hosts[process])
        return RunStatus(
            status, f"process {process}{f' on {node}' if node else ''}{predicate}", process, node
        )

    def _failed(self, heartbeats: list[WorkerStatus | None]) -> RunStatus | None:
        """Return the run's status if a worker reported a failure, otherwise None."""
        for heartbeat in heartbeats:
            if heartbeat is not None and heartbeat.status not in ("", "success", "target_missed"):
                log = f"worker-{heartbeat.process}"
                see = {"oom": "see", "failed": "traceback in"}.get(heartbeat.status, "")
                see = f"; {see} {memory.log_to_read(self.folder, log)}" if see else ""
                return replace(
                    self._worker_status(
                        heartbeat.process, heartbeat.status, f": {heartbeat.reason}{see}"
                    ),
                    code=heartbeat.code,
                )
        return None

    def heartbeats(self) -> list[WorkerStatus | None]:
        """Return the newest heartbeat of each worker.

        A heartbeat is None if the worker has not written a heartbeat yet.
        """
        return [read_heartbeat(self.folder, process) for process in range(len(self.process_hosts))]

    def remove_heartbeats(self) -> None:
        """Delete the heartbeat files, after all workers have ended."""
        for rank in range(len(self.process_hosts)):
            heartbeat_path(self.folder, rank).unlink(missing_ok=True)

    def _left(
        self, heartbeats: list[WorkerStatus | None], exits: dict[str, int | None]
    ) -> RunStatus | None:
        """Return the run's status if a command exited too early.

        A command exits too early if it exits before its workers have finished, or if it fails
        before all workers have finished.
        """
        if all(heartbeat is not None and heartbeat.status for heartbeat in heartbeats):
            return None
        done = {
            heartbeat.process
            for heartbeat in heartbeats
            if heartbeat is not None and heartbeat.status
        }
        for name, code in exits.items():
            if code is not None and not (code == 0 and done.issuperset(self._processes_of(name))):
                number = int(name.rpartition("-")[2]) if name.startswith("worker-") else None
                text = f"{name} ended with {exit_text(code)}: {self._last_line(name)}"
                node = self._node(self.process_hosts[number]) if number is not None else ""
                return RunStatus("rank_died" if code < 0 else "failed", text, number, node)
        return None

    def _processes_of(self, name: str) -> list[int]:
        """Return the ranks of the workers that a command starts.

        The command starts a single worker or all workers of a machine.
        """
        if name.startswith("worker-"):
            return [int(name.rpartition("-")[2])]
        return [
            number
            for number, host in enumerate(self.process_hosts)
            if host is self.command_hosts[name]
        ]

    def _exit_text(self, name: str) -> str:
        """Format the exit code of a command, or return "" if the code is unknown."""
        child = self.children.get(name)
        code = child.poll() if child is not None else None
        return f" ({exit_text(code)})" if code is not None else ""

    def _last_line(self, name: str) -> str:
        """Return the last line of a process's log.

        If Python crashed, the line of the crash before the stack traces is returned.
        """
        try:
            lines = _text_from(self.folder / f"{name}.log", -LOG_BYTES).strip().splitlines()
        except OSError:
            lines = []
        if not lines:
            return f"see {memory.log_to_read(self.folder, name)}"
        crashes = [line for line in lines if line.startswith("Fatal Python error: ")]
        return f"{[*lines, *crashes][-1].strip()[:300]} (see {name}.log)"

    def _hung(self, heartbeats: list[WorkerStatus | None]) -> RunStatus | None:
        """Return the run's status if a worker has made no progress for longer than allowed."""
        now = time.monotonic()
        for process, heartbeat in enumerate(heartbeats):
            count = -1 if heartbeat is None else heartbeat.count
            if count != self._last_count[process] or (heartbeat is not None and heartbeat.status):
                self._last_count[process], self._last_change[process] = count, now
            phase = "start" if heartbeat is None else heartbeat.phase
            in_setup = phase in ("start", "setup", "open data")
            allowed = (
                self.run_spec.setup_watchdog_seconds if in_setup else self.run_spec.watchdog_seconds
            )
            silent = now - self._last_change[process]
            if silent > allowed:
                since = datetime.datetime.now() - datetime.timedelta(seconds=silent)
                silence = (
                    f"no progress since {since:%H:%M:%S} ({silent:.0f} s, allowed {allowed:.0f} s)"
                    f" in phase '{phase}'"
                )
                # A suspended process makes all other processes wait. The suspended process is
                # therefore the cause, even if a peer's heartbeat times out first.
                for peer, peer_heartbeat in enumerate(heartbeats):
                    pid = self._pid_if_stopped(peer, peer_heartbeat)
                    if pid is not None:
                        return self._worker_status(peer, "hung", f"{_stopped_text(pid)}; {silence}")
                return self._worker_status(process, "hung", f": {silence}{self._stack(heartbeat)}")
        return None

    def _pid_if_stopped(self, process: int, heartbeat: WorkerStatus | None) -> int | None:
        """Return the process id of a worker that a signal or debugger has suspended, or None."""
        child = self.children.get(f"worker-{process}")
        pid = (
            heartbeat.pid
            if heartbeat is not None
            else child.pid
            if isinstance(child, subprocess.Popen)
            else None
        )
        is_done = heartbeat is not None and bool(heartbeat.status)
        return (
            pid
            if pid is not None and not is_done and self._control_of(process).is_stopped(pid)
            else None
        )

    def _stack(self, heartbeat: WorkerStatus | None) -> str:
        """Make a hung worker write its stack traces, and return the innermost Python line.

        The stack traces are written to the worker's text log.
        """
        log = self.folder / f"worker-{heartbeat.process}.log" if heartbeat is not None else None
        if heartbeat is None or log is None or not log.exists():
            return ""
        before = log.stat().st_size
        if not self._control_of(heartbeat.process).stack(heartbeat.pid):
            return ""
        frame, size, deadline = "", before, time.monotonic() + STACK_SECONDS
        # Wait until the log with the stack traces stops growing.
        while time.monotonic() < deadline and not (frame and log.stat().st_size == size):
            size = log.stat().st_size
            time.sleep(POLL_SECONDS)
            # `failure` also receives the output that has arrived
            self._control_of(heartbeat.process).failure()
            frame = _innermost(_text_from(log, before).splitlines())
        return f", at {frame or 'no Python line'}; stacks in {log.name}"


def _stopped_text(pid: int) -> str:
    """Return the end of the sentence about a suspended worker, with the remedy."""
    return (
        f" (process id {pid}) has been stopped from outside (state T): find the cause, such as kill"
        " -STOP, a debugger, or a batch system that suspends jobs, and run again with resume=true"
    )


def _text_from(log: Path, start: int) -> str:
    """Return at most LOG_BYTES of a text log, starting at byte `start`.

    A negative `start` is an offset from the end of the log.
    """
    with files.open_stream(log) as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size + start) if start < 0 else start)
        return stream.read(LOG_BYTES).decode(errors="replace")


def _innermost(lines: list[str]) -> str:
    """Return the innermost line of the main thread in the output of faulthandler.

    faulthandler writes the main thread last. The string is empty if the output contains no such
    line.
    """
    start = max(
        (number for number, line in enumerate(lines) if line.endswith("(most recent call first):")),
        default=-1,
    )
    return lines[start + 1].strip() if 0 <= start < len(lines) - 1 else ""
