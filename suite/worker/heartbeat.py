"""What each worker tells the controller while it runs: a small JSON file, replaced at most twice a second."""

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
"""A worker that gets it writes the Python stacks of its threads to its text log."""


@dataclass
class WorkerStatus:
    """The newest state of one worker."""

    process: int
    pid: int
    phase: str = "start"
    """`start`, `setup`, `open data`, `train`, `evaluate`, `done`."""
    step: int = 0
    count: int = 0
    """Rises with every sign of progress, also where `step` stands still (evaluation batches)."""
    samples: int = 0
    elapsed_seconds: float | None = None
    """Time of the run by its clock, since `run_start`; None before."""
    loss: float | None = None
    contention: Mapping[str, Json] = field(default_factory=dict)
    """From `run_start` to `run_stop`: `suite.machine.contention.Contention.end`; empty before."""
    code_digest: str = ""
    """Digest of the code that the worker imported; empty before the trainer is loaded."""
    code_root: str = ""
    """Folder of the checkout, or of the installed packages, that the worker imported."""
    status: str = ""
    """Set once, at the end: a status of `status.json`."""
    reason: str = ""
    code: str = ""
    """Set with `reason`: the value of an `EndCode` (suite/common/run_end.py)."""


class HeartbeatWriter:
    """The worker's side: `beat()` is cheap enough to call at every step."""

    def __init__(self, folder: Path, process: int) -> None:
        self._path = heartbeat_path(folder, process)
        self.state = WorkerStatus(process, os.getpid())
        self._written = 0.0
        self._run_start: float | None = None
        self.write()

    def start_clock(self, elapsed_seconds: float = 0.0) -> None:
        """Count the time of the run from now on. A resumed run begins with the time since its `run_start`."""
        self._run_start = time.monotonic() - elapsed_seconds

    def elapsed_seconds(self) -> float | None:
        """Return the time since `run_start`, or None before it."""
        return None if self._run_start is None else time.monotonic() - self._run_start

    def update(self, **changes: object) -> None:
        """Note progress; a change of phase is written at once, everything else at most twice a second."""
        changed_phase = changes.get("phase", self.state.phase) != self.state.phase
        for name, value in changes.items():
            setattr(self.state, name, value)
        self.state.count += 1
        if changed_phase or time.monotonic() - self._written >= INTERVAL_SECONDS:
            self.write()

    def finish(self, status: str, reason: str = "", code: str = "") -> None:
        self.state.phase, self.state.status, self.state.reason, self.state.code = "done", status, reason, code
        self.write()

    def write(self) -> None:
        self._written = time.monotonic()
        self.state.elapsed_seconds = self.elapsed_seconds()
        write_atomically(self._path, json.dumps(asdict(self.state)))


def read_heartbeat(folder: Path, process: int) -> WorkerStatus | None:
    """The controller's side: the newest state of a worker, None before its first."""
    try:
        value: Mapping[str, object] = files.read_json(heartbeat_path(folder, process))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    names = {item.name for item in fields(WorkerStatus)}  # a worker of another checkout may write others
    return WorkerStatus(**{name: item for name, item in value.items() if name in names})  # type: ignore[arg-type]
