"""Out of memory: a run that would exhaust the machine is ended before it does, and told which batch would fit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import psutil

from suite.common import registry
from suite.common.runspec import RunSpec
from suite.machine.cgroups import limits
from suite.plan.capacity import available_bytes, fitting_batch

LEFT_BYTES = 512 << 20
"""Memory that a run must leave the machine: a step takes a few hundred MB between two looks (0.1 s)."""
LEFT_SHARE = 0.03
"""The same as a share of the machine's memory, which counts where it is more."""
OWN_SHARE = 0.5
"""Share of the machine's memory that the run itself must hold to be ended: else others are to blame."""


def exhausts(pids: Iterable[int]) -> str:
    """Why a run with these processes must end now, or nothing. Only a glance while there is memory left."""
    machine = psutil.virtual_memory()
    if machine.available > max(LEFT_BYTES, LEFT_SHARE * machine.total):
        return ""
    taken = sum(map(_private_bytes, pids))
    if taken < OWN_SHARE * machine.total:
        return ""
    return (
        f"ended before the machine's memory was exhausted: {_gib(taken)} of {_gib(machine.total)} were taken by "
        f"this run, {_gib(machine.available)} were left"
    )


def _private_bytes(pid: int) -> int:
    with contextlib.suppress(psutil.Error):
        return int(psutil.Process(pid).memory_info().rss)
    return 0


def batch_advice(run: RunSpec) -> str:
    """What to type after a run that was out of memory, once its processes are gone."""
    settings = run.settings
    gpus = run.hardware.get("gpus")
    if settings.device == "cuda" and isinstance(gpus, list) and gpus:
        memory = settings.devices * min(int(gpu["memory_bytes"]) for gpu in gpus)
    else:
        memory = available_bytes(limits())
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


def _gib(count: float) -> str:
    return f"{count / 2**30:.1f} GiB"
