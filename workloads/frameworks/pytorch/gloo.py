"""Gloo's thread for a network device, which must not hold up the threads that it works for."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_TASKS = Path("/proc/self/task")
_WORKERS = 2
"""Threads that work for a process group of gloo (ProcessGroupGloo's default, which init_process_group does not change)."""


@contextlib.contextmanager
def polling_gives_way() -> Iterator[None]:
    """Give threads that are started in here, other than those named by PyTorch (`pt_…`), the scheduling policy SCHED_BATCH.

    The thread reads sockets, and while another one holds a connection's lock it asks again and again. On the one core of a CPU
    device the lock's owner then waits until the kernel takes the core from the poller, 3 to 4 ms in most all-reduces: 0.7 MB
    took 3.8 ms after 20 ms of work, and 0.6 with this (medians over loopback, two processes on two cores of an idle EPYC, Linux
    6.18). A batch thread keeps its share of the core and does not interrupt others. Where it cannot be one, nothing changes.
    """
    before = set(_threads())
    yield
    for thread in _unnamed(before):
        with contextlib.suppress(OSError):
            if sys.platform == "linux":
                os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))


def _unnamed(before: set[int]) -> list[int]:
    """The new threads without a name of PyTorch's; none where the system does not tell, or only after more than a second.

    A thread names itself once it runs, and gloo's workers start last: when they have their names, so has every other.
    """
    until = time.monotonic() + 1.0
    while _TASKS.is_dir() and time.monotonic() < until:
        started = {thread: name for thread, name in _threads().items() if thread not in before}
        if list(started.values()).count("pt_gloo_runloop") >= _WORKERS:
            return [thread for thread, name in started.items() if not name.startswith("pt_")]
        time.sleep(0.001)
    return []


def _threads() -> dict[int, str]:
    """Id → name of this process's threads; none where the system does not tell."""
    names = {}
    for task in _TASKS.iterdir() if _TASKS.is_dir() else []:
        with contextlib.suppress(OSError):  # it has ended since
            names[int(task.name)] = (task / "comm").read_text().strip()
    return names
