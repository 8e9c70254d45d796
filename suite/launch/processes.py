"""List and end process trees, so that no process outlives a run.

The suite may not have permission to end a process of a different user
(`environment.command_prefix=[sudo,…]`). In this case, all processes of the suite's user are still
ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

from suite.launch.children import GRACE_SECONDS

POLL_SECONDS = 0.05
_STOPPED = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
_ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def alive(pid: int) -> bool:
    """Check whether a process exists and is not a zombie."""
    return _status(pid) not in (None, *_ENDED)


def is_stopped(pid: int) -> bool:
    """Check whether a signal or a debugger has suspended a process."""
    return _status(pid) in _STOPPED


def _status(pid: int) -> str | None:
    try:
        return psutil.Process(pid).status()
    except psutil.Error:
        return None


def descendants(pid: int) -> list[psutil.Process]:
    """Return all descendants of a process, excluding zombies."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [
            process
            for process in psutil.Process(pid).children(recursive=True)
            if _is_alive(process)
        ]
    return []


def _is_alive(process: psutil.Process) -> bool:
    """Check whether a process is still running.

    A later process with the same process id is not mistaken for the original process.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() not in _ENDED
    return False


def end_trees(pids: Iterable[int]) -> None:
    """End the processes with these ids and all their descendants."""
    members: list[psutil.Process] = []
    for pid in pids:
        members += descendants(pid)
        with contextlib.suppress(psutil.NoSuchProcess):
            members.append(psutil.Process(pid))
    _end(lambda: [process for process in members if _is_alive(process)])


def end_descendants() -> None:
    """End all descendants of this process, including processes that start in the meantime."""
    _end(lambda: descendants(os.getpid()))
    reap(frozenset())


def _end(remaining: Callable[[], list[psutil.Process]]) -> None:
    """Terminate the processes, and kill the processes that remain after GRACE_SECONDS.

    The function returns when all processes have ended, or GRACE_SECONDS after the remaining
    processes were killed.
    """
    _signal(remaining(), signal.SIGTERM)
    _wait(remaining, GRACE_SECONDS)
    deadline = time.monotonic() + GRACE_SECONDS
    while (stubborn := remaining()) and time.monotonic() < deadline:
        _signal(stubborn, signal.SIGKILL)
        _wait(remaining, POLL_SECONDS)


def reap(kept: frozenset[int]) -> None:
    """Reap orphans that this process has adopted and that have ended.

    The function checks only children of the main thread, because the kernel makes all orphans
    children of the main thread. A process that a different thread started is a child of that
    thread.

    Args:
        kept: Process ids that are not reaped, because their owners wait for these processes.
    """
    with contextlib.suppress(OSError):
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
        for pid in map(int, text.split()):
            if pid not in kept and not alive(pid):
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def _wait(remaining: Callable[[], list[psutil.Process]], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while remaining() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def _signal(processes: Iterable[psutil.Process], number: int) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process.send_signal(number)
