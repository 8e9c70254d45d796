"""Read runs from their run.json, and prepare the runs for training in this process."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from suite.common.registry import load_trainer, load_workload
from suite.common.runspec import RunSpec, read_run
from suite.launch.base import worker_context_from_env


def runs_from_command_line(doc: str | None) -> Iterator[tuple[Path, RunSpec]]:
    """Yield each run folder on the command line, with the run as a worker reads it.

    The docstring `doc` of the script is the help text of the command line.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN_FOLDER")
    os.environ.update({"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": "1"})
    for folder in parser.parse_args().runs:
        yield folder, read_run(folder / "run.json").seen_by_workers()


@contextlib.contextmanager
def ready(run: RunSpec, workload: Any = None) -> Iterator[tuple[Any, Any, Iterator[Any]]]:
    """Yield a run's PyTorch trainer after its warm-up, the data, and training batches."""
    workload = workload or load_workload(run.settings.workload)(run.settings, run.dataset_info)
    worker = worker_context_from_env(run)
    trainer: Any = load_trainer(run.settings.workload, "pytorch")(workload, worker)
    trainer.setup(workload.initial_weights(1), True)
    data: Any = workload.open_data(worker, 1)
    with contextlib.closing(data), trainer.prefetch_to_device(data.train(0, 1 << 30)) as batches:
        yield trainer, data, batches
    trainer.close()
