"""One run from the controller's side: start its processes, have them watched, end the whole tree, file the reason."""

from __future__ import annotations

import contextlib
import datetime
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from suite.common.paths import PROJECT
from suite.common.run_end import EndCode
from suite.common.run_folder import OPEN_REASONS, RUN_FILE, STATUS_FILE, machine_folder
from suite.common.runspec import Host, RunSpec, write_atomically
from suite.control import condition, interrupts, memory
from suite.control.hosts.connection import AgentConnection, ConnectionLost
from suite.control.hosts.remote_host import RemoteHost
from suite.control.hosts.this_host import ThisHost
from suite.control.open_reasons import append_open_reasons
from suite.control.progress import Progress
from suite.control.run_monitor import POLL_SECONDS, RunMonitor, RunStatus
from suite.control.telemetry import TelemetryRecorder, cut
from suite.environments.environment import Environment
from suite.launch.base import Framework, command_variables, meet, needs_private_network
from suite.launch.hosts import hosts_of
from suite.machine import disks, topology
from suite.results.text import clean
from suite.worker.heartbeat import WorkerStatus, heartbeat_path
from workloads.api import Deviation, DeviationCode
from workloads.process_identity import this_process

NO_LINKS: Mapping[str, AgentConnection] = {}


def _text(moment: datetime.datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


class Supervisor:
    """Runs the processes of one run to their end."""

    def __init__(
        self,
        run: RunSpec,
        framework: Framework,
        environment: Environment,
        progress: Progress,
        links: Mapping[str, AgentConnection] = NO_LINKS,
        checkpoint: Path | None = None,
        find_open_reasons: Callable[[], Sequence[Deviation]] = tuple,
    ) -> None:
        """Prepare a run.

        Args:
            run: Everything that is decided before the run starts.
            framework: The framework of its workers.
            environment: Where the workers run.
            progress: Shows how far the run is.
            links: Name of a machine to its agent. Empty: the only machine is this one.
            checkpoint: The file that the run resumes from, which moves to its folder.
            find_open_reasons: Called when the workers have ended; returns why the run is open after all.
        """
        self.hosts = hosts_of(run)
        self.run_spec = replace(run, hosts=self.hosts)  # a worker in a container knows its machine by another name
        self.folder = Path(run.folder)
        self.framework, self.environment = framework, environment
        self.progress = progress
        self.process_hosts = framework.hosts_of_processes(self.hosts, run.settings.device, run.settings.update)
        self.started, self._begin = datetime.datetime.now(datetime.timezone.utc), time.monotonic()
        self.monitor = RunMonitor(self.run_spec, self.hosts, self.process_hosts, has_agents=bool(links))
        self._links = links
        self._checkpoint = checkpoint
        self._find_open_reasons = find_open_reasons
        if not links:
            self.monitor.controls += [ThisHost(host, self.folder, environment) for host in self.hosts]
        self._telemetry: list[TelemetryRecorder] = []
        self.busy: list[str] = []
        """Why the machine was a busy one, after the run."""
        self.open_reasons: list[Deviation] = []
        """Why the run is open though its first lines say closed, after the run."""
        self._ended: datetime.datetime | None = None

    def run(self) -> RunStatus:
        """Start, watch, clean up. On KeyboardInterrupt the tree is ended, filed as `interrupted`, and the exception raised."""
        self.folder.mkdir(parents=True, exist_ok=False)
        self.run_spec.write(self.folder / "run.json")
        if self._checkpoint is not None:  # after run.json, without which it would be of no use
            self._checkpoint.replace(self.folder / self._checkpoint.name)
        status = RunStatus("failed", "the controller stopped for a reason of its own")
        try:
            self._file(RunStatus("running"))
            self._telemetry = [self._record_machine(host) for host in self.hosts if host.is_here and not self._links]
            for host in self.hosts if self._links else ():
                machine_files = machine_folder(self.folder, host.name, len(self.hosts))
                remote = RemoteHost(self._links[host.name], host, self.environment, self.folder, machine_files)
                self.monitor.controls.append(remote)
            self._start()
            for telemetry in self._telemetry:
                telemetry.start()
            while (ended := self.monitor.poll(self.progress.update)) is None:
                time.sleep(POLL_SECONDS)
            status = ended
        except KeyboardInterrupt:
            status = RunStatus("interrupted", "stopped by a signal to the controller")
            raise
        except ConnectionLost as error:
            status = self.monitor.failure() or RunStatus("rank_died", str(error))
        except (OSError, ValueError) as error:
            status = RunStatus("failed", f"a process could not be started: {error}")
        finally:
            with interrupts.signals_held():
                status = self._end(status)
        return status

    def _end(self, status: RunStatus) -> RunStatus:
        """End all processes and file the reason, with what to do about it."""
        full = self._full_disk() if status.status in ("failed", "rank_died") else ""  # before anything is removed
        self._end_tree()
        if status.status == "oom":
            status = replace(status, reason=f"{status.reason}; {memory.batch_advice(self.run_spec)}")
        if full and status.code != EndCode.DISK_FULL.value:
            status = replace(status, reason=f"{status.reason}; {full}", code=EndCode.DISK_FULL.value)
        self._file(status)
        heartbeats = self.monitor.heartbeats()
        self._forget_beats()
        for telemetry in self._telemetry:
            telemetry.stop()
        self._tell_condition(heartbeats)
        return self._append_open_reasons(status, heartbeats)

    def _append_open_reasons(self, status: RunStatus, heartbeats: Sequence[WorkerStatus | None]) -> RunStatus:
        """Append why the run is open after all to its log, and file it. Return the status: failed if the log lacks it."""
        if status.status not in ("success", "target_missed"):
            return status
        self.open_reasons = [*self._code_reasons(heartbeats), *self._find_open_reasons()]
        if self.open_reasons:
            try:
                append_open_reasons(self.folder / f"result_{self.run_spec.run_index}.txt", self.open_reasons)
            except OSError as error:
                status = RunStatus(
                    "failed", f"{'; '.join(map(str, self.open_reasons))}, which the log cannot hold: {error}"
                )
            self._file(status)
        return status

    def _code_reasons(self, heartbeats: Sequence[WorkerStatus | None]) -> list[Deviation]:
        """Return the workers that imported other code than this process's checkout has, all of them in one line."""
        expected = self.run_spec.code_digest
        others = [heartbeat for heartbeat in heartbeats if heartbeat is not None and heartbeat.code_digest != expected]
        if not expected or not others:
            return []
        root = clean(others[0].code_root, 200)
        where = f"its code is in {root}" if root else "it is of a version that does not report its code"
        sentence = (
            f"worker {others[0].process} imported other code than the controller's checkout {PROJECT} has ({where}); make the "
            f"environment from this checkout: suite env create {self.environment.name}"
        )
        return [Deviation(DeviationCode.OTHER_CHECKOUT, detail=sentence)]

    def _full_disk(self) -> str:
        """Here or on another machine."""
        return disks.full(self.folder) or next(
            filter(None, (control.full_disk for control in self.monitor.controls)), ""
        )

    def _tell_condition(self, heartbeats: list[WorkerStatus | None]) -> None:
        """Write into the log how much of the machine the run got."""
        names = [host.name for host in self.process_hosts]
        paths = [
            (host, machine_folder(self.folder, host.name, len(self.hosts)) / "telemetry.jsonl") for host in self.hosts
        ]
        if self._links:
            for _, path in paths:
                with contextlib.suppress(OSError, ValueError, TypeError):  # it did not come, or came in part
                    cut(path, self.folder / f"result_{self.run_spec.run_index}.txt")
        samples = [row for host, path in paths for row in condition.device_rows(path, host.devices)]
        serving = {self.monitor.command_hosts[name].name for name in self.monitor.servers}
        figures = condition.figures(heartbeats, names, samples, serving)
        if figures:
            self.busy = condition.busy(figures)
            condition.append(self.folder / f"result_{self.run_spec.run_index}.txt", figures)

    def _record_machine(self, host: Host) -> TelemetryRecorder:
        """Write what the host, this machine, is made of; returns what will sample it. Both files have the host's own folder."""
        folder = machine_folder(self.folder, host.name, len(self.hosts))
        folder.mkdir(exist_ok=True)
        topology.write(folder)
        log = self.folder / f"result_{self.run_spec.run_index}.txt"
        return TelemetryRecorder(folder / "telemetry.jsonl", log, self.run_spec.settings.device == "cuda")

    def _start(self) -> None:
        rendezvous = meet(self.hosts, lambda host: self.monitor.controls[self.hosts.index(host)].ports())
        private = needs_private_network(self.framework, self.run_spec)
        for host, control in zip(self.hosts, self.monitor.controls, strict=True):
            run_file = self.environment.map_path(control.folder / RUN_FILE)
            for command in self.framework.commands(self.run_spec, run_file, rendezvous, host):
                variables = command_variables(self.run_spec, host, command)
                inside = self.environment.of_process(control.folder, command.name, variables)
                self.monitor.command_hosts[command.name] = host
                self.monitor.children[command.name] = control.start(
                    command.name, inside.command(*command.arguments), variables, private
                )
                self.monitor.servers |= {command.name} if command.serves else set()

    def _end_tree(self) -> None:
        heartbeats = self.monitor.heartbeats()
        for control in self.monitor.controls:
            names = [name for name, host in self.monitor.command_hosts.items() if host is control.host]
            control.terminate(self.monitor.pids(control, heartbeats), self.environment.ending(control.folder, names))
        for control in self.monitor.controls:
            control.wait()

    def _file(self, status: RunStatus) -> None:
        settings = self.run_spec.settings
        how = asdict(status)
        if not status.node:
            del how["node"]
        # Whatever the wall clock does.
        ended = self.started + datetime.timedelta(seconds=time.monotonic() - self._begin)
        if status.status != "running":  # a status that is filed again has the time of the first filing
            self._ended = ended = self._ended or ended
        value = {
            **how,
            "started": _text(self.started),
            "ended": None if status.status == "running" else _text(ended),
            "controller": this_process(),
            "run_index": self.run_spec.run_index,
            "workload": settings.workload,
            "framework": settings.framework,
            "profile": settings.profile,
            "devices": settings.devices,
        }
        if self.open_reasons:
            value[OPEN_REASONS] = [reason.text for reason in self.open_reasons]  # in the log, they are a last line
        write_atomically(self.folder / STATUS_FILE, json.dumps(value, indent=1, ensure_ascii=False) + "\n")

    def _forget_beats(self) -> None:
        for process in range(len(self.process_hosts)):
            heartbeat_path(self.folder, process).unlink(missing_ok=True)
