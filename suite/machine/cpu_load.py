"""Who is using certain CPU cores right now, from two looks at the machine a tenth of a second apart."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from suite.machine.sysfiles import online_cpus

LOOK_SECONDS = 0.1
TAKEN_LOOKS = 5
NAMED_PROCESSES = 3
ROOT = Path("/")

CoreSeconds = dict[int, tuple[float, float, float]]
"""Core to (busy, stolen, all) CPU seconds since boot; stolen ones, which a hypervisor gave to others, are busy too."""


def busy_percent(cores: Sequence[int], root: Path = ROOT) -> float | None:
    """Use of these cores on average, 0 to 100; None where the kernel does not tell. `root` is where /sys is found."""
    used = _used(cores, root)
    total = sum(seconds for _, seconds in used.values())
    return 100 * max(0.0, sum(busy for busy, _ in used.values())) / total if total > 0 else None


def cores_taken(cores: Sequence[int], looks: int = TAKEN_LOOKS, root: Path = ROOT) -> int:
    """How many of these cores others use all the time: the least of several looks, so that what lasts a moment does not count.

    The caller does nothing meanwhile. 0 where the kernel does not tell.
    """
    return min(
        round(sum(busy / every for busy, every in _used(cores, root).values() if every > 0)) for _ in range(looks)
    )


def free(cores: Sequence[int], most_percent: float, root: Path = ROOT) -> list[int]:
    """Those of these cores that are used at most so much."""
    used = _used(cores, root).items()
    return [core for core, (busy, seconds) in used if seconds > 0 and 100 * busy / seconds <= most_percent]


def _used(cores: Sequence[int], root: Path) -> dict[int, tuple[float, float]]:
    """Core to (busy, all) CPU seconds of a tenth of a second; cores of which the kernel does not tell are left out."""
    before = core_seconds(root)
    time.sleep(LOOK_SECONDS)
    after = core_seconds(root)
    known = [core for core in cores if core in before and core in after]
    return {core: (after[core][0] - before[core][0], after[core][2] - before[core][2]) for core in known}


def busiest(cores: Sequence[int]) -> list[str]:
    """The processes that use these cores most: `name (pid 1) 90 %` (100: one core), at most NAMED_PROCESSES."""
    before = {pid: seconds for pid, (seconds, _, _) in _process_seconds().items()}
    time.sleep(LOOK_SECONDS)
    used = [
        (seconds - before[pid], pid, name)
        for pid, (seconds, core, name) in _process_seconds().items()
        if pid in before and core in cores and pid != os.getpid()
    ]
    top = sorted(used, reverse=True)[:NAMED_PROCESSES]
    return [f"{name} (pid {pid}) {100 * seconds / LOOK_SECONDS:.0f} %" for seconds, pid, name in top if seconds > 0]


def core_seconds(root: Path = ROOT) -> CoreSeconds:
    """Waiting for input and output is idle; time that a hypervisor took away is busy; user and nice hold the guests' times."""
    try:
        times = psutil.cpu_times(percpu=True)
    except OSError:
        return {}
    # psutil lists the online CPUs without their numbers, which have gaps where some are offline.
    numbers = sorted(online_cpus(root))
    if len(numbers) != len(times):
        numbers = list(range(len(times)))
    seconds: CoreSeconds = {}
    for core, spent in zip(numbers, times, strict=True):
        total = sum(spent) - spent.guest - spent.guest_nice
        seconds[core] = (total - spent.idle - spent.iowait, spent.steal, total)
    return seconds


def _process_seconds() -> dict[int, tuple[float, int, str]]:
    """Process id to (CPU seconds so far, core that it ran on last, name); processes that may not be looked at are left out."""
    seconds = {}
    for process in psutil.process_iter(["cpu_times", "cpu_num", "name"]):
        if process.info["cpu_times"] is not None:
            spent = process.info["cpu_times"]
            seconds[process.pid] = (spent.user + spent.system, process.info["cpu_num"], process.info["name"])
    return seconds
