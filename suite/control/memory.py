"""Out of memory: what is said of a run that ended for it; suite/machine/exhaustion.py says when one must."""

from __future__ import annotations

import contextlib
from pathlib import Path

from suite.common import registry
from suite.common.runspec import RunSpec
from suite.plan.capacity import fitting_batch, memory_of_each, memory_of_each_gpu


def batch_advice(run: RunSpec) -> str:
    """What to type after a run that was out of memory, once its processes are gone."""
    settings = run.settings
    nodes = run.hardware.get("nodes")
    hardware = nodes if isinstance(nodes, list) else [run.hardware]
    of_gpus = settings.devices * memory_of_each_gpu(hardware) if settings.device == "cuda" else 0
    memory = of_gpus or settings.nodes * memory_of_each(hardware)
    batch = fitting_batch(registry.load_workload(settings.workload), settings, memory)
    if not batch:
        return "the batch cannot be smaller on these devices: end other programs, or take a machine with more memory"
    return f"a batch that should fit: batch=global:{batch} (it was {settings.batch_size_global})"


def log_to_read(folder: Path, name: str) -> str:
    """The name of the text log that says most about a process: its own, else another that is not empty."""
    others = sorted(folder.glob("*.log"), key=lambda path: path.name)
    for path in (folder / f"{name}.log", *others, folder / "telemetry.jsonl"):
        with contextlib.suppress(OSError):
            if path.stat().st_size:
                return path.name
    return f"{name}.log, which is empty"
