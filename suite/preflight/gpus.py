"""Preflight checks of the GPUs.

The checks cover the visible devices, the processes on the devices, and the GPU support of the
installed framework.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from packaging.utils import canonicalize_name

from suite.common import registry
from suite.environments import captured_command, locks
from suite.environments.builds import Build
from suite.environments.environment import Environment
from suite.machine import devices
from suite.machine.sysfiles import text
from suite.machine.visible import UnusableGpuError
from suite.preflight.findings import Finding, impossible, ok, warning

BUILD_SECONDS = 120.0
"""Timeout for importing the framework, in seconds.

The first import from a slow disk can last a minute.
"""
USED_BYTES = 1 << 30
"""Device memory in bytes above which some process must be using the device.

Without any process, a driver uses several hundred MB of device memory.
"""


@dataclass(frozen=True)
class BuildInfo:
    """Version and build of a framework, and whether it can use a GPU."""

    version: str
    build: Build | None
    """GPU build of the framework, or None for a CPU-only build."""
    available: bool
    """True if the framework detects a GPU."""


def examine(count: int, framework: str, environment: Environment | None) -> list[Finding]:
    """Return findings about the first `count` visible devices and the framework's build.

    Args:
        count: Number of GPUs that the run uses.
        framework: Name of the framework.
        environment: Environment of the framework. If None, the build of the framework is not
            checked.
    """
    with devices.nvml() as nvml:
        if nvml is None:
            loaded = text(Path("/proc/driver/nvidia/version")) is not None
            do = (
                "start the container with its GPUs (docker: --gpus all)"
                if loaded
                else "install the NVIDIA driver"
            )
            return [
                warning(
                    "devices", "no GPU, because NVML is not available", f"{do}, or set device=cpu"
                )
            ]
        driver_cuda = devices.cuda_driver_version(nvml)
        try:
            handles = devices.visible_handles(nvml)
            findings = [_present(count, driver_cuda)]
        except UnusableGpuError as error:
            return [impossible("devices", error.problem, error.remedy)]
        findings += [
            finding
            for index, handle in enumerate(handles[:count])
            for finding in _used(nvml, index, handle)
        ]
    if environment is None:
        return findings
    return [*findings, *_fits(framework, environment, count, driver_cuda)]


def _present(count: int, driver_cuda: str | None) -> Finding:
    visible = devices.gpus()
    names = ", ".join(
        dict.fromkeys(
            f"{gpu.name} ({gpu.memory_bytes / 2**30:.0f} GiB, {gpu.capability})" for gpu in visible
        )
    )
    line = (
        f"{len(visible)} visible GPU(s): {names or 'none'}, driver for CUDA"
        f" {driver_cuda or 'unknown'}"
    )
    if len(visible) < count or not visible:
        return warning(
            "devices",
            line,
            (
                f"set gpus={len(visible)}, or check CUDA_VISIBLE_DEVICES"
                if visible
                else "set device=cpu"
            ),
        )
    return ok("devices", line)


def _used(nvml: Any, index: int, handle: Any) -> list[Finding]:
    """Return findings about the processes and the used memory of a device.

    The check is made before a run, so any process on the device is unrelated to the run.
    """
    topic, do = (
        f"device {index}",
        "end that process, or choose different devices with CUDA_VISIBLE_DEVICES",
    )
    try:
        running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        info = nvml.nvmlDeviceGetMemoryInfo(handle)
    except nvml.NVMLError as error:
        return [warning(topic, f"its use cannot be queried ({error})", "check it with nvidia-smi")]
    if running:
        names = ", ".join(f"{_name(process.pid)} (pid {process.pid})" for process in running)
        return [warning(topic, f"in use by {names}", do)]
    line = f"{info.used / 2**30:.1f} of {info.total / 2**30:.0f} GiB in use"
    if info.used > USED_BYTES:
        return [warning(topic, f"{line}, by a process that is not visible from here", do)]
    return [ok(topic, f"no other process, {line}")]


def _name(pid: int) -> str:
    """Return the name of a process, or `a process` if the process is not visible.

    A process outside the current container is not visible, for example.
    """
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).name()
    return "a process"


def _fits(
    framework: str, environment: Environment, count: int, driver_cuda: str | None
) -> list[Finding]:
    """Return the finding about a framework's build.

    The framework's query command reports the build. If the framework does not define a query
    command, the build is read from the lock file of the environment.
    """
    lock, kind = locks.framework_locks().get(environment.name), registry.load_framework(framework)
    if kind.build_info_script:
        try:
            build_info = query_build(tuple(environment.command("-c", kind.build_info_script)))
        except ValueError as error:
            do = f"run: suite env check {environment.name}"
            return [
                warning(
                    "build",
                    f"the framework build of environment {environment.name} cannot be queried:"
                    f" {error}",
                    do,
                )
            ]
    elif lock is not None:
        build_info = BuildInfo(
            lock.pins(lock.python_last)[canonicalize_name(lock.framework)], lock.build, True
        )
    else:
        return [ok("build", f"the build of {framework} is not known")]
    capabilities = sorted({gpu.capability for gpu in devices.gpus()[:count]})
    environments = [environment.name, kind.environments["cuda"], *kind.other_gpu_environments]
    suitable = locks.suiting(environments, capabilities, driver_cuda)
    instead = f"set environment={suitable}" if suitable != environment.name else ""
    return [
        check_build(
            f"{framework} {build_info.version}", build_info, capabilities, driver_cuda, instead
        )
    ]


@functools.cache
def query_build(command: tuple[str, ...]) -> BuildInfo:
    """Return the build that a framework's query command prints.

    Raises:
        ValueError: The command fails, or its output is not valid.
    """
    answered = captured_command.captured(command, BUILD_SECONDS)
    if answered.code != 0:
        raise ValueError(answered.why)
    try:
        version, cuda, available, architectures = json.loads(answered.out.splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise ValueError(str(error)) from error
    return BuildInfo(version, Build(cuda, tuple(architectures)) if cuda else None, available)


def check_build(
    name: str,
    build_info: BuildInfo,
    capabilities: Sequence[str],
    driver_cuda: str | None,
    instead: str = "",
) -> Finding:
    """Return the finding about a framework build on these devices with this driver.

    Args:
        name: Name and version of the framework, for the message.
        build_info: Build of the framework.
        capabilities: Compute capabilities of the devices, such as `9.0`.
        driver_cuda: Highest CUDA version that the driver supports, or None if the version is
            unknown.
        instead: Remedy that selects an environment with a suitable build. Empty if no environment
            has a suitable build.
    """
    if build_info.build is None:
        return impossible("build", f"{name} is a build for CPUs", instead or "set device=cpu")
    if why := build_info.build.why_not(capabilities, driver_cuda):
        remedy = (
            "update the driver"
            if build_info.build.needs_newer_driver(driver_cuda)
            else "set device=cpu"
        )
        return impossible("build", f"{name} {why}", instead or remedy)
    if not build_info.available:
        do = "check CUDA_VISIBLE_DEVICES and the driver, or set device=cpu"
        return impossible("build", f"{name} for CUDA {build_info.build.cuda} detects no GPU", do)
    return ok(
        "build", f"{name} for CUDA {build_info.build.cuda} has code for {', '.join(capabilities)}"
    )
