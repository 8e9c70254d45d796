"""One run from the controller's side: start its processes, watch them, end the whole tree, file the reason."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import subprocess
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from suite.common.runspec import RunSpec, write_atomically
from suite.control import condition, interrupts, memory
from suite.control.progress import Progress
from suite.control.telemetry import Telemetry
from suite.environments.environment import Environment
from suite.launch import processes
from suite.launch.base import Framework, meet
from suite.launch.hosts import Host, hosts_of, machine_folder, recorded
from suite.machine import cgroups, topology
from suite.worker.heartbeat import STACK_SIGNAL, Beat, beat_path, read_beat, told_path, was_told

POLL_SECONDS = 0.1
WITHOUT_LINKS = {"NCCL_P2P_DISABLE": "1", "MXNET_ENABLE_GPU_P2P": "0"}
"""`link=no_p2p`: NCCL (PyTorch, TensorFlow) and MXNet copy by way of the host's memory."""
OF_LINKS = {"auto": {}, "no_p2p": WITHOUT_LINKS, "network": {**WITHOUT_LINKS, "NCCL_SHM_DISABLE": "1"}}
"""`link=network`: NCCL goes over sockets or InfiniBand within a machine too; processes on CPU cores always talk by TCP."""
STACK_SECONDS = 5.0
"""How long a hung worker may take to write its stacks: a machine that is busy lets it wait."""
EXIT_SECONDS = 20.0
"""How long processes may take to leave after the last one said that it is done."""


@dataclass(frozen=True)
class Status:
    """`status.json`: how a run ended."""

    status: str
    """running | success | target_missed | oom | rank_died | hung | interrupted | failed"""
    reason: str = ""
    process: int | None = None


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")


