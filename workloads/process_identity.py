"""Identity of the process that controls a run or locks a folder.

A different process can use the identity to check whether the controlling process still exists.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def this_process() -> dict[str, str | int]:
    """Return the identity of this process: host, boot id, namespace, process id, start time."""
    return {**_machine(), "pid": os.getpid(), "start_ticks": _start_ticks(os.getpid()) or 0}


def is_alive(process: Any) -> bool | None:
    """Return whether a process still exists, or None if this process cannot see it.

    Processes on a different host or in a different container are not visible. A process that was
    started before a reboot of the host does not exist any more.

    Args:
        process: Identity from `this_process`.
    """
    if not isinstance(process, Mapping) or type(process.get("pid")) is not int:
        return None
    machine = _machine()
    if not machine["boot"] or process.get("host") != machine["host"]:
        return None
    if process.get("boot") != machine["boot"]:
        return False
    if process.get("namespace") != machine["namespace"]:
        return None
    return process.get("start_ticks") == _start_ticks(process["pid"])


def _machine() -> dict[str, str]:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        boot = namespace = ""
    return {"host": socket.gethostname(), "boot": boot, "namespace": namespace}


def _start_ticks(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot.

    The function returns None if the process has ended or is a zombie.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])
