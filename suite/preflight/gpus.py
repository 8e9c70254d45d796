"""What the doctor says about GPUs: what is there, who uses it, and whether a framework's build fits."""

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
from suite.environments import answers, locks
from suite.environments.builds import Build
from suite.environments.environment import Environment
from suite.machine import devices
from suite.machine.sysfiles import text
from suite.preflight.findings import Finding, impossible, ok, warning

BUILD_SECONDS = 120.0
"""Longest time for importing the framework; the first import from a slow disk takes a minute."""
USED_BYTES = 1 << 30
"""Memory in use on an idle device above which somebody else must be there; drivers take some hundred MB themselves."""


@dataclass(frozen=True)
class Answer:
    """What a framework says of itself."""

    version: str
    build: Build | None
    """None: for CPUs."""
    available: bool
    """Whether the framework itself sees a GPU."""


def examine(count: int, framework: str, environment: Environment | None) -> list[Finding]:
    """Findings about the first `count` visible devices, and the framework's build where an environment is given."""
    with devices.nvml() as nvml:
        if nvml is None:
            loaded = text(Path("/proc/driver/nvidia/version")) is not None
            do = "start the container with its GPUs (docker: --gpus all)" if loaded else "install the NVIDIA driver"
            return [warning("devices", "no GPU: NVML does not answer", f"{do}, or type device=cpu")]
        driver_cuda = devices.cuda_driver_version(nvml)
        try:
            handles = devices.visible_handles(nvml)
            findings = [_present(count, driver_cuda)]
        except ValueError as error:  # a device that does not answer
            line, _, do = str(error).partition("; ")
            return [impossible("devices", line, do)]
        findings += [finding for index, handle in enumerate(handles[:count]) for finding in _used(nvml, index, handle)]
    if environment is None:
        return findings
    return [*findings, *_fits(framework, environment, count, driver_cuda)]


def _present(count: int, driver_cuda: str | None) -> Finding:
    visible = devices.gpus()
    names = ", ".join(
        dict.fromkeys(f"{gpu.name} ({gpu.memory_bytes / 2**30:.0f} GiB, {gpu.capability})" for gpu in visible)
    )
    line = f"{len(visible)} visible GPU(s): {names or 'none'}; driver for CUDA {driver_cuda or 'unknown'}"
    if len(visible) < count or not visible:
        return warning(
            "devices",
            line,
            f"type gpus={len(visible)}, or look at CUDA_VISIBLE_DEVICES" if visible else "type device=cpu",
        )
    return ok("devices", line)


def _used(nvml: Any, index: int, handle: Any) -> list[Finding]:
    """Other processes on a device, and memory that is taken. No process of ours is on it before a run."""
    topic, do = f"device {index}", "end that, or choose other devices with CUDA_VISIBLE_DEVICES"
    try:
        running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        info = nvml.nvmlDeviceGetMemoryInfo(handle)
    except nvml.NVMLError as error:
        return [warning(topic, f"its use cannot be asked ({error})", "look with nvidia-smi")]
    if running:
        names = ", ".join(f"{_name(process.pid)} (pid {process.pid})" for process in running)
        return [warning(topic, f"in use by {names}", do)]
    line = f"{info.used / 2**30:.1f} of {info.total / 2**30:.0f} GiB in use"
    if info.used > USED_BYTES:
        return [warning(topic, f"{line}, by a process that is not to be seen from here", do)]
    return [ok(topic, f"no other process, {line}")]


def _name(pid: int) -> str:
    """A process's name, where it can be seen from here."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).name()
    return "a process"


def _fits(framework: str, environment: Environment, count: int, driver_cuda: str | None) -> list[Finding]:
    """A framework that can be asked says what it was built for; of the others the lock of their environment does."""
    lock, kind = locks.framework_locks().get(environment.name), registry.load_framework(framework)
    if kind.build_query:
        try:
            answer = ask_build(tuple(environment.command("-c", kind.build_query)))
        except ValueError as error:
            do = f"type: suite env check {environment.name}"
            return [warning("build", f"environment {environment.name} does not say what it was built for: {error}", do)]
    elif lock is not None:
        answer = Answer(lock.pins(lock.python_last)[canonicalize_name(lock.framework)], lock.build, True)
    else:
        return [ok("build", f"what {framework} was built for is not known")]
    capabilities = sorted({gpu.capability for gpu in devices.gpus()[:count]})
    others = [environment.name, kind.environments["cuda"], *kind.other_gpu_environments]
    other = locks.suiting(others, capabilities, driver_cuda)
    instead = f"type environment={other}" if other != environment.name else ""
    return [judge(f"{framework} {answer.version}", answer, capabilities, driver_cuda, instead)]


@functools.cache
def ask_build(command: tuple[str, ...]) -> Answer:
    """What the framework that `command` starts was built for. Raises ValueError if it does not answer."""
    answered = answers.answer(command, BUILD_SECONDS)
    if answered.code != 0:
        raise ValueError(answered.why)
    try:
        version, cuda, available, architectures = json.loads(answered.out.splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise ValueError(str(error)) from error
    return Answer(version, Build(cuda, tuple(architectures)) if cuda else None, available)


def judge(
    name: str, answer: Answer, capabilities: Sequence[str], driver_cuda: str | None, instead: str = ""
) -> Finding:
    """A build against the devices and the driver; `instead`: what to type for one that suits them."""
    if answer.build is None:
        return impossible("build", f"{name} is a build for CPUs", instead or "type device=cpu")
    if why := answer.build.why_not(capabilities, driver_cuda):
        remedy = "update the driver" if answer.build.needs_newer_driver(driver_cuda) else "type device=cpu"
        return impossible("build", f"{name} {why}", instead or remedy)
    if not answer.available:
        do = "look at CUDA_VISIBLE_DEVICES and the driver, or type device=cpu"
        return impossible("build", f"{name} for CUDA {answer.build.cuda} sees no GPU", do)
    return ok("build", f"{name} for CUDA {answer.build.cuda} has code for {', '.join(capabilities)}")
