"""Scheduling policy of Gloo's network thread.

With the policy SCHED_BATCH, the network thread does not delay the threads of the training step.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_TASKS = Path("/proc/self/task")
_WORKERS = 2
"""Number of worker threads per Gloo process group. ProcessGroupGloo has this default, and
init_process_group does not change it.
"""


@contextlib.contextmanager
def deprioritize_gloo_thread() -> Iterator[None]:
    """Set the scheduling policy SCHED_BATCH for Gloo's network thread.

    The network thread is a thread that starts within the context and has no PyTorch name (`pt_…`).
    Gloo's network thread reads sockets, and it polls while a different thread holds a connection's
    lock. On the single core of a CPU device, the lock's owner must then wait until the kernel
    preempts the polling thread. This wait takes 3 to 4 ms in most all-reduces. An all-reduce of 0.7
    MB after 20 ms of work took 3.8 ms by default and 0.6 ms with SCHED_BATCH (medians over
    loopback, two processes on two cores of an idle EPYC, Linux 6.18). A SCHED_BATCH thread gets the
    same share of the core as before, but does not preempt other threads. If the policy cannot be
    set, the default policy remains.
    """
    before = set(_threads())
    yield
    for thread in _unnamed(before):
        with contextlib.suppress(OSError):
            if sys.platform == "linux":
                os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))


def _unnamed(before: set[int]) -> list[int]:
    """Return the new threads that have no PyTorch name.

    `before` contains the ids of the threads that already existed. A thread sets its name when it
    first runs, and Gloo's worker threads start last. When all worker threads have names, all other
    named threads also have names. The result is empty if the operating system does not list
    threads, or if names are missing after one second.
    """
    until = time.monotonic() + 1.0
    while _TASKS.is_dir() and time.monotonic() < until:
        started = {thread: name for thread, name in _threads().items() if thread not in before}
        if list(started.values()).count("pt_gloo_runloop") >= _WORKERS:
            return [thread for thread, name in started.items() if not name.startswith("pt_")]
        time.sleep(0.001)
    return []


def _threads() -> dict[int, str]:
    """Return the names of this process's threads by thread id.

    The function returns an empty dictionary if the operating system does not list threads.
    """
    names = {}
    for task in _TASKS.iterdir() if _TASKS.is_dir() else []:
        with contextlib.suppress(OSError):  # The thread may have ended.
            names[int(task.name)] = (task / "comm").read_text().strip()
    return names
