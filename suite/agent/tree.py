"""All descendants of this process, from /proc alone, and their end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import defaultdict
from pathlib import Path

from suite.launch.children import GRACE_SECONDS

PROC = Path("/proc")
LOOK_SECONDS = 0.05


def alive(pid: int) -> bool:
    """True if the process exists and is no zombie."""
    parent_and_state = _parent_and_state(pid)
    return parent_and_state is not None and parent_and_state[1] not in "ZX"


def descendants(pid: int) -> list[int]:
    """Ids of all processes below `pid` that exist, zombies left out."""
    children = defaultdict(list)
    for entry in os.listdir(PROC):
        if entry.isdigit() and (parent_and_state := _parent_and_state(int(entry))) is not None:
            children[parent_and_state[0]].append((int(entry), parent_and_state[1]))
    members, parents = [], [pid]
    while parents:
        for child, state in children[parents.pop()]:
            parents.append(child)
            members += [child] if state not in "ZX" else []
    return members


def end_all() -> None:
    """Ask every descendant to stop, wait GRACE_SECONDS, then kill what is left, also what appears in between."""
    me = os.getpid()
    _signal(descendants(me), signal.SIGTERM)
    _wait(GRACE_SECONDS)
    deadline = time.monotonic() + GRACE_SECONDS
    while (left := descendants(me)) and time.monotonic() < deadline:
        _signal(left, signal.SIGKILL)
        _wait(LOOK_SECONDS)
    reap(frozenset())


def reap(kept: frozenset[int]) -> None:
    """Forget orphans that were adopted and have ended; those of `kept` are somebody's to wait for.

    Only the first thread's children are looked at: the kernel gives it all orphans, and what another started is that one's.
    """
    with contextlib.suppress(OSError):
        text = (PROC / f"self/task/{os.getpid()}/children").read_text()
        for pid in map(int, text.split()):
            parent_and_state = _parent_and_state(pid)
            if pid not in kept and parent_and_state is not None and parent_and_state[1] == "Z":
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def _wait(seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while descendants(os.getpid()) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _parent_and_state(pid: int) -> tuple[int, str] | None:
    """proc(5): `pid (name) state ppid …`; the name may hold anything."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    state, parent, *_ = text.rpartition(")")[2].split()
    return int(parent), state
