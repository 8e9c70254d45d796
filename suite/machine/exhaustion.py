"""When a run would take all of a machine's memory, other programs with it. Standard library only: agents ask this too."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from suite.machine.sysfiles import memory_bytes, text

LEFT_BYTES = 512 << 20
"""Memory that a run must leave the machine: a step takes a few hundred MB between two looks (0.1 s)."""
LEFT_SHARE = 0.03
"""The same as a share of the machine's memory, which counts where it is more."""
OWN_SHARE = 0.5
"""Share of the machine's memory that the run itself must hold to be ended: else others are to blame."""


def exhausts(pids: Iterable[int], root: Path = Path("/")) -> str:
    """Why a run with these processes must end now, or nothing. Only a glance while there is memory left.

    `root` is where /proc is found; where it does not tell, nothing is exhausted.
    """
    memory = memory_bytes(root / "proc/meminfo")
    total, available = memory.get("MemTotal"), memory.get("MemAvailable")
    if total is None or available is None or available > max(LEFT_BYTES, LEFT_SHARE * total):
        return ""
    taken = sum(_resident_bytes(pid, root) for pid in pids)
    if taken < OWN_SHARE * total:
        return ""
    return (
        f"ended before the machine's memory was exhausted: {_gib(taken)} of {_gib(total)} were taken by "
        f"this run, {_gib(available)} were left"
    )


def _resident_bytes(pid: int, root: Path) -> int:
    """Pages of a process in memory (proc(5): statm); 0 for one that is gone."""
    words = (text(root / f"proc/{pid}/statm") or "").split()
    return int(words[1]) * os.sysconf("SC_PAGE_SIZE") if len(words) > 1 else 0


def _gib(count: float) -> str:
    return f"{count / 2**30:.1f} GiB"
