"""Identifies the process that controls a run or holds a folder, so that others can tell whether it still exists."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def this_process() -> dict[str, str | int]:
    """Return what identifies this process: host, boot, process namespace, process id, and start."""
    return {**_machine(), "pid": os.getpid(), "start_ticks": _start_ticks(os.getpid()) or 0}


def is_alive(process: Any) -> bool | None:
    """Return whether a process that `this_process` described still exists; None if that is not visible from here.

    A process on another machine or in another container is not visible. A machine that was rebooted runs none of its earlier
    processes.
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
    """Return when a process started, in clock ticks after the boot; None if it has ended, or is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])
