"""Which devices this machine has, asked without importing a framework."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import psutil

from suite.machine import sysfiles, visible

T = TypeVar("T")


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


def cuda_driver_version(library: Any) -> str | None:
    """The newest CUDA version that the driver knows: `13.0`; None: it does not say."""
    try:
        version = library.nvmlSystemGetCudaDriverVersion()  # 1000 x major + 10 x minor
    except library.NVMLError:
        return None
    return f"{version // 1000}.{version % 1000 // 10}"


def _visible_numbers(library: Any) -> list[int]:
    """The driver's numbers of the devices inside the inherited CUDA_VISIBLE_DEVICES, in its order."""
    uuids = {}
    for number in range(library.nvmlDeviceGetCount()):
        uuids[number] = ""
        with contextlib.suppress(library.NVMLError):  # a device that is lost has its number still
            uuids[number] = library.nvmlDeviceGetUUID(library.nvmlDeviceGetHandleByIndex(number))
    return visible.chosen(uuids)


def _of_each(library: Any, ask: Callable[[Any], T]) -> list[T]:
    """What `ask` gives for the handle of each visible device. Raises ValueError that names one which does not answer."""
    numbers, answers = _visible_numbers(library), []
    for number in numbers:
        try:
            handle = library.nvmlDeviceGetHandleByIndex(number)
            answers.append(ask(handle))
        except library.NVMLError as error:
            raise visible.no_answer(number, numbers, str(error)) from None
        with contextlib.suppress(library.NVMLError):  # one that cannot be cut does not know the question
            if library.nvmlDeviceGetMigMode(handle)[0]:
                raise visible.unusable(number, numbers, visible.IN_PARTS)
    return answers


def visible_handles(library: Any) -> list[Any]:
    """NVML handles of the devices inside the inherited CUDA_VISIBLE_DEVICES, in its order. Raises ValueError."""
    return _of_each(library, lambda handle: handle)


def gpus() -> list[Gpu]:
    """NVIDIA devices inside the inherited CUDA_VISIBLE_DEVICES, in its order. Raises ValueError for one without an answer."""
    with nvml() as library:
        if library is None:
            return []

        def ask(handle: Any) -> Gpu:
            capability = "{}.{}".format(*library.nvmlDeviceGetCudaComputeCapability(handle))
            memory = int(library.nvmlDeviceGetMemoryInfo(handle).total)
            return Gpu(library.nvmlDeviceGetName(handle), memory, capability)

        return _of_each(library, ask)


def hardware() -> dict[str, Any]:
    """CPU, memory and GPUs, for run.json. GPUs that do not answer are none: whoever wants to run on them has asked before."""
    listed: list[Gpu] = []
    with contextlib.suppress(ValueError):
        listed = gpus()
    return {
        "host": platform.node(),
        "cpu_model": cpu_model(),
        "cpu_cores": len(cpu_cores()),
        "memory_bytes": psutil.virtual_memory().total,
        "gpus": [{"name": gpu.name, "memory_bytes": gpu.memory_bytes, "capability": gpu.capability} for gpu in listed],
        "os": platform.platform(),
    }