class Supervisor:
    """Runs the processes of one run to their end."""

    def __init__(self, run: RunSpec, framework: Framework, environment: Environment, progress: Progress) -> None:
        self.run_spec = recorded(run)
        self.folder = Path(run.folder)
        self.framework = framework
        self.progress = progress
        self.hosts = hosts_of(self.run_spec, environment)
        self.process_hosts = framework.hosts_of_processes(self.hosts, run.settings.update)
        self.process_count = len(self.process_hosts)
        self.started = _now()
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self._servers: set[str] = set()
        """Names of the children that serve the workers."""
        self._last_count = [-1] * self.process_count
        self._last_change = [time.monotonic()] * self.process_count
        self._done_since: float | None = None
        self._oom_kills = cgroups.oom_kills()
        self._telemetry: list[Telemetry] = []
        self.busy: list[str] = []
        """Why the machine was a busy one, after the run."""

    def run(self) -> Status:
        """Start, watch, clean up. On KeyboardInterrupt the tree is ended, filed as `interrupted`, and the exception raised."""
        self.folder.mkdir(parents=True, exist_ok=False)
        self.run_spec.write(self.folder / "run.json")
        status = Status("failed", "the controller stopped for a reason of its own")
        try:
            self._file(Status("running"))
            self._telemetry = [self._record_machine(host) for host in self.hosts if host.is_here]
            self._start()
            for telemetry in self._telemetry:
                telemetry.start()
            while (ended := self._look()) is None:
                time.sleep(POLL_SECONDS)
            status = ended
        except KeyboardInterrupt:
            status = Status("interrupted", "stopped by a signal to the controller")
            raise
        except OSError as error:
            status = Status("failed", f"a process could not be started: {error}")
        finally:
            with interrupts.held():
                status = self._end(status)
        return status

    def _end(self, status: Status) -> Status:
        """End all processes and file the reason, with what to do about it."""
        self._end_tree()
        if status.status == "oom":
            status = replace(status, reason=f"{status.reason}; {memory.batch_advice(self.run_spec)}")
        self._file(status)
        beats = self._beats()
        self._forget_beats()
        for telemetry in self._telemetry:
            telemetry.stop()
        self._tell_condition(beats)
        return status

    def _tell_condition(self, beats: list[Beat | None]) -> None:
        """Write into the log how much of the machine the run got."""
        names = [host.name for host in self.process_hosts]
        here = [host for host in self.hosts if host.is_here]
        samples = [
            row
            for host, telemetry in zip(here, self._telemetry, strict=False)
            for row in condition.device_rows(telemetry.path, host.devices)
        ]
        found = condition.figures(beats, names, samples)
        if found:
            self.busy = condition.busy(found)
            condition.append(self.folder / f"result_{self.run_spec.run_index}.txt", found)

    def _record_machine(self, host: Host) -> Telemetry:
        """Write what the host, this machine, is made of; returns what will sample it. Both files have the host's own folder."""
        folder = machine_folder(self.folder, host, self.hosts)
        folder.mkdir(exist_ok=True)
        topology.write(folder)
        log = self.folder / f"result_{self.run_spec.run_index}.txt"
        return Telemetry(folder / "telemetry.jsonl", log, self.run_spec.settings.device == "cuda")

    def _start(self) -> None:
        cluster = meet(self.hosts)
        linked = OF_LINKS[self.run_spec.settings.link]
        for host in cluster.hosts:
            assert host.environment is not None
            run_file = host.environment.map_path(self.folder / "run.json")
            for command in self.framework.commands(self.run_spec, run_file, cluster, host):
                told = {"PYTHONUNBUFFERED": "1", **linked, **command.variables}
                arguments = host.environment.of_process(self.folder, command.name, told).command(*command.arguments)
                variables = {**os.environ, **told}
                log = self.folder / f"{command.name}.log"
                self.children[command.name] = processes.start(arguments, variables, log, self.folder)
                self._servers |= {command.name} if command.serves else set()

    def _look(self) -> Status | None:
        """One look at everything; None while the run goes on."""
        exits = self._exits()  # before the beats: a last word counts
        beats = self._beats()
        self.progress.update(beats)
        ended = self._exhausts(beats) or self._died(beats) or self._server_died(beats, exits) or self._failed(beats)
        if ended is not None:
            # When a process dies, its peers fail of that, maybe before the kernel is done with it: name the one that died.
            time.sleep(POLL_SECONDS)
            return self._died(self._beats()) or self._server_died(beats, self._exits()) or ended
        all_done = all(beat is not None and beat.status for beat in beats)
        workers = [code for name, code in exits.items() if name not in self._servers]
        if all_done and (all(code is not None for code in workers) or self._left_late()):
            first = beats[0]
            assert first is not None
            return Status(first.status, first.reason)
        return None if all_done else self._left(beats, exits) or self._hung(beats)

    def _exits(self) -> dict[str, int | None]:
        """Exit codes of what was started; None while it runs."""
        return {name: child.poll() for name, child in self.children.items()}

    def _server_died(self, beats: list[Beat | None], exits: dict[str, int | None]) -> Status | None:
        """A server that ended, and not well, while a worker was still going to need it. One ends well that lost its workers."""
        if all(beat is not None and beat.status in ("success", "target_missed") for beat in beats):
            return None
        for name in sorted(self._servers):
            if code := exits[name]:
                how = f"the {name} died ({processes.exit_text(code)}): {self._last_line(name)}"
                return Status("rank_died" if code < 0 else "failed", how)
        return None

    def _exhausts(self, beats: list[Beat | None]) -> Status | None:
        """The end of a run that would take all of this machine's memory, other programs with it."""
        why = memory.exhausts(beat.pid for beat in beats if beat is not None and self._is_known(beat))
        return Status("oom", why) if why else None

    def _left_late(self) -> bool:
        """True if the processes have had EXIT_SECONDS to leave after the last one was done: the result stands."""
        self._done_since = self._done_since or time.monotonic()
        return time.monotonic() - self._done_since > EXIT_SECONDS

    def _died(self, beats: list[Beat | None]) -> Status | None:
        """A worker that is gone without having said how it ended; first one that no launcher had told to leave."""
        silent = [
            beat
            for beat in beats
            if beat is not None and not beat.status and self._is_known(beat) and not processes.alive(beat.pid)
        ]
        for beat in sorted(silent, key=lambda beat: was_told(self.folder, beat.process)):
            # A worker that failed writes its reason last: look once more before calling it dead.
            again = read_beat(self.folder, beat.process)
            if again is None or not again.status:
                log = memory.log_to_read(self.folder, f"worker-{beat.process}")
                where = f"in phase '{beat.phase}' at step {beat.step}; see {log}"
                how = self._how(f"worker-{beat.process}")
                if cgroups.oom_kills() > self._oom_kills:
                    return Status("oom", f"process {beat.process} was killed by the kernel {where}", beat.process)
                return Status("rank_died", f"process {beat.process} died{how} {where}", beat.process)
        return None

    def _is_known(self, beat: Beat) -> bool:
        """True if the worker's process id is one of this machine's."""
        return self.process_hosts[beat.process].shows_processes

    def _failed(self, beats: list[Beat | None]) -> Status | None:
        """The reason of a worker that said that it failed."""
        for beat in beats:
            if beat is not None and beat.status not in ("", "success", "target_missed"):
                log = f"worker-{beat.process}"
                see = f"; see {memory.log_to_read(self.folder, log)}" if beat.status == "oom" else ""
                return Status(beat.status, f"process {beat.process}: {beat.reason}{see}", beat.process)
        return None

    def _beats(self) -> list[Beat | None]:
        return [read_beat(self.folder, process) for process in range(self.process_count)]

    def _left(self, beats: list[Beat | None], exits: dict[str, int | None]) -> Status | None:
        """A started command that ended before every worker was done."""
        if all(beat is not None and beat.status for beat in beats):
            return None
        for name, code in exits.items():
            if code is not None:
                number = int(name.rpartition("-")[2]) if name.startswith("worker-") else None
                text = f"{name} ended with {processes.exit_text(code)}: {self._last_line(name)}"
                return Status("rank_died" if code < 0 else "failed", text, number)
        return None

    def _how(self, name: str) -> str:
        child = self.children.get(name)
        code = child.poll() if child is not None else None
        return f" ({processes.exit_text(code)})" if code is not None else ""

    def _last_line(self, name: str) -> str:
        """The last line of a process's text log, for the reason."""
        try:
            lines = (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return (
            f"{lines[-1].strip()[:300]} (see {name}.log)" if lines else f"see {memory.log_to_read(self.folder, name)}"
        )

    def _hung(self, beats: list[Beat | None]) -> Status | None:
        now = time.monotonic()
        for process, beat in enumerate(beats):
            count = -1 if beat is None else beat.count
            if count != self._last_count[process] or (beat is not None and beat.status):
                self._last_count[process], self._last_change[process] = count, now
            phase = "start" if beat is None else beat.phase
            in_setup = phase in ("start", "setup", "open data")
            allowed = self.run_spec.setup_watchdog_seconds if in_setup else self.run_spec.watchdog_seconds
            silent = now - self._last_change[process]
            if silent > allowed:
                since = datetime.datetime.now() - datetime.timedelta(seconds=silent)
                reason = (
                    f"process {process}: no progress since {since:%H:%M:%S} ({silent:.0f} s, allowed {allowed:.0f} s) "
                    f"in phase '{phase}'{self._stack(beat)}"
                )
                return Status("hung", reason, process)
        return None

    def _stack(self, beat: Beat | None) -> str:
        """Where a hung worker stands: its innermost Python line; all stacks go to its text log."""
        if beat is None or not self._is_known(beat) or not processes.alive(beat.pid):
            return ""
        log = self.folder / f"worker-{beat.process}.log"
        before = log.stat().st_size
        os.kill(beat.pid, STACK_SIGNAL)
        frame, size, deadline = "", before, time.monotonic() + STACK_SECONDS
        while time.monotonic() < deadline and not (frame and log.stat().st_size == size):  # until no more is written
            size = log.stat().st_size
            time.sleep(POLL_SECONDS)
            frame = _innermost(log.read_bytes()[before:].decode(errors="replace").splitlines())
        return f", at {frame or 'no Python line'}; stacks in {log.name}"

    def _end_tree(self) -> None:
        pids = [child.pid for child in self.children.values() if child.poll() is None]
        known = [beat.pid for beat in self._beats() if beat is not None and self._is_known(beat)]
        pids += [pid for pid in known if processes.alive(pid)]
        processes.end(processes.tree(pids))
        self._end_containers()
        for child in self.children.values():
            child.poll()  # reap

    def _end_containers(self) -> None:
        """End containers whose clients were killed: they are no processes of the tree."""
        environment = self.hosts[0].environment
        ending = environment.ending(self.folder, list(self.children)) if environment is not None else []
        if ending:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(ending, stdin=subprocess.DEVNULL, capture_output=True, timeout=EXIT_SECONDS, check=False)

    def _file(self, status: Status) -> None:
        settings = self.run_spec.settings
        value = {
            **asdict(status),
            "started": self.started,
            "ended": None if status.status == "running" else _now(),
            "run_index": self.run_spec.run_index,
            "workload": settings.workload,
            "framework": settings.framework,
            "profile": settings.profile,
            "devices": settings.devices,
        }
        write_atomically(self.folder / "status.json", json.dumps(value, indent=1, ensure_ascii=False) + "\n")

    def _forget_beats(self) -> None:
        for process in range(self.process_count):
            beat_path(self.folder, process).unlink(missing_ok=True)
            told_path(self.folder, process).unlink(missing_ok=True)


def _innermost(lines: list[str]) -> str:
    """The main thread's innermost line; faulthandler writes that thread last, innermost line on top. Empty: not there."""
    start = max((number for number, line in enumerate(lines) if line.endswith("(most recent call first):")), default=-1)
    return lines[start + 1].strip() if 0 <= start < len(lines) - 1 else ""
