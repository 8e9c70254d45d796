"""Checks for conditions that prevent a run or distort its measured times.

Each finding is a line with a remedy.

`preflight` runs the checks before every job, and `suite doctor` runs the checks on request. For a
run on CPU cores, the checks take 0.1 s and do not import a framework.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from suite.environments.environment import Environment
from suite.machine import cpu_load, devices, topology
from suite.machine.cgroups import Limits, container, limits
from suite.plan.capacity import available_bytes
from suite.preflight import gpus as gpucheck
from suite.preflight.findings import Finding, impossible, ok, warning

if TYPE_CHECKING:
    from suite.plan.job import Job

MINIMUM_DISK_MB = 200
"""Free disk space in MB that a run needs to start.

A run that fills the disk would lose its log. The environment variable SUITE_MINIMUM_DISK_MB
overrides this default.
"""
SCANT_DISK_BYTES = 10**9
"""Free disk space in bytes below which a run starts with a warning."""
MEMORY_PER_PROCESS_BYTES = 1 << 30
"""Memory in bytes that a worker process needs for its framework and a small model."""
BUSY_PERCENT = 25.0
"""CPU load in percent above which measured times are unreliable. Only the load of unrelated
processes on the run's cores is measured.
"""


@dataclass(frozen=True)
class Resources:
    """Resources that a run will use."""

    device: str
    """`cpu` or `cuda`."""
    devices: int
    processes: int
    """Number of worker processes."""
    cores: tuple[int, ...]
    """CPU cores to which the workers are pinned. Without pinning, the CPU cores that the workers
    may use.
    """
    folder: Path
    """Folder for the logs. The folder may not exist yet."""
    framework: str
    environment: Environment | None = None
    """Environment of the framework. If None, the environment is not checked."""


def required_resources(job: Job) -> Resources:
    """Return the resources that the runs of a job use."""
    settings = job.template.settings
    cores = job.template.cores or devices.cpu_cores()
    if settings.device == "cpu":
        cores = cores[: settings.devices * settings.cores_per_device]
    processes = job.framework.process_count(settings.devices, settings.device, settings.update)
    resources = (settings.device, settings.devices, processes, cores, job.folder)
    return Resources(*resources, settings.framework, job.environment)


def warnings_before(job: Job, on_agents: bool) -> list[str]:
    """Return the warnings before a job, one line per warning.

    Args:
        job: The job that is about to start.
        on_agents: True if the job runs on agents. Each agent checks its local machine, so only the
            log folder is checked here.

    Raises:
        ValueError: The job cannot run.
    """
    return preflight_of_logs(job.folder) if on_agents else preflight(required_resources(job))


def preflight(need: Resources) -> list[str]:
    """Return the warnings before a run, one line per warning.

    Raises:
        ValueError: The run is impossible. The message is a single line.
    """
    return _warnings(examine(need))


def preflight_of_logs(folder: Path) -> list[str]:
    """Return the warnings before a run that writes only its logs on this machine.

    Raises:
        ValueError: The logs cannot be written. The message is a single line.
    """
    return _warnings([disk(folder)])


def _warnings(findings: list[Finding]) -> list[str]:
    for finding in findings:
        if finding.level == "impossible":
            raise ValueError(finding.line)
    return [finding.line for finding in findings if finding.level == "warning"]


def examine(need: Resources) -> list[Finding]:
    """Return the findings of all checks, including those with the level `ok`."""
    allowed = limits()
    findings = [
        disk(need.folder),
        memory(need.processes, allowed),
        load(need.cores),
        governor(),
        confinement(need, allowed),
    ]
    if need.device == "cuda":
        return [*gpucheck.examine(need.devices, need.framework, need.environment), *findings]
    model = devices.cpu_model()
    return [
        ok("devices", f"{len(need.cores)} core(s) of {model}, {len(devices.cpu_cores())} allowed"),
        *findings,
    ]


def disk(folder: Path) -> Finding:
    """Check the free disk space for the logs, and whether the log folder is writable."""
    minimum = _minimum_disk_mb()
    place = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=place) as stream:
            stream.write(b"x")
        free = shutil.disk_usage(place).free
    except OSError as error:
        text = f"{place} cannot be written ({error.strerror or error})"
        return impossible(
            "disk", text, "set output=FOLDER or SUITE_LOG_DIR to a folder that can be written"
        )
    text = f"{free // 10**6:,} MB free at {place}"
    do = "free some disk space, or set output=FOLDER to a folder on a different disk"
    if free < minimum * 10**6:
        return impossible("disk", f"{text}, but a run needs {minimum:g} MB", do)
    return warning("disk", text, do) if free < SCANT_DISK_BYTES else ok("disk", text)


def _minimum_disk_mb() -> float:
    minimum = os.environ.get("SUITE_MINIMUM_DISK_MB") or str(MINIMUM_DISK_MB)
    try:
        return float(minimum)
    except ValueError:
        raise ValueError(
            f"SUITE_MINIMUM_DISK_MB={minimum}: expected a number of megabytes, for example 50"
        ) from None


def memory(processes: int, allowed: Limits) -> Finding:
    """Check whether the workers fit into the memory of the machine and of the cgroup."""
    available = available_bytes(allowed)
    text = f"{_gib(available)} available for {processes} worker process(es)"
    if available < processes * MEMORY_PER_PROCESS_BYTES:
        return warning(
            "memory",
            text,
            "end other programs or use fewer devices, because the run may end with the status oom",
        )
    return ok("memory", text)


def load(cores: tuple[int, ...]) -> Finding:
    """Measure the current load of unrelated processes on the run's cores."""
    percent = cpu_load.busy_percent(cores)
    if percent is None:
        return ok("load", "not reported by this kernel")
    cores_text = "core is" if len(cores) == 1 else f"{len(cores)} cores are"
    text = f"the run's {cores_text} {percent:.0f} % busy"
    if percent < BUSY_PERCENT:
        return ok("load", text)
    names = (
        ", ".join(cpu_load.busiest(cores))
        or "no visible process, possibly a process of a different container"
    )
    spare = cpu_load.free(
        [core for core in devices.cpu_cores() if core not in cores], BUSY_PERCENT
    )[: len(cores)]
    elsewhere = (
        f", or use free cores (taskset -c {','.join(map(str, spare))} COMMAND)"
        if len(spare) == len(cores)
        else ""
    )
    return warning(
        "load",
        f"{text}: {names}",
        f"end these processes or wait{elsewhere}. Otherwise times will be too long",
    )


def governor() -> Finding:
    """Check whether the CPU frequency governor keeps the cores at full clock rate."""
    names = sorted(topology.governors())
    if not names:
        return ok("governor", "not reported by this kernel, as usual in a virtual machine")
    text = f"CPU frequency governor {', '.join(names)}"
    if names == ["performance"]:
        return ok("governor", text)
    return warning(
        "governor", text, "for steady times, run: sudo cpupower frequency-set -g performance"
    )


def confinement(need: Resources, allowed: Limits) -> Finding:
    """Check whether a container's CPU quota is sufficient for the run."""
    kind = container()
    text = f"in a container ({kind})" if kind else "no sign of a container"
    quota = allowed.cpu_quota_cores
    if allowed.memory_limit_bytes is not None:
        text += f", memory limit {_gib(allowed.memory_limit_bytes)}"
    if quota is None:
        return ok("container", f"{text}, no CPU quota")
    text += f", CPU quota {quota:g} core(s)"
    if need.device == "cpu" and quota < len(need.cores):
        do = f"raise the quota (docker: --cpus {len(need.cores)}), or use fewer devices or cores"
        return warning("container", f"{text} for a run on {len(need.cores)}", do)
    return ok("container", text)


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
