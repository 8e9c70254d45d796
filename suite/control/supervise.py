"""One run from the controller's side: start its processes, watch them, end the whole tree, file the reason."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from suite.common.run_folder import RUN_FILE
from suite.common.runspec import RunSpec, write_atomically
from suite.control import condition, interrupts, memory
from suite.control.machines.base import Child, Machine
from suite.control.machines.here import Here
from suite.control.machines.link import Gone, Link
from suite.control.machines.remote import RemoteMachine
from suite.control.progress import Progress
from suite.control.telemetry import Telemetry, cut_received
from suite.environments.environment import Environment
from suite.launch.base import Framework, meet, network_variables
from suite.launch.children import exit_text
from suite.launch.hosts import Host, hosts_of, machine_folder, recorded
from suite.machine import topology
from suite.worker.heartbeat import Beat, beat_path, read_beat, told_path, was_told

POLL_SECONDS = 0.1
NO_LINKS: Mapping[str, Link] = {}
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
    node: str = ""
    """Machine of that process in a run over several; empty: of none, or of the only one."""


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")


class Supervisor:
    """Runs the processes of one run to their end."""

    def __init__(
        self,
        run: RunSpec,
        framework: Framework,
        environment: Environment,
        progress: Progress,
        links: Mapping[str, Link] = NO_LINKS,
    ) -> None:
        """`links`: name of a machine to its agent; without any, the only machine is this one."""
        self.run_spec = recorded(run)
        self.folder = Path(run.folder)
        self.framework = framework
        self.progress = progress
        self.hosts = hosts_of(self.run_spec, environment)
        self.process_hosts = framework.hosts_of_processes(self.hosts, run.settings.update)
        self.process_count = len(self.process_hosts)
        self.started = _now()
        self.children: dict[str, Child] = {}
        self._command_hosts: dict[str, Host] = {}
        self._links = links
        self.machines: list[Machine] = [] if links else [Here(host, self.folder) for host in self.hosts]
        self._servers: set[str] = set()
        """Names of the children that serve the workers."""
        self._last_count = [-1] * self.process_count
        self._last_change = [time.monotonic()] * self.process_count
        self._done_since: float | None = None
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
            self._telemetry = [self._record_machine(host) for host in self.hosts if host.is_here and not self._links]
            for host in self.hosts if self._links else ():
                own = machine_folder(self.folder, host, self.hosts)
                self.machines.append(RemoteMachine(self._links[host.name], host, self.folder, own))
            self._start()
            for telemetry in self._telemetry:
                telemetry.start()
            while (ended := self._look()) is None:
                time.sleep(POLL_SECONDS)
            status = ended
        except KeyboardInterrupt:
            status = Status("interrupted", "stopped by a signal to the controller")
            raise
        except Gone as error:
            status = self._lost() or Status("rank_died", str(error))
        except (OSError, ValueError) as error:
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
        paths = [(host, machine_folder(self.folder, host, self.hosts) / "telemetry.jsonl") for host in self.hosts]
        if self._links:
            for _, path in paths:
                cut_received(path, self.folder / f"result_{self.run_spec.run_index}.txt")
        samples = [row for host, path in paths for row in condition.device_rows(path, host.devices)]
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
        cluster = meet(self.hosts, lambda host: self.machines[self.hosts.index(host)].ports())
        linked = OF_LINKS[self.run_spec.settings.link]
        for host, machine in zip(self.hosts, self.machines, strict=True):
            assert host.environment is not None
            run_file = host.environment.map_path(machine.folder / RUN_FILE)
            for command in self.framework.commands(self.run_spec, run_file, cluster, host):
                told = {"PYTHONUNBUFFERED": "1", **linked, **network_variables(host), **command.variables}
                inside = host.environment.of_process(machine.folder, command.name, told)
                self._command_hosts[command.name] = host
                self.children[command.name] = machine.start(command.name, inside.command(*command.arguments), told)
                self._servers |= {command.name} if command.serves else set()

    def _look(self) -> Status | None:
        """One look at everything; None while the run goes on."""
        exits = self._exits()  # before the beats: a last word counts
        beats = self._beats()
        self.progress.update(beats)
        all_done = all(beat is not None and beat.status for beat in beats)
        lost = None if all_done else self._lost()
        ended = (
            lost or self._exhausts(beats) or self._died(beats) or self._server_died(beats, exits) or self._failed(beats)
        )
        if ended is not None:
            # When a process dies, its peers fail of that, maybe before the kernel is done with it: name the one that died.
            time.sleep(POLL_SECONDS)
            return self._first_of_all(ended)
        workers = [code for name, code in exits.items() if name not in self._servers]
        if all_done and (all(code is not None for code in workers) or self._left_late()):
            first = beats[0]
            assert first is not None
            return Status(first.status, first.reason)
        left = None if all_done else self._left(beats, exits)
        if left is not None and self._links:  # a launcher may leave before what it left of is known here
            return self._first_of_all(self._failed(self._beats()) or left)
        return None if all_done else left or self._hung(beats)

    def _first_of_all(self, ended: Status) -> Status:
        """Who failed first: a machine that is lost, a process that died, and only then who failed, maybe of that.

        A machine is lost after a silence of its lease; until then its peers have failed of it. So each is asked, and either
        answers with all that has happened there by now, or turns out to be lost.
        """
        for machine in self.machines:
            machine.settle()
        beats = self._beats()
        return self._lost() or self._died(beats) or self._server_died(beats, self._exits()) or ended

    def _lost(self) -> Status | None:
        """A machine of which nothing is to be expected any more."""
        losses = [(loss, machine.host) for machine in self.machines if (loss := machine.lost())]
        for loss, host in sorted(losses, key=lambda item: item[0].status != "interrupted"):
            return Status(loss.status, loss.reason, self.process_hosts.index(host), self._node(host))
        return None

    def _exits(self) -> dict[str, int | None]:
        """Exit codes of what was started; None while it runs."""
        return {name: child.poll() for name, child in self.children.items()}

    def _server_died(self, beats: list[Beat | None], exits: dict[str, int | None]) -> Status | None:
        """A server that ended, and not well, while a worker was still going to need it. One ends well that lost its workers."""
        if all(beat is not None and beat.status in ("success", "target_missed") for beat in beats):
            return None
        for name in sorted(self._servers):
            if code := exits[name]:
                how = f"the {name} died ({exit_text(code)}): {self._last_line(name)}"
                return Status("rank_died" if code < 0 else "failed", how)
        return None

    def _exhausts(self, beats: list[Beat | None]) -> Status | None:
        """The end of a run that would take all of a machine's memory, other programs with it."""
        for machine in self.machines:
            why = machine.exhausts(self._pids(machine, beats))
            if why:
                return Status("oom", why, node=self._node(machine.host))
        return None

    def _pids(self, machine: Machine, beats: list[Beat | None]) -> list[int]:
        """Ids of a machine's workers."""
        return [beat.pid for beat in beats if beat is not None and self._machine(beat.process) is machine]

    def _machine(self, process: int) -> Machine:
        """The machine of a process."""
        return self.machines[self.hosts.index(self.process_hosts[process])]

    def _node(self, host: Host) -> str:
        """A host's name where there are several, as `status.json` holds it."""
        return host.name if len(self.hosts) > 1 else ""

    def _left_late(self) -> bool:
        """True if the processes have had EXIT_SECONDS to leave after the last one was done: the result stands."""
        self._done_since = self._done_since or time.monotonic()
        return time.monotonic() - self._done_since > EXIT_SECONDS

    def _died(self, beats: list[Beat | None]) -> Status | None:
        """A worker that is gone without having said how it ended; first one that no launcher had told to leave."""
        silent = [
            beat
            for beat in beats
            if beat is not None and not beat.status and not self._machine(beat.process).alive(beat.pid)
        ]
        for beat in sorted(silent, key=lambda beat: was_told(self.folder, beat.process)):
            # A worker that failed writes its reason last: look once more before calling it dead.
            again = read_beat(self.folder, beat.process)
            if again is None or not again.status:
                log = memory.log_to_read(self.folder, f"worker-{beat.process}")
                where = f"in phase '{beat.phase}' at step {beat.step}; see {log}"
                how = self._how(f"worker-{beat.process}")
                if self._machine(beat.process).oom_killed():
                    return self._of(beat.process, "oom", f" was killed by the kernel {where}")
                return self._of(beat.process, "rank_died", f" died{how} {where}")
        return None

    def _of(self, process: int, status: str, what: str) -> Status:
        """A status of one process, which `what` goes on to say something of, with its machine where there are several."""
        node = self._node(self.process_hosts[process])
        return Status(status, f"process {process}{f' on {node}' if node else ''}{what}", process, node)

    def _failed(self, beats: list[Beat | None]) -> Status | None:
        """The reason of a worker that said that it failed."""
        for beat in beats:
            if beat is not None and beat.status not in ("", "success", "target_missed"):
                log = f"worker-{beat.process}"
                see = f"; see {memory.log_to_read(self.folder, log)}" if beat.status == "oom" else ""
                return self._of(beat.process, beat.status, f": {beat.reason}{see}")
        return None

    def _beats(self) -> list[Beat | None]:
        return [read_beat(self.folder, process) for process in range(self.process_count)]

    def _left(self, beats: list[Beat | None], exits: dict[str, int | None]) -> Status | None:
        """A started command that ended before its workers were done, or badly before all were."""
        if all(beat is not None and beat.status for beat in beats):
            return None
        done = {beat.process for beat in beats if beat is not None and beat.status}
        for name, code in exits.items():
            if code is not None and not (code == 0 and done.issuperset(self._processes_of(name))):
                number = int(name.rpartition("-")[2]) if name.startswith("worker-") else None
                text = f"{name} ended with {exit_text(code)}: {self._last_line(name)}"
                node = self._node(self.process_hosts[number]) if number is not None else ""
                return Status("rank_died" if code < 0 else "failed", text, number, node)
        return None

    def _processes_of(self, name: str) -> list[int]:
        """The workers of a command: one, or all of its host."""
        if name.startswith("worker-"):
            return [int(name.rpartition("-")[2])]
        return [number for number, host in enumerate(self.process_hosts) if host is self._command_hosts[name]]

    def _how(self, name: str) -> str:
        child = self.children.get(name)
        code = child.poll() if child is not None else None
        return f" ({exit_text(code)})" if code is not None else ""

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
                    f": no progress since {since:%H:%M:%S} ({silent:.0f} s, allowed {allowed:.0f} s) "
                    f"in phase '{phase}'{self._stack(beat)}"
                )
                return self._of(process, "hung", reason)
        return None

    def _stack(self, beat: Beat | None) -> str:
        """Where a hung worker stands: its innermost Python line; all stacks go to its text log."""
        log = self.folder / f"worker-{beat.process}.log" if beat is not None else None
        if beat is None or log is None or not log.exists():
            return ""
        before = log.stat().st_size
        if not self._machine(beat.process).stack(beat.pid):
            return ""
        frame, size, deadline = "", before, time.monotonic() + STACK_SECONDS
        while time.monotonic() < deadline and not (frame and log.stat().st_size == size):  # until no more is written
            size = log.stat().st_size
            time.sleep(POLL_SECONDS)
            self._machine(beat.process).lost()  # takes in what has arrived
            frame = _innermost(log.read_bytes()[before:].decode(errors="replace").splitlines())
        return f", at {frame or 'no Python line'}; stacks in {log.name}"

    def _end_tree(self) -> None:
        beats = self._beats()
        for machine in self.machines:
            names = [name for name, host in self._command_hosts.items() if host is machine.host]
            environment = machine.host.environment
            ending = environment.ending(machine.folder, names) if environment is not None else []
            machine.ask_to_end(self._pids(machine, beats), ending)
        for machine in self.machines:
            machine.end()

    def _file(self, status: Status) -> None:
        settings = self.run_spec.settings
        how = asdict(status)
        if not status.node:
            del how["node"]
        value = {
            **how,
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
