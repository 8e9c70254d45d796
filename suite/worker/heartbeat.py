"""Heartbeat of a worker: a small JSON file with the worker's latest status.

The worker writes the file, and the controller reads the file.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from suite.common.run_folder import heartbeat_path as heartbeat_path
from suite.common.runspec import write_atomically
from workloads import files
from workloads.api import Json

INTERVAL_SECONDS = 0.5
STACK_SIGNAL = signal.SIGUSR2
"""On this signal, a worker writes the Python stacks of its threads to its text log."""


@dataclass
class WorkerStatus:
    """Latest status of a worker, which is written to the worker's heartbeat file."""

    process: int
    pid: int
    phase: str = "start"
    """Phase of the worker: `start`, `setup`, `open data`, `train`, `evaluate`, `checkpoint`, or
    `done`.
    """
    step: int = 0
    count: int = 0
    """Number of heartbeat updates.

    This number increases even if `step` does not change, such as during an evaluation.
    """
    samples: int = 0
    elapsed_seconds: float | None = None
    """Seconds since `run_start`. None before `run_start`."""
    loss: float | None = None
    contention: Mapping[str, Json] = field(default_factory=dict)
    """CPU and GPU contention from `run_start` to `run_stop` (`suite.machine.contention`).

    Empty until `run_stop`.
    """
    code_digest: str = ""
    """Digest of the code that the worker has imported. Empty until the trainer is loaded."""
    code_root: str = ""
    """Folder of the checkout, or of the installed packages, from which the worker has imported its
    code.
    """
    status: str = ""
    """Empty while the worker runs. After the worker has finished, one of the statuses of
    `status.json`.
    """
    reason: str = ""
    code: str = ""
    """Code of the `reason` (value of an `EndCode`, see suite/common/run_end.py)."""


class HeartbeatWriter:
    """Writes the heartbeat by which the controller monitors a worker.

    The controller and the workers communicate through three files in the folder of a run:

    1. The controller writes run.json, then starts the workers. run.json contains all data that a
       worker needs.
    2. Each worker calls `update` at every step. The heartbeat file is replaced at most twice per
       second, and immediately when the phase changes. Each call increments `count`. If `count` does
       not change for the duration of the watchdog timeout, the run has the status `hung`.
    3. A worker calls `finish` as its last write. If a worker exits without calling `finish`, the
       worker has died.
    4. The controller (`RunMonitor`) reads the heartbeats ten times per second. The controller
       determines which process failed first, ends all other processes (`Supervisor`), and writes
       status.json.

    If a worker runs on a remote machine, an agent copies its heartbeats to the controller. The
    protocol is otherwise the same.
    """

    def __init__(self, folder: Path, process: int) -> None:
        self._path = heartbeat_path(folder, process)
        self.state = WorkerStatus(process, os.getpid())
        self._written = 0.0
        self._run_start: float | None = None
        self.write()

    def start_clock(self, elapsed_seconds: float = 0.0) -> None:
        """Start the clock of the run.

        Args:
            elapsed_seconds: Time since `run_start` in seconds, if the run was resumed.
        """
        self._run_start = time.monotonic() - elapsed_seconds

    def elapsed_seconds(self) -> float | None:
        """Return the seconds since `run_start`, or None before `run_start`."""
        return None if self._run_start is None else time.monotonic() - self._run_start

    def update(self, **changes: object) -> None:
        """Record progress.

        A change of the phase is written immediately. Other changes are written at most twice per
        second.
        """
        changed_phase = changes.get("phase", self.state.phase) != self.state.phase
        for name, value in changes.items():
            setattr(self.state, name, value)
        self.state.count += 1
        if changed_phase or time.monotonic() - self._written >= INTERVAL_SECONDS:
            self.write()

    def finish(self, status: str, reason: str = "", code: str = "") -> None:
        """Write how the worker ended. This call must be the last update.

        Args:
            status: A status of `status.json`.
            reason: Reason for the status in a single line.
            code: Value of the `EndCode` for the reason.
        """
        self.state.phase, self.state.status, self.state.reason, self.state.code = (
            "done",
            status,
            reason,
            code,
        )
        self.write()

    def write(self) -> None:
        """Write the heartbeat file immediately."""
        self._written = time.monotonic()
        self.state.elapsed_seconds = self.elapsed_seconds()
        write_atomically(self._path, json.dumps(asdict(self.state)))


def read_heartbeat(folder: Path, process: int) -> WorkerStatus | None:
    """Return the latest status of a worker, or None before its first heartbeat."""
    try:
        value: Mapping[str, object] = files.read_json(heartbeat_path(folder, process))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    # A worker with a different version of the suite may write additional fields.
    names = {item.name for item in fields(WorkerStatus)}
    return WorkerStatus(**{name: item for name, item in value.items() if name in names})  # type: ignore[arg-type]
