"""Run in PyTorch's environment on the null device: what steps and an evaluation batch of planned runs cost, as JSON.

python -m tests.gpu_paths.probe OUT RUN_FOLDER …
"""

import collections
import ctypes
import json
import os
import sys
import traceback
import warnings
from pathlib import Path

import torch

from suite.common.registry import load_trainer, load_workload
from suite.common.runspec import read_run
from suite.launch.base import place_from_environment

STEPS = 4
CALLS = ("emm", "Matmul", "Forward", "Backward")
"""Of functions of cuBLAS and cuDNN that launch kernels."""
AHEAD = 3
"""Steps before those that are counted: allocations and first uses."""


def counts(device, path):
    """What the null device has counted since the last reset."""
    device.null_write(os.fsencode(path))
    lines = (line.rstrip("\n").split("\t") for line in path.read_text().splitlines())
    return collections.Counter({what: int(number) for number, what in lines})


def summed(counted, per):
    """Launches by all kernels and libraries together; copies, waits and bytes; each for one of `per`."""
    found = collections.Counter()
    for what, number in counted.items():
        kind, _, name = what.partition(" ")
        launches = kind == "kernel" or (kind == "call" and any(word in name for word in CALLS))
        found["launches" if launches else what] += number
        found["kernels of Triton"] += number * (what == "kernel of Triton")
    return {what: number / per for what, number in found.items() if not what.startswith(("call ", "peak"))}


def probed(folder, device, scratch):
    """Of a step and of an evaluation batch: counts, and the lines that waited, as PyTorch itself sees them."""
    run = read_run(folder / "run.json").seen_by_workers()
    workload = load_workload(run.settings.workload)(run.settings, run.facts)
    place = place_from_environment(run)
    trainer = load_trainer(run.settings.workload, run.settings.framework)(workload, place)
    waits = collections.Counter()

    def waited(message, *_, **__):
        lines = [one for one in traceback.extract_stack() if "/workloads/" in one.filename]
        if "synchroniz" in str(message) and lines:
            waits[f"{Path(lines[-1].filename).name}: {lines[-1].line}"] += 1

    warnings.showwarning = waited
    warnings.simplefilter("always")
    trainer.setup(workload.initial_weights(1), True)
    batches = workload.open_data(place, 1)
    stream = batches.train(0, 1 << 30)
    items = [next(stream) for _ in range(AHEAD + STEPS)]
    trainer.train(iter(items[:AHEAD]), 0)
    found = {"setup": {"peak_bytes": counts(device, scratch)["peak bytes"]}}
    torch.cuda.set_sync_debug_mode("warn")
    device.null_reset()
    for item in items[AHEAD:]:
        (batch,) = item
        trainer.step(batch, 1e-3)
    found["step"] = summed(counts(device, scratch), STEPS) | {"waits": dict(waits)}
    waits.clear()
    device.null_reset()
    for item in items[AHEAD:]:
        trainer.train([item], AHEAD)
    found["stretch"] = summed(counts(device, scratch), STEPS) | {"waits": dict(waits)}
    waits.clear()
    device.null_reset()
    evaluated = 0
    for _ in trainer.predict(batches.evaluation() if run.settings.profile != "synthetic" else ()):
        evaluated += 1
        if evaluated == 2:
            break
    found["evaluation"] = summed(counts(device, scratch), max(evaluated, 1)) | {"waits": dict(waits)}
    torch.cuda.set_sync_debug_mode("default")
    batches.close()
    trainer.close()
    return found


def main():
    out, *folders = map(Path, sys.argv[1:])
    os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_PORT="1")
    device = ctypes.CDLL(None)
    out.write_text(json.dumps({str(folder): probed(folder, device, out.with_suffix(".counts")) for folder in folders}))


if __name__ == "__main__":
    main()
