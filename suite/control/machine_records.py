"""Record the topology and telemetry of a run's machines.

The module also records whether programs outside the run slowed down the run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from pathlib import Path

from suite.common.run_folder import machine_folder
from suite.common.runspec import Host, RunSpec
from suite.control import condition
from suite.control.telemetry import TelemetryRecorder, cut
from suite.machine import topology
from suite.worker.heartbeat import WorkerStatus


class MachineRecords:
    """Topology and telemetry files of a run, and the `suite_condition` line of its log."""

    def __init__(self, run: RunSpec, has_agents: bool) -> None:
        """Prepare the records of the machines.

        Args:
            run: The run, with its machines.
            has_agents: True if agents record the machines and send the files.
        """
        self._run, self._has_agents = run, has_agents
        self._folder = Path(run.folder)
        self._log = self._folder / f"result_{run.run_index}.txt"
        self._telemetry: list[TelemetryRecorder] = []
        self.busy: list[str] = []
        """Reasons why the machines were busy. The list is filled at the end of the run."""

    def folder_of(self, host: Host) -> Path:
        """Return the folder for the files of a machine."""
        return machine_folder(self._folder, host.name, len(self._run.hosts))

    def prepare(self) -> None:
        """Write the topology of this machine, unless agents write the topology."""
        for host in () if self._has_agents else self._run.hosts:
            if host.is_here:
                folder = self.folder_of(host)
                folder.mkdir(exist_ok=True)
                topology.write(folder)
                is_gpu = self._run.settings.device == "cuda"
                self._telemetry.append(
                    TelemetryRecorder(folder / "telemetry.jsonl", self._log, is_gpu)
                )

    def start(self) -> None:
        """Start the sampling of this machine's telemetry."""
        for telemetry in self._telemetry:
            telemetry.start()

    def finish(
        self,
        heartbeats: list[WorkerStatus | None],
        process_hosts: Sequence[Host],
        server_hosts: Collection[str],
    ) -> None:
        """Stop the sampling, and append the `suite_condition` line to the log.

        Args:
            heartbeats: Last heartbeat of each worker.
            process_hosts: Machine of each worker.
            server_hosts: Names of the machines with server processes for the workers.
        """
        for telemetry in self._telemetry:
            telemetry.stop()
        paths = [(host, self.folder_of(host) / "telemetry.jsonl") for host in self._run.hosts]
        for _, path in paths if self._has_agents else ():
            # The telemetry file may be missing or incomplete.
            with contextlib.suppress(OSError, ValueError, TypeError):
                cut(path, self._log)
        samples = [row for host, path in paths for row in condition.device_rows(path, host.devices)]
        names = [host.name for host in process_hosts]
        figures = condition.figures(heartbeats, names, samples, set(server_hosts))
        if figures:
            self.busy = condition.busy(figures)
            condition.append(self._log, figures)
