"""Parameter server for `update=async`: `python -m suite.worker.server RUN_JSON`.

The controller or an agent starts the server process. The trainer implements the server
(`Trainer.serve`). The server has no heartbeat. Instead, the controller monitors the server process
and ends it after the run.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import psutil

from suite.common.registry import load_trainer, load_workload
from suite.common.run_folder import RUN_FILE
from suite.common.runspec import read_run
from suite.launch.base import SERVER, SERVER_VARIABLE
from suite.launch.children import die_with_parent
from suite.launch.private_network import check_network


def servers_of(folder: Path) -> list[psutil.Process]:
    """Return the visible server processes of the run in a folder.

    The scheduler process of MXNet is also returned.
    """
    servers, run_file = [], folder / RUN_FILE
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            if SERVER[1] in command and Path(command[-1]) == run_file:
                servers.append(process)
    return servers


def main() -> int:
    """Run the server until all workers have disconnected, and return the exit code."""
    die_with_parent()
    check_network()
    run = read_run(Path(sys.argv[1]))
    settings = run.settings
    workload = load_workload(settings.workload)(settings, run.dataset_info)
    trainer = load_trainer(settings.workload, settings.framework)
    trainer.run_parameter_server(workload, os.environ[SERVER_VARIABLE], settings.devices)
    return 0


if __name__ == "__main__":
    sys.exit(main())
