"""How much of the machine a process got between two moments, and what took the rest: counters of the kernel, read twice.

Every figure is left out where the kernel does not tell it. Nothing here samples or raises.
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
"""Shares of less time mean nothing: /proc/stat counts in hundredths of a second."""


@dataclass(frozen=True)
class Counters:
    """What the kernel has counted up to a moment; None: it does not tell."""

    seconds: float
    """Monotonic clock."""
    threads: dict[str, tuple[float, float]]
    """Thread of this process to (seconds on a core, seconds ready to run and waiting for one): schedstat."""
    cpu_seconds: float
    """Of this process and its children, also those that have ended."""
    server_seconds: dict[int, float]
    """CPU seconds of the processes that serve this one, by their ids; none of those that have ended."""
    cores: CoreSeconds
    quota_periods: tuple[int, int] | None
    """Of the control group: (all, those in which its CPU quota stopped it)."""
    memory_stall_seconds: float | None
    """In which some process of the machine waited for memory: pressure stall information."""
    hot_seconds: float | None
    """In which the hottest of the cores was slowed down."""


class Contention:
    """Watches this process on `cores` (of the machine, empty: all that it may use) from `begin` to `end`."""

    def __init__(
        self, cores: Sequence[int] = (), root: Path = ROOT, servers: Callable[[], Sequence[psutil.Process]] = tuple
    ) -> None:
        """`root`: where /proc and /sys are found. `servers`: finds this machine's processes that serve the run."""
        self._cores = tuple(cores) or tuple(sorted(os.sched_getaffinity(0)))
        self._root = root
        self._find_servers = servers
        self._servers: Sequence[psutil.Process] = ()
        self._before: Counters | None = None
        self._earlier: Mapping[str, Json] = {}

    def begin(self, earlier: Mapping[str, Json] | None = None) -> None:
        """Look for the first time; `earlier`: what `end` gave of a part of the run that another process did."""
        self._earlier = earlier or {}
        with contextlib.suppress(psutil.Error, OSError):
            self._servers = self._find_servers()
        self._before = self._look()

    def end(self) -> dict[str, Json]:
        """What happened since `begin`, and earlier; empty without it, or after less than LEAST_SECONDS.

        Seconds: `seconds`, `run_seconds` and `wait_seconds` (of the threads that live now), `cpu_seconds`, and
        `server_cpu_seconds` if there are servers and all live; `cores`: core to its [busy, stolen, all] seconds, stolen ones
        being busy; shares of the time from 0 to 1: `quota_share`, `memory_stall_share`, `hot_share`; `load_average` of the
        last minute.
        """
        before, after = self._before, self._look()
        if before is None or after is None or after.seconds - before.seconds < LEAST_SECONDS:
            return dict(self._earlier)
        figures: dict[str, Json] = {
            "seconds": after.seconds - before.seconds,
            "cpu_seconds": after.cpu_seconds - before.cpu_seconds,
            "cores": {
                str(core): [last - first for first, last in zip(before.cores[core], spent, strict=True)]
                for core, spent in after.cores.items()
                if core in before.cores
            },
        }
        if self._servers and len(after.server_seconds) == len(self._servers):
            figures["server_cpu_seconds"] = sum(
                spent - before.server_seconds.get(server, 0.0) for server, spent in after.server_seconds.items()
            )
        with contextlib.suppress(OSError):
            figures["load_average"] = os.getloadavg()[0]
        figures |= {**dict(_thread_seconds(before, after)), **dict(_shares(before, after))}
        return _together(self._earlier, figures) if self._earlier else figures

    def _look(self) -> Counters | None:
        try:
            return counters(self._cores, self._root, self._servers)
        except (OSError, ValueError, LookupError, psutil.Error):
            return None  # a kernel that answers in an unknown way must not end a run


def counters(cores: Sequence[int], root: Path = ROOT, servers: Sequence[psutil.Process] = ()) -> Counters:
    """All counters now."""
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


