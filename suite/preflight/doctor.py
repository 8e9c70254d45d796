"""What stands in the way of a run, or would make its times wrong: one line each, with what to do.

`preflight` looks before every job, `suite doctor` at any time. On a CPU no framework is started, and it takes 0.1 s.
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
"""A run whose log cannot be written to its end is lost; below this it does not start (SUITE_MINIMUM_DISK_MB overrides)."""
SCANT_DISK_BYTES = 10**9
MEMORY_PER_PROCESS_BYTES = 1 << 30
"""What a worker takes with nothing but its framework and a small model."""
BUSY_PERCENT = 25.0
"""Use of the run's cores by others, above which times are not to be trusted."""


@dataclass(frozen=True)
class Need:
    """What a run is going to use."""

    device: str
    """`cpu` or `cuda`."""
    devices: int
    processes: int
    """Worker processes."""
    cores: tuple[int, ...]
    """CPU cores that the workers are pinned to, or may use."""
    folder: Path
    """Where logs are written; it need not exist yet."""
    framework: str
    environment: Environment | None = None
    """None: not known, nothing is asked of it."""


def need_of(job: Job) -> Need:
    """What the runs of a job use."""
    settings = job.template.settings
    cores = job.template.cores or devices.cpu_cores()
    if settings.device == "cpu":
        cores = cores[: settings.devices * settings.cores_per_device]
    processes = job.framework.process_count(settings.devices, settings.device, settings.update)
    where = (settings.device, settings.devices, processes, cores, job.folder)
    return Need(*where, settings.framework, job.environment)


def warnings_before(job: Job, on_agents: bool) -> list[str]:
    """Return the warnings before a job, one line each. With agents, each of them checks its own machine.

    Raises:
        ValueError: The job cannot run.
    """
    return preflight_of_logs(job.folder) if on_agents else preflight(need_of(job))


def preflight(need: Need) -> list[str]:
    """The warnings before a run, one line each. Raises ValueError, in one line, if the run is impossible."""
    return _warnings(examine(need))


def preflight_of_logs(folder: Path) -> list[str]:
    """The same for a run whose logs alone come to this machine."""
    return _warnings([disk(folder)])


def _warnings(findings: list[Finding]) -> list[str]:
    for finding in findings:
        if finding.level == "impossible":
            raise ValueError(finding.line)
    return [finding.line for finding in findings if finding.level == "warning"]


def examine(need: Need) -> list[Finding]:
    """Everything that is looked at, good or not."""
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
    return [ok("devices", f"{len(need.cores)} core(s) of {model}, {len(devices.cpu_cores())} allowed"), *findings]


def disk(folder: Path) -> Finding:
    """Free space where the logs go, and whether a file can be written there."""
    minimum = _minimum_disk_mb()
    place = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=place) as stream:
            stream.write(b"x")
        free = shutil.disk_usage(place).free
    except OSError as error:
        text = f"{place} cannot be written ({error.strerror or error})"
        return impossible("disk", text, "type output=FOLDER or set SUITE_LOG_DIR to a folder that can")
    text = f"{free // 10**6:,} MB free at {place}"
    do = "free some, or type output=FOLDER on another disk"
    if free < minimum * 10**6:
        return impossible("disk", f"{text}, a run needs {minimum:g} MB", do)
    return warning("disk", text, do) if free < SCANT_DISK_BYTES else ok("disk", text)


def _minimum_disk_mb() -> float:
    given = os.environ.get("SUITE_MINIMUM_DISK_MB") or str(MINIMUM_DISK_MB)
    try:
        return float(given)
    except ValueError:
        raise ValueError(f"SUITE_MINIMUM_DISK_MB={given}: a number of megabytes is needed, for example 50") from None


def memory(processes: int, allowed: Limits) -> Finding:
    """Memory that the machine and the control group have left, against the number of worker processes."""
    available = available_bytes(allowed)
    text = f"{_gib(available)} available for {processes} worker process(es)"
    if available < processes * MEMORY_PER_PROCESS_BYTES:
        return warning("memory", text, "end other programs, or take fewer devices; the run may end as oom")
    return ok("memory", text)


def load(cores: tuple[int, ...]) -> Finding:
    """What others do on the run's cores at this moment."""
    percent = cpu_load.busy_percent(cores)
    if percent is None:
        return ok("load", "not told by this kernel")
    cores_text = "core is" if len(cores) == 1 else f"{len(cores)} cores are"
    text = f"the run's {cores_text} {percent:.0f} % busy"
    if percent < BUSY_PERCENT:
        return ok("load", text)
    names = ", ".join(cpu_load.busiest(cores)) or "no process to be seen, perhaps of another container"
    spare = cpu_load.free([core for core in devices.cpu_cores() if core not in cores], BUSY_PERCENT)[: len(cores)]
    elsewhere = (
        f", or take free ones (taskset -c {','.join(map(str, spare))} COMMAND)" if len(spare) == len(cores) else ""
    )
    return warning("load", f"{text}: {names}", f"end these processes or wait{elsewhere}, or times will be too long")


def governor() -> Finding:
    """Whether the CPU runs at full clock."""
    names = sorted(topology.governors())
    if not names:
        return ok("governor", "not told by this kernel, as usual in a virtual machine")
    text = f"CPU frequency governor {', '.join(names)}"
    if names == ["performance"]:
        return ok("governor", text)
    return warning("governor", text, "for steady times type: sudo cpupower frequency-set -g performance")


def confinement(need: Need, allowed: Limits) -> Finding:
    """Container or not, and whether its CPU quota is enough."""
    kind = container()
    text = f"in a container ({kind})" if kind else "no sign of a container"
    quota = allowed.cpu_quota_cores
    if allowed.memory_limit_bytes is not None:
        text += f", memory limit {_gib(allowed.memory_limit_bytes)}"
    if quota is None:
        return ok("container", f"{text}, no CPU quota")
    text += f", CPU quota {quota:g} core(s)"
    if need.device == "cpu" and quota < len(need.cores):
        do = f"raise the quota (docker: --cpus {len(need.cores)}), or take fewer devices or cores"
        return warning("container", f"{text} for a run on {len(need.cores)}", do)
    return ok("container", text)


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
