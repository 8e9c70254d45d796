"""Supervisor: starts, monitors, and ends a run's processes, and writes the result."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from suite.catalog.deviations import Deviation
from suite.common.run_folder import RUN_FILE
from suite.common.runspec import RunSpec
from suite.control import interrupts
from suite.control.advice import full_disk, with_advice
from suite.control.hosts.host_control import ConnectionLost
from suite.control.hosts.host_controls import NO_LINKS, Links, local_controls, remote_control
from suite.control.machine_records import MachineRecords
from suite.control.open_reasons import append_open_reasons, code_deviation
from suite.control.progress import Progress
from suite.control.run_monitor import POLL_SECONDS, RunMonitor
from suite.control.run_status import RunStatus, StatusWriter
from suite.environments.environment import Environment
from suite.launch.base import Framework, command_variables, create_rendezvous, needs_private_network
from suite.launch.hosts import hosts_of


class Supervisor:
    """Runs the processes of a run until the run ends.

    The supervisor starts the workers on all machines. Ten times per second, the supervisor uses
    `RunMonitor` to check whether the run has ended. At the end of the run, the supervisor ends all
    processes and writes status.json. `HeartbeatWriter` describes the protocol between controller
    and workers.
    """

    def __init__(
        self,
        run: RunSpec,
        framework: Framework,
        environment: Environment,
        progress: Progress,
        connections: Links = NO_LINKS,
        checkpoint: Path | None = None,
        find_open_reasons: Callable[[], Sequence[Deviation]] = tuple,
    ) -> None:
        """Prepare a run.

        Args:
            run: The specification of the run.
            framework: Framework of the workers.
            environment: Environment of the workers.
            progress: Prints the progress of the run.
            connections: Maps the name of each machine to the connection to its agent. The mapping
                is empty for a run on this machine only.
            checkpoint: Checkpoint file from which the run resumes. The checkpoint file is moved to
                the folder of the run.
            find_open_reasons: Function that returns additional reasons for the open division. The
                function is called after the workers have ended.
        """
        self.hosts = hosts_of(run)
        # Store the hosts in the specification, because a process inside a container sees a
        # different host name.
        self.run_spec = replace(run, hosts=self.hosts)
        self.folder = Path(run.folder)
        self.framework, self.environment = framework, environment
        self.progress = progress
        self.process_hosts = framework.hosts_of_processes(
            self.hosts, run.settings.device, run.settings.update
        )
        self.monitor = RunMonitor(
            self.run_spec, self.hosts, self.process_hosts, has_agents=bool(connections)
        )
        self._connections = connections
        self._checkpoint = checkpoint
        self._find_open_reasons = find_open_reasons
        if not connections:
            self.monitor.controls += local_controls(self.hosts, self.folder, environment)
        self._records = MachineRecords(self.run_spec, has_agents=bool(connections))
        self._status_writer = StatusWriter(self.run_spec)
        self.open_reasons: list[Deviation] = []
        """Reasons for the open division that were found after the first lines of the log were
        written.
        """

    @property
    def busy(self) -> list[str]:
        """Return the reasons why the machines were busy. The list is filled after the run."""
        return self._records.busy

    def run(self) -> RunStatus:
        """Run all processes, and return how the run ended.

        Raises:
            KeyboardInterrupt: A signal interrupted the controller. All processes have ended, and
                the status is `interrupted`.
        """
        self.folder.mkdir(parents=True, exist_ok=False)
        self.run_spec.write(self.folder / RUN_FILE)
        # Move the checkpoint after run.json is written, because a checkpoint without run.json
        # cannot be used.
        if self._checkpoint is not None:
            self._checkpoint.replace(self.folder / self._checkpoint.name)
        status = RunStatus("failed", "the controller stopped because of an unexpected error")
        try:
            self._status_writer.write(RunStatus("running"))
            self._records.prepare()
            for host in self.hosts if self._connections else ():
                control = remote_control(
                    self._connections, host, self.folder, self.environment, self._records
                )
                self.monitor.controls.append(control)
            self._start()
            self._records.start()
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

    def _start(self) -> None:
        """Start the workers and servers on all machines."""
        monitor = self.monitor
        rendezvous = create_rendezvous(
            self.hosts, lambda host: monitor.controls[self.hosts.index(host)].ports()
        )
        private = needs_private_network(self.framework, self.run_spec)
        for host, control in zip(self.hosts, monitor.controls, strict=True):
            run_file = self.environment.map_path(control.folder / RUN_FILE)
            for command in self.framework.commands(self.run_spec, run_file, rendezvous, host):
                env = command_variables(self.run_spec, host, command)
                inside = self.environment.of_process(control.folder, command.name, env)
                argv = inside.command(*command.arguments)
                monitor.command_hosts[command.name] = host
                monitor.children[command.name] = control.start(command.name, argv, env, private)
                if command.is_server:
                    monitor.servers.add(command.name)

    def _end(self, status: RunStatus) -> RunStatus:
        """End all processes, and write the run's status with advice."""
        # `full_disk` must be called before any file is removed
        full = full_disk(status, self.folder, self.monitor.controls)
        self._end_processes()
        status = with_advice(status, self.run_spec, full)
        self._status_writer.write(status)
        heartbeats = self.monitor.heartbeats()
        self.monitor.remove_heartbeats()
        server_hosts = {self.monitor.command_hosts[name].name for name in self.monitor.servers}
        self._records.finish(heartbeats, self.process_hosts, server_hosts)
        deviation = code_deviation(self.run_spec, heartbeats, self.environment.name)
        return self._append_open_reasons(status, [deviation] if deviation is not None else [])

    def _end_processes(self) -> None:
        """End the run's commands on all machines in parallel, and wait until they have ended."""
        heartbeats = self.monitor.heartbeats()
        for control in self.monitor.controls:
            names = [
                name for name, host in self.monitor.command_hosts.items() if host is control.host
            ]
            ending = self.environment.ending(control.folder, names)
            control.terminate(self.monitor.pids(control, heartbeats), ending)
        for control in self.monitor.controls:
            control.wait()

    def _append_open_reasons(self, status: RunStatus, deviations: Sequence[Deviation]) -> RunStatus:
        """Append reasons for the open division to the log and to the status.

        If the log cannot be written, the returned status is that of a failed run.
        """
        if status.status not in ("success", "target_missed"):
            return status
        self.open_reasons = [*deviations, *self._find_open_reasons()]
        if not self.open_reasons:
            return status
        try:
            append_open_reasons(
                self.folder / f"result_{self.run_spec.run_index}.txt", self.open_reasons
            )
        except OSError as error:
            sentences = "; ".join(map(str, self.open_reasons))
            status = RunStatus(
                "failed",
                f"cannot append reasons for division open to the log: {error} (reasons:"
                f" {sentences})",
            )
        self._status_writer.write(status, self.open_reasons)
        return status