def _together(earlier: Mapping[str, Json], later: Mapping[str, Json]) -> dict[str, Json]:
    """Of two parts of a run, as far as both tell: seconds are added up, shares weighted by them."""
    figures: dict[str, Json] = {}
    for name in (name for name in later if name in earlier):
        first, second = earlier[name], later[name]
        if name == "cores":
            nothing = [0.0, 0.0, 0.0]
            each = {core: (first.get(core, nothing), second.get(core, nothing)) for core in first | second}
            figures[name] = {core: [a + b for a, b in zip(*parts, strict=True)] for core, parts in each.items()}
        elif name.endswith("_share"):
            seconds = earlier["seconds"], later["seconds"]
            figures[name] = (first * seconds[0] + second * seconds[1]) / sum(seconds)
        else:
            figures[name] = second if name == "load_average" else first + second
    return figures


def _thread_seconds(before: Counters, after: Counters) -> Iterator[tuple[str, Json]]:
    """Time on a core and waiting for one; a thread that is new counts from 0, one that has ended not at all."""
    for index, name in enumerate(("run_seconds", "wait_seconds")):
        if after.threads:
            new = (0.0, 0.0)
            yield (
                name,
                sum(now[index] - before.threads.get(thread, new)[index] for thread, now in after.threads.items()),
            )


def _shares(before: Counters, after: Counters) -> Iterator[tuple[str, Json]]:
    seconds = after.seconds - before.seconds
    if before.quota_periods and after.quota_periods:
        every, stopped = (last - first for first, last in zip(before.quota_periods, after.quota_periods, strict=True))
        if every > 0:
            yield "quota_share", stopped / every
    if before.memory_stall_seconds is not None and after.memory_stall_seconds is not None:
        yield "memory_stall_share", (after.memory_stall_seconds - before.memory_stall_seconds) / seconds
    if before.hot_seconds is not None and after.hot_seconds is not None:
        yield "hot_share", (after.hot_seconds - before.hot_seconds) / seconds


def _threads(root: Path) -> dict[str, tuple[float, float]]:
    """Linux's Documentation/scheduler/sched-stats.rst: nanoseconds on a core, and waiting on a run queue."""
    seconds = {}
    for path in (root / "proc/self/task").glob("*/schedstat"):
        words = (text(path) or "").split()
        if len(words) >= 2 and all(word.isdigit() for word in words):
            seconds[path.parent.name] = (int(words[0]) / 1e9, int(words[1]) / 1e9)
    return seconds


def _cpu_seconds() -> float:
    times = os.times()  # counts in hundredths of a second
    own_seconds = time.process_time() + times.children_user + times.children_system
    return own_seconds + sum(_each_cpu_seconds(psutil.Process().children(recursive=True)).values())


def _each_cpu_seconds(processes: Iterable[psutil.Process]) -> dict[int, float]:
    """Process id to CPU seconds, of those that live."""
    seconds = {}
    for process in processes:
        with contextlib.suppress(psutil.Error):
            spent = process.cpu_times()
            seconds[process.pid] = spent.user + spent.system
    return seconds


def _memory_stall_seconds(root: Path) -> float | None:
    """Linux's Documentation/accounting/psi.rst: `some avg10=… total=MICROSECONDS`."""
    for line in (text(root / "proc/pressure/memory") or "").splitlines():
        kind, *_, total = line.split()
        if kind == "some" and total.startswith("total=") and total[6:].isdigit():
            return int(total[6:]) / 1e6
    return None


def _hot_seconds(cores: Sequence[int], root: Path) -> float | None:
    """Intel alone counts it: milliseconds for each core."""
    base = root / "sys/devices/system/cpu"
    counts = [number(base / f"cpu{core}/thermal_throttle/core_throttle_total_time_ms") for core in cores]
    return max((count / 1e3 for count in counts if count is not None), default=None)
