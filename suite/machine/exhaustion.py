"""Detect that a run is about to exhaust the machine's memory.

Running out of memory would harm all programs on the machine. The module imports only the standard
library.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from suite.machine.sysfiles import memory_bytes, text

LEFT_BYTES = 512 << 20
"""Memory in bytes that must stay available on the machine during a run.

A training step can allocate a few hundred MB in the 0.1 s between two checks.
"""
LEFT_SHARE = 0.03
"""Share of the machine's memory that must stay available during a run.

The limit is the larger of LEFT_BYTES and LEFT_SHARE of the machine's memory.
"""
OWN_SHARE = 0.5
"""Minimum share of the machine's memory that a run must use before the suite ends the run.

A run below this share is not ended, because other programs use most of the memory.
"""


def exhausts(pids: Iterable[int], root: Path = Path("/")) -> str:
    """Return the reason why a run must end for lack of memory, or an empty string.

    The memory of the processes is read only if little memory is available. If the kernel does not
    report the machine's memory, the string is empty.

    Args:
        pids: Ids of the run's processes.
        root: Folder that contains /proc.
    """
    memory = memory_bytes(root / "proc/meminfo")
    total, available = memory.get("MemTotal"), memory.get("MemAvailable")
    if total is None or available is None or available > max(LEFT_BYTES, LEFT_SHARE * total):
        return ""
    used = sum(_resident_bytes(pid, root) for pid in pids)
    if used < OWN_SHARE * total:
        return ""
    return (
        f"ended before the machine's memory was exhausted: this run used {_gib(used)} of"
        f" {_gib(total)}, and {_gib(available)} were available"
    )


def _resident_bytes(pid: int, root: Path) -> int:
    """Return the resident memory of a process (proc(5): statm), or 0 if the process has ended."""
    fields = (text(root / f"proc/{pid}/statm") or "").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 else 0


def _gib(count: float) -> str:
    return f"{count / 2**30:.1f} GiB"
