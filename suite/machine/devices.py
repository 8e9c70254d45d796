"""Which devices this machine has, asked without importing a framework."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psutil

from suite.machine import sysfiles
from workloads.api import Json


@dataclass(frozen=True)
class Gpu:
    """One visible NVIDIA device."""

    name: str
    memory_bytes: int
    capability: str
    """Compute capability, `9.0`."""


def cpu_cores() -> tuple[int, ...]:
    """Numbers of the CPU cores that this process may use."""
    return tuple(sorted(os.sched_getaffinity(0)))


def cpu_model() -> str:
    """The processor's name, or its architecture where it has none (ARM)."""
    return sysfiles.cpu_model() or platform.processor() or platform.machine()


@contextlib.contextmanager
def nvml() -> Iterator[Any]:
    """The NVML module, initialised; None where there is no driver."""
    try:
        import pynvml
    except ImportError:
        yield None
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def visible_handles(library: Any) -> list[Any]:
    """NVML handles of the devices inside the inherited CUDA_VISIBLE_DEVICES, in its order."""
    handles = [library.nvmlDeviceGetHandleByIndex(index) for index in range(library.nvmlDeviceGetCount())]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return handles
    chosen = []
    for word in visible.split(","):  # CUDA stops at the first entry that is not a device
        if not word.strip().isdigit() or int(word) >= len(handles):
            break
        chosen.append(handles[int(word)])
    return chosen


def gpus() -> list[Gpu]:
    """NVIDIA devices inside the inherited CUDA_VISIBLE_DEVICES, in its order."""
    with nvml() as library:
        if library is None:
            return []
        visible = []
        for handle in visible_handles(library):
            capability = "{}.{}".format(*library.nvmlDeviceGetCudaComputeCapability(handle))
            memory = int(library.nvmlDeviceGetMemoryInfo(handle).total)
            visible.append(Gpu(str(library.nvmlDeviceGetName(handle)), memory, capability))
        return visible


def hardware() -> dict[str, Json]:
    """CPU, memory and GPUs, for run.json."""
    return {
        "host": platform.node(),
        "cpu_model": cpu_model(),
        "cpu_cores": len(cpu_cores()),
        "memory_bytes": psutil.virtual_memory().total,
        "gpus": [{"name": gpu.name, "memory_bytes": gpu.memory_bytes, "capability": gpu.capability} for gpu in gpus()],
        "os": platform.platform(),
    }
