"""Runs in a framework's environment: all-reduces as in a run."""

import os

import numpy as np

from suite.common.registry import load_trainer
from testing.synthetic import place, settings
from workloads.allreduce.workload import AllReduce

LARGEST = 1 << 14


def timed(framework, precisions, devices=2):
    """Return `times/PRECISION` and `wrong/PRECISION` for each precision.

    The times are the seconds of the steps of one pass. `wrong` has the number of wrong values after
    a sum, and after a sum that was left out.
    """
    found = {}
    process, processes = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))
    share = devices // processes
    where = place(process, range(process * share, (process + 1) * share), devices)
    for precision in precisions:
        values = {
            "profile": "synthetic",
            "global_batch_size": LARGEST,
            "timing_each": "steps",
            "precision": precision,
        }
        chosen = settings("allreduce", framework=framework, devices=devices, **values)
        workload = AllReduce(chosen, AllReduce.load_dataset_info(chosen))
        trainer = load_trainer("allreduce", framework)(workload, where)
        trainer.setup(workload.initial_weights(1))
        seconds = []
        steps = workload.open_data(where, 1).train(0, workload.epochs.start(1))
        stats = trainer.train(trainer.time_steps(steps, seconds), 0)
        assert stats.steps == len(seconds)
        trainer.fill(LARGEST, True)
        trainer.reduce()
        wrong = [trainer.wrong(True), trainer.wrong(False)]
        found |= {f"times/{precision}": np.array(seconds), f"wrong/{precision}": np.array(wrong)}
    return found
