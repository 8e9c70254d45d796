"""Gloo's thread for a network device, which must not hold up the threads that it works for."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

_TASKS = Path("/proc/self/task")


@contextlib.contextmanager
def polling_gives_way() -> Iterator[None]:
    """Give threads that are started in here, other than those named by PyTorch (`pt_…`), the scheduling policy SCHED_BATCH.

    The thread reads sockets, and while another one holds a connection's lock it asks again and again. On the one core of a CPU
    device the lock's owner then waits until the kernel takes the core from the poller, 3 to 4 ms in most all-reduces: 0.7 MB
    took 3.8 ms after 20 ms of work, and 0.6 with this (medians over loopback, two processes on two cores of an idle EPYC, Linux
    6.18). A batch thread keeps its share of the core and does not interrupt others. Where it cannot be one, nothing changes.
    """
    before = _threads()
    yield
    for name in _threads() - before:
        with contextlib.suppress(OSError):
            if sys.platform == "linux" and not (_TASKS / name / "comm").read_text().startswith("pt_"):
                os.sched_setscheduler(int(name), os.SCHED_BATCH, os.sched_param(0))


def _threads() -> set[str]:
    """Ids of this process's threads; none where the system does not tell."""
    return set(os.listdir(_TASKS)) if _TASKS.is_dir() else set()
