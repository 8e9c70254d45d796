"""List the devices of this machine without importing a framework."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import psutil

from suite.machine import sysfiles, visible

T = TypeVar("T")


@dataclass(frozen=True)
class Gpu:
    """A visible NVIDIA device."""

    name: str
    memory_bytes: int
    capability: str
    """Compute capability, such as `9.0`."""


def cpu_cores() -> tuple[int, ...]:
    """Return the numbers of the CPU cores that this process may use."""
    return tuple(sorted(os.sched_getaffinity(0)))


def cpu_model() -> str:
    """Return the model name of the processor, or the architecture if the model is unknown.

    On ARM, for example, the model name is unknown.
    """
    return sysfiles.cpu_model() or platform.processor() or platform.machine()


@contextlib.contextmanager
def nvml() -> Iterator[Any]:
    """Yield the initialized NVML module, or None if the driver is missing."""
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


def cuda_driver_version(library: Any) -> str | None:
    """Return the newest CUDA version that the driver supports, such as `13.0`.

    Returns None if NVML does not report the version.
    """
    try:
        version = library.nvmlSystemGetCudaDriverVersion()  # NVML returns 1000 x major + 10 x minor
    except library.NVMLError:
        return None
    return f"{version // 1000}.{version % 1000 // 10}"


def _visible_numbers(library: Any) -> list[int]:
    """Return the NVML indices of the devices in the inherited CUDA_VISIBLE_DEVICES.

    The indices have the order of CUDA_VISIBLE_DEVICES.
    """
    uuids = {}
    for number in range(library.nvmlDeviceGetCount()):
        uuids[number] = ""
        # a GPU that fell off the bus keeps its NVML index
        with contextlib.suppress(library.NVMLError):
            uuids[number] = library.nvmlDeviceGetUUID(library.nvmlDeviceGetHandleByIndex(number))
    return visible.chosen(uuids)


def _query_each(library: Any, query: Callable[[Any], T]) -> list[T]:
    """Call `query` with the handle of each visible device, and return the results.

    Raises:
        ValueError: A device does not respond, or is partitioned with MIG.
    """
    numbers, results = _visible_numbers(library), []
    for number in numbers:
        try:
            handle = library.nvmlDeviceGetHandleByIndex(number)
            results.append(query(handle))
        except library.NVMLError as error:
            raise visible.no_answer(number, numbers, str(error)) from None
        # A device without MIG does not support this call.
        with contextlib.suppress(library.NVMLError):
            if library.nvmlDeviceGetMigMode(handle)[0]:
                raise visible.unusable(number, numbers, visible.IN_PARTS)
    return results


def visible_handles(library: Any) -> list[Any]:
    """Return the NVML handles of the devices in the inherited CUDA_VISIBLE_DEVICES.

    The handles have the order of CUDA_VISIBLE_DEVICES.

    Raises:
        ValueError: A device does not respond, or is partitioned with MIG.
    """
    return _query_each(library, lambda handle: handle)


def gpus() -> list[Gpu]:
    """Return the NVIDIA devices in the inherited CUDA_VISIBLE_DEVICES, in the same order.

    Raises:
        ValueError: A device does not respond, or is partitioned with MIG.
    """
    with nvml() as library:
        if library is None:
            return []

        def query(handle: Any) -> Gpu:
            capability = "{}.{}".format(*library.nvmlDeviceGetCudaComputeCapability(handle))
            memory = int(library.nvmlDeviceGetMemoryInfo(handle).total)
            return Gpu(library.nvmlDeviceGetName(handle), memory, capability)

        return _query_each(library, query)


def hardware(visible_gpus: Sequence[Gpu] | None = None) -> dict[str, Any]:
    """Return the CPU, memory, and GPUs of this machine for run.json.

    Args:
        visible_gpus: Return value of `gpus`. If None, this function queries the GPUs, and lists no
            GPUs if a GPU does not respond.
    """
    if visible_gpus is None:
        visible_gpus = []
        with contextlib.suppress(ValueError):
            visible_gpus = gpus()
    return {
        "host": platform.node(),
        "cpu_model": cpu_model(),
        "cpu_cores": len(cpu_cores()),
        "memory_bytes": psutil.virtual_memory().total,
        "gpus": [
            {"name": gpu.name, "memory_bytes": gpu.memory_bytes, "capability": gpu.capability}
            for gpu in visible_gpus
        ],
        "os": platform.platform(),
    }
