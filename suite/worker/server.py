"""Parameter server of `update=async`: `python -m suite.worker.server RUN_JSON`.

The controller or an agent starts the server.

The trainer implements the server (`Trainer.serve`). The server has no heartbeat. The controller
monitors the server process, and ends the process after the run.
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

    MXNet's scheduler also counts as a server.
    """
    servers, run_file = [], folder / RUN_FILE
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            if SERVER[1] in command and Path(command[-1]) == run_file:
                servers.append(process)
    return servers


def main() -> int:
    """Run the server until the workers have disconnected."""
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
