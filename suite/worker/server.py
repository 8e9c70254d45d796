"""The parameter server of `update=async`: `python -m suite.worker.server RUN_JSON`, started by the controller or an agent.

What it does is the trainer's (`Trainer.serve`). It has no heartbeat: the controller sees its process and ends it after the run.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import psutil

from suite.common.registry import load_trainer, load_workload
from suite.common.runspec import read_run
from suite.launch.base import SERVER, SERVER_VARIABLE
from suite.launch.children import die_with_parent
from suite.launch.private_network import check_network


def servers_of(run_file: Path) -> list[psutil.Process]:
    """This machine's servers of a run, MXNet's scheduler among them, as far as this process may see them."""
    servers = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            if SERVER[1] in command and Path(command[-1]) == run_file:
                servers.append(process)
    return servers


def main() -> int:
    """Entry point; returns when the workers are gone."""
    die_with_parent()
    check_network()
    run = read_run(Path(sys.argv[1]))
    settings = run.settings
    workload = load_workload(settings.workload)(settings, run.facts)
    trainer = load_trainer(settings.workload, settings.framework)
    trainer.serve(workload, os.environ[SERVER_VARIABLE], settings.devices)
    return 0


if __name__ == "__main__":
    sys.exit(main())
