"""Looking at process trees, and ending them, so that nothing outlives a run. From /proc alone: agents use it too.

A process of another user (`environment.argv_prefix=[sudo,…]`) may not be ended; the others are ended all the same.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from suite.launch.children import GRACE_SECONDS

PROC = Path("/proc")
LOOK_SECONDS = 0.05


STOPPED_STATES = "Tt"
"""States of proc(5): stopped by a signal, stopped by a debugger."""


class _Process(NamedTuple):
    parent: int
    state: str
    """The letter in proc(5): R, S, D, T, …"""
    lives: bool
    """It is no zombie."""
    started: str
    """When: tells it from a later process of the same id."""


def alive(pid: int) -> bool:
    """True if the process exists and is no zombie."""
    found = _look(pid)
    return found is not None and found.lives


def is_stopped(pid: int) -> bool:
    """Return True if a signal or a debugger has stopped the process."""
    found = _look(pid)
    return found is not None and found.state in STOPPED_STATES


def descendants(pid: int) -> list[int]:
    """Ids of all processes below `pid` that exist, zombies left out."""
    children = defaultdict(list)
    for entry in os.listdir(PROC):
        if entry.isdigit() and (found := _look(int(entry))) is not None:
            children[found.parent].append((int(entry), found.lives))
    members, parents = [], [pid]
    while parents:
        for child, lives in children[parents.pop()]:
            parents.append(child)
            members += [child] if lives else []
    return members


def end_trees(pids: Iterable[int]) -> None:
    """End the processes with these ids and all their descendants."""
    members = {pid: _look(pid) for top in pids for pid in (top, *descendants(top))}

    def left() -> list[int]:
        looks = ((pid, _look(pid), first) for pid, first in members.items())
        return [pid for pid, now, first in looks if now and first and now.lives and now.started == first.started]

    _end(left)


def end_descendants() -> None:
    """End every process below this one, also what appears meanwhile."""
    _end(lambda: descendants(os.getpid()))
    reap(frozenset())


def _end(left: Callable[[], list[int]]) -> None:
    """Ask all to stop, wait GRACE_SECONDS, then kill what is left, and wait for that."""
    _signal(left(), signal.SIGTERM)
    _wait(left, GRACE_SECONDS)
    deadline = time.monotonic() + GRACE_SECONDS
    while (stubborn := left()) and time.monotonic() < deadline:
        _signal(stubborn, signal.SIGKILL)
        _wait(left, LOOK_SECONDS)


def reap(kept: frozenset[int]) -> None:
    """Forget orphans that were adopted and have ended; those of `kept` are somebody's to wait for.

    Only the first thread's children are looked at: the kernel gives it all orphans, and what another started is that one's.
    """
    with contextlib.suppress(OSError):
        text = (PROC / f"self/task/{os.getpid()}/children").read_text()
        for pid in map(int, text.split()):
            if pid not in kept and not alive(pid):
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def _wait(left: Callable[[], list[int]], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while left() and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _look(pid: int) -> _Process | None:
    """proc(5): `pid (name) state ppid …`, the start time in field 22; the name may hold anything. None: it is gone."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    state, parent, *others = text.rpartition(")")[2].split()
    return _Process(int(parent), state, state not in "ZX", others[17])
