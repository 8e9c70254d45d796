"""What the doctor says about GPUs: what is there, who uses it, and whether a framework's build fits."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from suite.environments.environment import Environment
from suite.machine import devices, topology
from suite.machine.sysfiles import text
from suite.preflight.findings import Finding, impossible, ok, warning

BUILD_SECONDS = 120.0
"""Longest time for importing the framework; the first import from a slow disk takes a minute."""
USED_BYTES = 1 << 30
"""Memory in use on an idle device above which somebody else must be there; drivers take some hundred MB themselves."""
QUERIES = {
    "pytorch": """
import json, torch
print(json.dumps([torch.__version__, torch.version.cuda, torch.cuda.is_available(), torch.cuda.get_arch_list()]))
"""
}
"""Framework to what its environment's Python is asked."""


@dataclass(frozen=True)
class Build:
    """What a framework was built for."""

    version: str
    cuda: str | None
    """CUDA version, `13.0`; None: a CPU build."""
    available: bool
    """Whether the framework itself sees a GPU."""
    architectures: tuple[str, ...]
    """`sm_90`: machine code; `compute_90`: code that the driver translates for any newer device."""


def examine(count: int, framework: str, environment: Environment | None) -> list[Finding]:
    """Findings about the first `count` visible devices, and the framework's build where an environment is given."""
    with devices.nvml() as nvml:
        if nvml is None:
            loaded = text(Path("/proc/driver/nvidia/version")) is not None
            do = "start the container with its GPUs (docker: --gpus all)" if loaded else "install the NVIDIA driver"
            return [warning("devices", "no GPU: NVML does not answer", f"{do}, or type device=cpu")]
        driver_cuda = topology.cuda_driver_version(nvml)
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
    if framework not in QUERIES:
        return [ok("build", f"what {framework} was built for is not asked")]
    try:
        build = ask_build(tuple(environment.command("-c", QUERIES[framework])))
    except ValueError as error:
        do = f"type: suite env check {environment.name}"
        return [warning("build", f"environment {environment.name} does not say what it was built for: {error}", do)]
    capabilities = sorted({gpu.capability for gpu in devices.gpus()[:count]})
    return judge(f"{framework} {build.version}", build, capabilities, driver_cuda)


@functools.cache
def ask_build(command: tuple[str, ...]) -> Build:
    """What the framework that `command` starts was built for. Raises ValueError if it does not answer."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BUILD_SECONDS, check=True
        )
        version, cuda, available, architectures = json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or "").strip().splitlines()
        raise ValueError(lines[-1] if lines else f"exit code {error.returncode}") from error
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"no answer within {BUILD_SECONDS:g} s") from error
    except (OSError, ValueError, IndexError) as error:
        raise ValueError(str(error)) from error
    return Build(version, cuda, available, tuple(architectures))


def judge(name: str, build: Build, capabilities: Sequence[str], driver_cuda: str | None) -> list[Finding]:
    """A build against the devices and the driver."""
    if build.cuda is None:
        return [
            warning("build", f"{name} is a build for CPUs", "type environment=NAME with a CUDA build, or device=cpu")
        ]
    # A driver runs every minor version of the newest CUDA major version that it knows: CUDA Compatibility, section 2.
    if driver_cuda is not None and int(driver_cuda.partition(".")[0]) < int(build.cuda.partition(".")[0]):
        line = f"{name} is built for CUDA {build.cuda}, the driver ends at {driver_cuda}"
        return [warning("build", line, "update the driver, or type environment=NAME with an older build (torch-cu126)")]
    if not build.available:
        return [
            warning("build", f"{name} for CUDA {build.cuda} sees no GPU", "look at CUDA_VISIBLE_DEVICES and the driver")
        ]
    missing = [capability for capability in capabilities if not carries(build.architectures, capability)]
    if missing:
        line = (
            f"{name} has no code for compute capability {', '.join(missing)} (it has {' '.join(build.architectures)})"
        )
        return [warning("build", line, "type environment=NAME with a build for it; torch-cu126 is one for 7.0")]
    return [ok("build", f"{name} for CUDA {build.cuda} has code for {', '.join(capabilities)}")]


def carries(architectures: Sequence[str], capability: str) -> bool:
    """True if one of a build's targets runs on a device: machine code of its major version and no newer minor one, or
    code to translate of no newer version (CUDA C++ Programming Guide, sections "Binary" and "PTX Compatibility")."""
    major, minor = (int(part) for part in capability.split("."))
    for target in architectures:
        match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", target)
        if match is None:
            continue
        version, exact = (int(match[2]), int(match[3])), match[4] == "a"
        if exact:
            fits = version == (major, minor)
        elif match[1] == "compute" and not match[4]:
            fits = version <= (major, minor)
        else:
            fits = version[0] == major and version[1] <= minor
        if fits:
            return True
    return False
