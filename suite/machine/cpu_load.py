"""Measure the current load of CPU cores.

The module reads the kernel's CPU times twice, 0.1 s apart.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from suite.machine.sysfiles import online_cpus

LOOK_SECONDS = 0.1
"""Time between the two readings of a measurement, in seconds."""
TAKEN_LOOKS = 5
"""Number of measurements that `cores_taken` makes."""
NAMED_PROCESSES = 3
"""Maximum number of processes that `busiest` returns."""
ROOT = Path("/")

CoreSeconds = dict[int, tuple[float, float, float]]
"""Busy, stolen, and total CPU seconds of each core since boot.

Stolen CPU time was given to other virtual machines by the hypervisor. The busy seconds include the
stolen seconds.
"""


def busy_percent(cores: Sequence[int], root: Path = ROOT) -> float | None:
    """Return the average use of the given cores in percent.

    Returns None if the kernel does not report per-core CPU times.

    Args:
        cores: Numbers of the cores.
        root: Folder that contains /sys.
    """
    used = _used(cores, root)
    total = sum(seconds for _, seconds in used.values())
    return 100 * max(0.0, sum(busy for busy, _ in used.values())) / total if total > 0 else None


def cores_taken(cores: Sequence[int], looks: int = TAKEN_LOOKS, root: Path = ROOT) -> int:
    """Return how many of the given cores other processes use permanently.

    The function takes several measurements and returns the minimum, so that short bursts of load do
    not count. The caller must be idle during the measurements. Otherwise the caller's CPU use is
    counted, too.

    Args:
        cores: Numbers of the cores.
        looks: Number of measurements.
        root: Folder that contains /sys.

    Returns:
        Number of cores that are in use, or 0 if the kernel does not report per-core CPU times.
    """
    return min(
        round(sum(busy / total for busy, total in _used(cores, root).values() if total > 0))
        for _ in range(looks)
    )


def free(cores: Sequence[int], most_percent: float, root: Path = ROOT) -> list[int]:
    """Return the cores whose CPU use is at most `most_percent`.

    Args:
        cores: Numbers of the cores.
        most_percent: Maximum use of a core in percent.
        root: Folder that contains /sys.
    """
    used = _used(cores, root).items()
    return [
        core
        for core, (busy, seconds) in used
        if seconds > 0 and 100 * busy / seconds <= most_percent
    ]


def _used(cores: Sequence[int], root: Path) -> dict[int, tuple[float, float]]:
    """Measure the busy and total CPU seconds of each core during LOOK_SECONDS.

    Cores that the kernel does not report are excluded.
    """
    before = core_seconds(root)
    time.sleep(LOOK_SECONDS)
    after = core_seconds(root)
    reported = [core for core in cores if core in before and core in after]
    return {
        core: (after[core][0] - before[core][0], after[core][2] - before[core][2])
        for core in reported
    }


def busiest(cores: Sequence[int]) -> list[str]:
    """Return the NAMED_PROCESSES other processes that use the most CPU time on the cores.

    Each process is described as in `name (pid 1) 90 %`. A process that fully uses one core is shown
    with 100 %.
    """
    before = {pid: seconds for pid, (seconds, _, _) in _process_seconds().items()}
    time.sleep(LOOK_SECONDS)
    used = [
        (seconds - before[pid], pid, name)
        for pid, (seconds, core, name) in _process_seconds().items()
        if pid in before and core in cores and pid != os.getpid()
    ]
    top = sorted(used, reverse=True)[:NAMED_PROCESSES]
    return [
        f"{name} (pid {pid}) {100 * seconds / LOOK_SECONDS:.0f} %"
        for seconds, pid, name in top
        if seconds > 0
    ]


def core_seconds(root: Path = ROOT) -> CoreSeconds:
    """Return the CPU seconds of each core since boot.

    The dict is empty if the kernel does not report per-core CPU times. Waiting for I/O is counted
    as idle time. Time that the hypervisor gave to other virtual machines is counted as busy time.
    Guest times are subtracted from the total, because the user and nice times already include the
    guest times.

    Args:
        root: Folder that contains /sys.
    """
    try:
        times = psutil.cpu_times(percpu=True)
    except OSError:
        return {}
    # psutil lists the times of the online CPUs without the CPU numbers. The numbers have gaps if
    # some CPUs are offline.
    numbers = sorted(online_cpus(root))
    if len(numbers) != len(times):
        numbers = list(range(len(times)))
    seconds: CoreSeconds = {}
    for core, spent in zip(numbers, times, strict=True):
        total = sum(spent) - spent.guest - spent.guest_nice
        seconds[core] = (total - spent.idle - spent.iowait, spent.steal, total)
    return seconds


def _process_seconds() -> dict[int, tuple[float, int, str]]:
    """Map each process id to the process's CPU seconds, last core, and name.

    Processes that the current user may not inspect are excluded.
    """
    seconds = {}
    for process in psutil.process_iter(["cpu_times", "cpu_num", "name"]):
        if process.info["cpu_times"] is not None:
            spent = process.info["cpu_times"]
            seconds[process.pid] = (
                spent.user + spent.system,
                process.info["cpu_num"],
                process.info["name"],
            )
    return seconds
