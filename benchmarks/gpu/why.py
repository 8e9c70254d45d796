"""Stage `why` for a workload: measure the effect of single changes on the step time.

    python -m benchmarks.gpu.why RUN_FOLDER

RUN_FOLDER is the folder of a run of stage `fast`, whose settings are used. The first variant of the
step is unchanged. The output is JSON with the step time and the longest kernels of each variant.
"""

from __future__ import annotations

import dataclasses
import gc
import itertools
import json
import statistics
from collections.abc import Callable
from typing import Any

from benchmarks.gpu.runs import ready, runs_from_command_line
from suite.common.registry import load_workload
from suite.common.runspec import RunSpec
from workloads.api import get_trainer

STEPS, AHEAD = 20, 10


def step_ms(run: RunSpec, profile: bool = False) -> dict[str, Any]:
    """Return the median time and the peak memory of a training step.

    The time is measured with CUDA events. With `profile`, the returned dictionary also contains the
    ten longest `kernels`, and `device_busy`: the total time of all kernels divided by the step
    time. `device_busy` is above 1 if kernels overlap.
    """
    import torch

    # Free the previous trainer, so that the measured peak memory is that of the current trainer
    # alone.
    gc.collect()
    torch.cuda.reset_peak_memory_stats()
    seconds: list[float] = []
    with ready(run) as (trainer, _, batches):
        items = list(itertools.islice(batches, AHEAD + STEPS))
        trainer.train(items[:AHEAD], 0)
        trainer.train(trainer.time_steps(iter(items[AHEAD:]), seconds), AHEAD)
        found: dict[str, Any] = {
            "step_ms": round(statistics.median(seconds) * 1e3, 3),
            "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2),
        }
        if profile:
            with torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CUDA]
            ) as profiler:
                trainer.train(items[:5], 0)
            milliseconds = {
                event.key: event.self_device_time_total / 5e3 for event in profiler.key_averages()
            }
            slowest = sorted(milliseconds, key=lambda key: -milliseconds[key])[:10]
            found["kernels"] = {key[:120]: round(milliseconds[key], 3) for key in slowest}
            found["device_busy"] = round(sum(milliseconds.values()) / found["step_ms"], 3)
    return found


def variants(run: RunSpec) -> dict[str, Callable[[], dict[str, Any]]]:
    """Map the name of each change to a function that measures a step with the change."""

    def with_settings(**changes: Any) -> Callable[[], dict[str, Any]]:
        return lambda: step_ms(
            dataclasses.replace(run, settings=dataclasses.replace(run.settings, **changes))
        )

    def with_options(**changes: Any) -> Callable[[], dict[str, Any]]:
        return with_settings(options={**run.settings.options, **changes})

    found: dict[str, Callable[[], dict[str, Any]]] = {
        "as it is": lambda: step_ms(run, profile=True)
    }
    if run.settings.workload in ("transformer", "gnmt", "maskrcnn"):
        found["without Triton's kernels"] = with_settings(kernels="off")
    if run.settings.workload == "transformer":
        found["with cuDNN's attention"] = with_options(cudnn_attention=True)
    trainer = get_trainer(load_workload(run.settings.workload), "pytorch")
    if run.settings.devices <= trainer.max_cuda_graph_devices:
        found["as a CUDA graph"] = with_settings(graphs="on")
    if "fused_norms" in run.settings.options:
        found["with fused norms"] = with_options(fused_norms="on")
    if "compile" in run.settings.options:
        found["compiled"] = with_options(compile="on")
    return found


def main() -> None:
    """Measure all variants of the step.

    All results so far are printed after each variant, because a later variant may hang.
    """
    for _, run in runs_from_command_line(__doc__):
        found: dict[str, Any] = {}
        for name, measure in variants(run).items():
            try:
                found[name] = measure()
            except Exception as error:  # continue with the other variants
                found[name] = {"error": f"{type(error).__name__}: {str(error).strip()[:300]}"}
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
