"""Print the costs of steps and evaluation batches of planned runs on the null device as JSON.

`python -m tests.gpu_paths.probe OUT RUN_FOLDER …` runs in PyTorch's environment.
"""

import collections
import itertools
import json
import os
import sys
import traceback
import warnings
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from suite.common.registry import load_trainer, load_workload
from suite.common.runspec import read_run
from suite.launch.base import worker_context_from_env
from testing.null_counts import counts, reset, summed

STEPS = 4
AHEAD = 3
"""Steps before the counted steps, which allocate memory and initialize libraries."""


class Pinning(TorchDispatchMode):
    """Counter of the bytes that this thread copies to pinned memory."""

    size = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if operator.overloadpacket is torch.ops.aten._pin_memory:
            self.size += args[0].nbytes
        return operator(*args, **(kwargs or {}))


def probed(folder):
    """Return the counts of a step and an evaluation batch, and the lines that synchronized."""
    run = read_run(folder / "run.json").seen_by_workers()
    workload = load_workload(run.settings.workload)(run.settings, run.dataset_info)
    worker = worker_context_from_env(run)
    trainer = load_trainer(run.settings.workload, run.settings.framework)(workload, worker)
    waits = collections.Counter()

    def waited(message, *_, **__):
        lines = [frame for frame in traceback.extract_stack() if "/workloads/" in frame.filename]
        if "synchroniz" in str(message) and lines:
            waits[f"{Path(lines[-1].filename).name}: {lines[-1].line}"] += 1

    warnings.showwarning = waited
    warnings.simplefilter("always")
    trainer.setup(workload.initial_weights(1), True)
    batches = workload.open_data(worker, 1)
    with trainer.prefetch_to_device(batches.train(0, 1 << 30)) as stream:
        items = list(itertools.islice(stream, AHEAD + STEPS))
    trainer.train(iter(items[:AHEAD]), 0)
    found = {"setup": {"peak_bytes": counts()["peak bytes"]}}
    torch.cuda.set_sync_debug_mode("warn")
    reset()
    with Pinning() as pinning:
        for item in items[AHEAD:]:
            (batch,) = item
            trainer.step(batch, 1e-3)
    found["step"] = summed(counts(), STEPS) | {
        "waits": dict(waits),
        "bytes pinned": pinning.size / STEPS,
    }
    waits.clear()
    reset()
    for item in items[AHEAD:]:
        trainer.train([item], AHEAD)
    found["segment"] = summed(counts(), STEPS) | {"waits": dict(waits)}
    waits.clear()
    reset()
    evaluated = 0
    for _ in trainer.predict(batches.evaluation() if run.settings.profile != "synthetic" else ()):
        evaluated += 1
        if evaluated == 2:
            break
    found["evaluation"] = summed(counts(), max(evaluated, 1)) | {"waits": dict(waits)}
    torch.cuda.set_sync_debug_mode("default")
    batches.close()
    trainer.close()
    return found


def main():
    out, *folders = map(Path, sys.argv[1:])
    os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_PORT="1")
    out.write_text(json.dumps({str(folder): probed(folder) for folder in folders}))


if __name__ == "__main__":
    main()
