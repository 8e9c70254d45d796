"""Training steps of a run that is described by a run.json: what busy_machine.py measures, in a framework's environment.

    python busy_step.py RUN_JSON SECONDS

Pinned and with the threads of a real worker that starts now, on the run's own data. For each line on stdin trains for SECONDS
and prints a JSON list: samples per second, and samples per second of processor time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from suite.common.registry import load_trainer, load_workload
from suite.common.runspec import read_run
from suite.launch.base import place_of
from suite.launch.network import free_ports
from suite.worker.main import pin
from workloads.api import Batch

WARM_UP_SECONDS = 0.3
"""Trained before a round is timed: what the round before left (sleeping threads, cold caches) is not measured."""


def main() -> None:
    """Set up, then measure whenever asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("seconds", type=float)
    given = parser.parse_args()
    run, seconds = read_run(given.run), given.seconds
    place = place_of(run, 0, 1)
    with contextlib.suppress(ImportError):  # an earlier checkout has one thread for each core
        from suite.worker.threads import with_threads

        place = with_threads(place, run.settings)
    variables = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": str(free_ports(1)[0]), "MASTER_ADDR": "127.0.0.1"}
    os.environ.update(variables)
    pin(place)
    workload = load_workload(run.settings.workload)(run.settings, run.facts)
    trainer = load_trainer(run.settings.workload, run.settings.framework)(workload, place)
    trainer.setup(workload.initial_weights(run.settings.seed))
    batches = workload.open_data(place, run.settings.seed).train(0, 1 << 40)

    def train(limit_seconds: float) -> int:
        """Samples trained on in at least so long, and in one step or more."""
        samples, end = 0, time.perf_counter() + limit_seconds

        def stretch() -> Iterator[list[Batch]]:
            nonlocal samples
            while True:
                batch = next(batches)
                samples += batch[0].samples_global
                yield batch
                if time.perf_counter() > end:
                    return

        trainer.train(stretch(), 0)
        return samples

    train(WARM_UP_SECONDS)
    print("ready", flush=True)
    for _ in sys.stdin:
        train(WARM_UP_SECONDS)
        start, cpu = time.perf_counter(), time.process_time()
        samples = train(seconds)
        print(json.dumps([samples / (time.perf_counter() - start), samples / (time.process_time() - cpu)]), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
