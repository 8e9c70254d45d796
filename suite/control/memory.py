"""Advice for a run that ran out of memory.

The module also selects the log that the user should read. suite/machine/exhaustion.py decides when
a run that exhausts the memory ends.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from suite.common import registry
from suite.common.runspec import RunSpec
from suite.plan.capacity import fitting_batch, memory_of_each, memory_of_each_gpu


def batch_advice(run: RunSpec) -> str:
    """Return advice on the batch size after a run that ran out of memory.

    Call this function after the processes of the run have ended.
    """
    settings = run.settings
    nodes = run.hardware.get("nodes")
    hardware = nodes if isinstance(nodes, list) else [run.hardware]
    gpu_memory = settings.devices * memory_of_each_gpu(hardware) if settings.device == "cuda" else 0
    memory = gpu_memory or settings.nodes * memory_of_each(hardware)
    batch = fitting_batch(registry.load_workload(settings.workload), settings, memory)
    if not batch:
        return (
            "the batch cannot be smaller on these devices: end programs that use memory, or use a"
            " machine with more memory"
        )
    return f"a batch that should fit: batch=global:{batch} (it was {settings.global_batch_size})"


def log_to_read(folder: Path, name: str) -> str:
    """Return the name of the text log that the user should read about a process.

    If the log of the process is empty, the first log that is not empty is returned.
    """
    logs = sorted(folder.glob("*.log"), key=lambda path: path.name)
    for path in (folder / f"{name}.log", *logs, folder / "telemetry.jsonl"):
        with contextlib.suppress(OSError):
            if path.stat().st_size:
                return path.name
    return f"{name}.log, which is empty"
