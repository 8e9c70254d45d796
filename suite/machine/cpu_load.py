"""Who is using certain CPU cores right now, from two looks at /proc a tenth of a second apart."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from suite.machine.sysfiles import text

LOOK_SECONDS = 0.1
MOST = 3
"""Processes to name."""
ROOT = Path("/")

Ticks = dict[int, tuple[int, int]]
"""Core to (busy, all) clock ticks."""


def busy_percent(cores: Sequence[int], root: Path = ROOT) -> float | None:
    """Use of these cores on average, 0 to 100; None where the kernel does not tell."""
    before = _core_ticks(root)
    time.sleep(LOOK_SECONDS)
    after = _core_ticks(root)
    known = [core for core in cores if core in before and core in after]
    busy = sum(after[core][0] - before[core][0] for core in known)
    total = sum(after[core][1] - before[core][1] for core in known)
    return 100 * max(0, busy) / total if total > 0 else None


def busiest(cores: Sequence[int], root: Path = ROOT) -> list[str]:
    """The processes that use these cores most: `name (pid 1) 90 %` (100: one core), at most three."""
    before = _process_ticks(root)
    time.sleep(LOOK_SECONDS)
    wanted, own = set(cores), os.getpid()
    used = [
        (ticks - before[pid][0], pid, name)
        for pid, (ticks, core, name) in _process_ticks(root).items()
        if pid in before and core in wanted and pid != own
    ]
    second = os.sysconf("SC_CLK_TCK") * LOOK_SECONDS
    top = sorted(used, reverse=True)[:MOST]
    return [f"{name} (pid {pid}) {100 * ticks / second:.0f} %" for ticks, pid, name in top if ticks > 0]


def _core_ticks(root: Path) -> Ticks:
    """/proc/stat, proc(5): user nice system idle iowait irq softirq steal, then guest times that user and nice hold."""
    found: Ticks = {}
    for line in (text(root / "proc/stat") or "").splitlines():
        name, _, rest = line.partition(" ")
        if name.startswith("cpu") and name[3:].isdigit():
            ticks = [int(word) for word in rest.split()[:8]]
            total = sum(ticks)
            found[int(name[3:])] = (total - sum(ticks[3:5]), total)
    return found


def _process_ticks(root: Path) -> dict[int, tuple[int, int, str]]:
    """Process id to (ticks so far, core that it ran on last, name): fields 14, 15, 39 and 2 of /proc/PID/stat, proc(5)."""
    found = {}
    for entry in os.listdir(root / "proc"):
        if not entry.isdigit():
            continue
        head, _, tail = (text(root / "proc" / entry / "stat") or "").rpartition(")")
        fields = tail.split()  # from field 3, the state, on
        if len(fields) > 36:
            name = head.partition("(")[2]
            found[int(entry)] = (int(fields[11]) + int(fields[12]), int(fields[36]), name)
    return found
