"""Stage 4 for one workload: milliseconds of a step as it is, and with one thing changed at a time; its longest kernels. JSON.

python -m benchmarks.gpu.why RUN_FOLDER      a folder that a run of stage 3 has left: its settings are taken
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from suite.common.registry import load_trainer, load_workload
from suite.common.runspec import RunSpec, read_run
from suite.launch.base import place_from_environment
from workloads.frameworks.pytorch import kernels

STEPS, AHEAD = 20, 10


def step_ms(run: RunSpec, profile: bool = False) -> dict[str, Any]:
    """Median of a step by CUDA's events, its own peak memory; with `profile` the ten kernels that take longest, and which share
    of a step all kernels together take (`device_busy`; above 1 where kernels run side by side)."""
    gc.collect()  # what was measured before is gone, and its peak is not this one's
    torch.cuda.reset_peak_memory_stats()
    workload: Any = load_workload(run.settings.workload)(run.settings, run.facts)
    place = place_from_environment(run)
    trainer: Any = load_trainer(run.settings.workload, "pytorch")(workload, place)
    trainer.setup(workload.initial_weights(1), True)
    data = workload.open_data(place, 1)
    stream = data.train(0, 1 << 30)
    items = [next(stream) for _ in range(AHEAD + STEPS)]
    trainer.train(iter(items[:AHEAD]), 0)
    seconds: list[float] = []
    trainer.train(trainer.marked(iter(items[AHEAD:]), seconds), AHEAD)
    found: dict[str, Any] = {
        "step_ms": round(statistics.median(seconds) * 1e3, 3),
        "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2),
    }
    if profile:
        activities = [torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profiler:
            trainer.train(iter(items[:5]), 0)
        milliseconds = {one.key: one.self_device_time_total / 5e3 for one in profiler.key_averages()}
        slowest = sorted(milliseconds, key=lambda key: -milliseconds[key])[:10]
        found["kernels"] = {key[:120]: round(milliseconds[key], 3) for key in slowest}
        found["device_busy"] = round(sum(milliseconds.values()) / found["step_ms"], 3)
    data.close()
    trainer.close()
    return found


def variants(run: RunSpec) -> dict[str, Callable[[], dict[str, Any]]]:
    """Name of a change to what measures with it."""

    def with_options(**changes: Any) -> Callable[[], dict[str, Any]]:
        settings = dataclasses.replace(run.settings, options={**run.settings.options, **changes})
        return lambda: step_ms(dataclasses.replace(run, settings=settings))

    def without_kernels() -> dict[str, Any]:
        usable, kernels.usable = kernels.usable, lambda: False  # type: ignore[assignment]
        try:
            return step_ms(run)
        finally:
            kernels.usable = usable

    graphed = dataclasses.replace(run.settings, graphs="on")
    found: dict[str, Callable[[], dict[str, Any]]] = {"as it is": lambda: step_ms(run, profile=True)}
    if run.settings.workload in ("transformer", "gnmt", "maskrcnn"):
        found["without Triton's kernels"] = without_kernels
    if run.settings.workload == "transformer":
        found["with cuDNN's attention"] = with_options(cudnn_attention=True)
    if run.settings.devices <= load_workload(run.settings.workload).graph_devices:
        found["as a CUDA graph"] = lambda: step_ms(dataclasses.replace(run, settings=graphed))
    if "fused_norms" in run.settings.options:
        found["with fused norms"] = with_options(fused_norms="on")
    if "compile" in run.settings.options:
        found["compiled"] = with_options(compile="on")
    return found


def main() -> None:
    """Print what was found, after each variant all until then: the next one may be what never ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    run = read_run(parser.parse_args().run / "run.json").seen_by_workers()
    os.environ.update({"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": "1"})
    found: dict[str, Any] = {}
    for name, measure in variants(run).items():
        try:
            found[name] = measure()
        except Exception as error:  # the others are worth their answers
            found[name] = {"error": f"{type(error).__name__}: {str(error).strip()[:300]}"}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
