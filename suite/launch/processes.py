"""Looking at process trees, and ending them, so that nothing outlives a run.

A process of another user (`environment.argv_prefix=[sudo,…]`) may deny either; the others are looked at and ended all the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

import psutil

from suite.launch.children import GRACE_SECONDS


def tree(pids: Iterable[int]) -> list[psutil.Process]:
    """The processes with these ids and all their descendants that still exist."""
    members: dict[int, psutil.Process] = {}
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            members[pid] = process
            for child in process.children(recursive=True):
                members[child.pid] = child
    return list(members.values())


def alive(pid: int) -> bool:
    """True if the process exists and is no zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def end(processes: Sequence[psutil.Process]) -> None:
    """Ask all to stop, wait GRACE_SECONDS, then kill what is left, and wait for that."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, left = psutil.wait_procs(processes, timeout=GRACE_SECONDS)
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(left, timeout=GRACE_SECONDS)
