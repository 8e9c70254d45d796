"""The parameter server of `update=async`: `python -m suite.worker.server RUN_JSON`, started by a framework's launcher.

What it does is the trainer's (`Trainer.serve`). It has no heartbeat: the controller sees its process and ends it after the run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from suite.common.registry import load_trainer, load_workload
from suite.common.runspec import read_run
from suite.launch.base import SERVER_VARIABLE
from suite.launch.children import die_with_parent


def main() -> int:
    """Entry point; returns when the workers are gone."""
    die_with_parent()
    run = read_run(Path(sys.argv[1]))
    settings = run.settings
    workload = load_workload(settings.workload)(settings, run.facts)
    trainer = load_trainer(settings.workload, settings.framework)
    trainer.serve(workload, os.environ[SERVER_VARIABLE], settings.devices)
    return 0


if __name__ == "__main__":
    sys.exit(main())
