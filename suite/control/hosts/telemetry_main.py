"""Beside the workers on another machine: `python -m suite.control.hosts.telemetry_main FOLDER DEVICE`, started by its agent.

Writes what the machine is made of and samples it until it is ended; both files travel as all others do.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from suite.control.telemetry import TelemetryRecorder
from suite.machine import topology


def main() -> int:
    """Never returns by itself."""
    folder, device = Path(sys.argv[1]), sys.argv[2]
    topology.write(folder)
    TelemetryRecorder(folder / "telemetry.jsonl", folder / "none", device == "cuda", root=os.getppid()).start()
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
