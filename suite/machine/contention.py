"""Measure the CPU share that a process received, and the load from other processes.

The measurement is the difference between two readings of kernel counters. Counters that the kernel
does not report are omitted. This module does not sample between the two readings. The methods of
`Contention` do not raise errors.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from suite.machine import cgroups
from suite.machine.cpu_load import CoreSeconds, core_seconds
from suite.machine.sysfiles import number, text
from workloads.api import Json

ROOT = Path("/")
LEAST_SECONDS = 0.5
"""Minimum duration of a measurement in seconds.

Shares over shorter times are inaccurate, because the resolution of /proc/stat is 0.01 s.
"""


@dataclass(frozen=True)
class Counters:
    """Values of the kernel's counters at a given time.

    A counter is None if the kernel does not report it.
    """

    seconds: float
    """Time of the reading on the monotonic clock, in seconds."""
    threads: dict[str, tuple[float, float]]
    """Maps each thread of this process to the pair (seconds on a core, seconds of waiting for a
    core), as in schedstat.
    """
    cpu_seconds: float
    """CPU seconds of this process and its child processes, including ended child processes."""
    server_seconds: dict[int, float]
    """Maps the process id of each server of the run to the server's CPU seconds.

    Servers that have ended are excluded.
    """
    cores: CoreSeconds
    """Busy, stolen, and total CPU seconds of each core."""
    quota_periods: tuple[int, int] | None
    """Number of the control group's CPU quota periods, and number of periods in which the quota
    stopped the control group.
    """
    memory_stall_seconds: float | None
    """Seconds in which at least one process of the machine waited for memory (pressure stall
    information).
    """
    hot_seconds: float | None
    """Seconds of thermal throttling of the core that was throttled longest."""


class Contention:
    """Measures the CPU use of this process and its cores between `begin` and `end`."""

    def __init__(
        self,
        cores: Sequence[int] = (),
        root: Path = ROOT,
        servers: Callable[[], Sequence[psutil.Process]] = tuple,
    ) -> None:
        """Store which cores and server processes `begin` and `end` measure.

        Args:
            cores: Numbers of the cores to measure. If empty, all cores that this process may use
                are measured.
            root: Folder that contains /proc and /sys.
            servers: Function that returns the run's server processes on this machine.
        """
        self._cores = tuple(cores) or tuple(sorted(os.sched_getaffinity(0)))
        self._root = root
        self._find_servers = servers
        self._servers: Sequence[psutil.Process] = ()
        self._before: Counters | None = None
        self._earlier: Mapping[str, Json] = {}

    def begin(self, earlier: Mapping[str, Json] | None = None) -> None:
        """Read the counters for the first time.

        Args:
            earlier: For a resumed run, the result of `end` in the process that executed the run
                before the interruption.
        """
        self._earlier = earlier or {}
        with contextlib.suppress(psutil.Error, OSError):
            self._servers = self._find_servers()
        self._before = self._read_counters()

    def end(self) -> dict[str, Json]:
        """Return the measurements of the whole run.

        For a resumed run, the measurements since `begin` are combined with the measurements before
        the interruption. If `begin` was not called, or was called less than LEAST_SECONDS ago, the
        dictionary contains only the measurements before the interruption.

        Returns:
            A dictionary with the following keys, except keys that the kernel does not report:

            * `seconds`: Duration of the measurement.
            * `cpu_seconds`: CPU seconds of this process and its children.
            * `run_seconds`, `wait_seconds`: Seconds on a core, and seconds of waiting for a core,
              of all threads that are alive at the end.
            * `server_cpu_seconds`: CPU seconds of the servers, if servers exist and all of them are
              alive.
            * `cores`: [busy, stolen, total] seconds of each core. Stolen seconds are included in
              the busy seconds.
            * `quota_share`, `memory_stall_share`, `hot_share`: Share of the time from 0 to 1.
            * `load_average`: Load average of the last minute.
        """
        before, after = self._before, self._read_counters()
        if before is None or after is None or after.seconds - before.seconds < LEAST_SECONDS:
            return dict(self._earlier)
        figures: dict[str, Json] = {
            "seconds": after.seconds - before.seconds,
            "cpu_seconds": after.cpu_seconds - before.cpu_seconds,
            "cores": {
                str(core): [
                    last - first for first, last in zip(before.cores[core], spent, strict=True)
                ]
                for core, spent in after.cores.items()
                if core in before.cores
            },
        }
        if self._servers and len(after.server_seconds) == len(self._servers):
            figures["server_cpu_seconds"] = sum(
                spent - before.server_seconds.get(server, 0.0)
                for server, spent in after.server_seconds.items()
            )
        with contextlib.suppress(OSError):
            figures["load_average"] = os.getloadavg()[0]
        figures |= {**dict(_thread_seconds(before, after)), **dict(_shares(before, after))}
        return _combine(self._earlier, figures) if self._earlier else figures

    def _read_counters(self) -> Counters | None:
        try:
            return counters(self._cores, self._root, self._servers)
        except (OSError, ValueError, LookupError, psutil.Error):
            return None  # an unexpected format of the kernel's files must not end a run


def counters(
    cores: Sequence[int], root: Path = ROOT, servers: Sequence[psutil.Process] = ()
) -> Counters:
    """Return the current values of all kernel counters.

    Args:
        cores: Numbers of the cores to measure.
        root: Folder that contains /proc and /sys.
        servers: The run's server processes on this machine.
    """
    spent = core_seconds(root)
    return Counters(
        seconds=time.monotonic(),
        threads=_threads(root),
        cpu_seconds=_cpu_seconds(),
        server_seconds=_each_cpu_seconds(servers),
        cores={core: spent[core] for core in cores if core in spent},
        quota_periods=cgroups.quota_periods(root),
        memory_stall_seconds=_memory_stall_seconds(root),
        hot_seconds=_hot_seconds(cores, root),
    )


def _combine(earlier: Mapping[str, Json], later: Mapping[str, Json]) -> dict[str, Json]:
    """Combine the measurements before and after a resumption.

    Seconds are added. Shares are averaged with the durations as weights. A measurement that is
    missing before or after the resumption is omitted.
    """
    figures: dict[str, Json] = {}
    for name in (name for name in later if name in earlier):
        first, second = earlier[name], later[name]
        if name == "cores":
            zeros = [0.0, 0.0, 0.0]
            pairs = {
                core: (first.get(core, zeros), second.get(core, zeros)) for core in first | second
            }
            figures[name] = {
                core: [a + b for a, b in zip(*pair, strict=True)] for core, pair in pairs.items()
            }
        elif name.endswith("_share"):
            seconds = earlier["seconds"], later["seconds"]
            figures[name] = (first * seconds[0] + second * seconds[1]) / sum(seconds)
        else:
            figures[name] = second if name == "load_average" else first + second
    return figures


def _thread_seconds(before: Counters, after: Counters) -> Iterator[tuple[str, Json]]:
    """Yield the threads' total seconds on a core, and total seconds of waiting for a core.

    The counters of a new thread start at 0. Threads that have ended are excluded.
    """
    for index, name in enumerate(("run_seconds", "wait_seconds")):
        if after.threads:
            zeros = (0.0, 0.0)
            yield (
                name,
                sum(
                    now[index] - before.threads.get(thread, zeros)[index]
                    for thread, now in after.threads.items()
                ),
            )


def _shares(before: Counters, after: Counters) -> Iterator[tuple[str, Json]]:
    seconds = after.seconds - before.seconds
    if before.quota_periods and after.quota_periods:
        total, stopped = (
            last - first
            for first, last in zip(before.quota_periods, after.quota_periods, strict=True)
        )
        if total > 0:
            yield "quota_share", stopped / total
    if before.memory_stall_seconds is not None and after.memory_stall_seconds is not None:
        yield (
            "memory_stall_share",
            (after.memory_stall_seconds - before.memory_stall_seconds) / seconds,
        )
    if before.hot_seconds is not None and after.hot_seconds is not None:
        yield "hot_share", (after.hot_seconds - before.hot_seconds) / seconds


def _threads(root: Path) -> dict[str, tuple[float, float]]:
    """Map each thread to its seconds on a core, and its seconds of waiting on a run queue.

    The kernel reports nanoseconds (Linux, Documentation/scheduler/sched-stats.rst).
    """
    seconds = {}
    for path in (root / "proc/self/task").glob("*/schedstat"):
        fields = (text(path) or "").split()
        if len(fields) >= 2 and all(field.isdigit() for field in fields):
            seconds[path.parent.name] = (int(fields[0]) / 1e9, int(fields[1]) / 1e9)
    return seconds


def _cpu_seconds() -> float:
    # `os.times` has a resolution of 0.01 s, which is coarser than that of `process_time`
    times = os.times()
    seconds = time.process_time() + times.children_user + times.children_system
    return seconds + sum(_each_cpu_seconds(psutil.Process().children(recursive=True)).values())


def _each_cpu_seconds(processes: Iterable[psutil.Process]) -> dict[int, float]:
    """Map the id of each process that is alive to the CPU seconds of the process."""
    seconds = {}
    for process in processes:
        with contextlib.suppress(psutil.Error):
            spent = process.cpu_times()
            seconds[process.pid] = spent.user + spent.system
    return seconds


def _memory_stall_seconds(root: Path) -> float | None:
    """Return the seconds in which at least one process waited for memory.

    The kernel reports the seconds in the line `some avg10=… total=MICROSECONDS` of
    /proc/pressure/memory (Linux, Documentation/accounting/psi.rst).
    """
    for line in (text(root / "proc/pressure/memory") or "").splitlines():
        kind, *_, total = line.split()
        if kind == "some" and total.startswith("total=") and total[6:].isdigit():
            return int(total[6:]) / 1e6
    return None


def _hot_seconds(cores: Sequence[int], root: Path) -> float | None:
    """Return the seconds of thermal throttling of the core that was throttled longest.

    Only Intel processors report throttling, in milliseconds per core.
    """
    base = root / "sys/devices/system/cpu"
    counts = [
        number(base / f"cpu{core}/thermal_throttle/core_throttle_total_time_ms") for core in cores
    ]
    return max((count / 1e3 for count in counts if count is not None), default=None)
