"""Runs in PyTorch's environment: the threads of gloo and their scheduling policies."""

import os
from pathlib import Path

import torch.distributed as dist

from workloads.frameworks.pytorch.gloo import deprioritize_gloo_thread

TASKS = Path("/proc/self/task")
GROUPS = 40


def policies():
    """Return the policies of this thread and of the threads that process groups start.

    Threads are pollers, or threads that PyTorch names. There are many groups, because a thread sets
    its name some time after its start.
    """
    before = set(os.listdir(TASKS))
    groups = []
    for _ in range(GROUPS):
        with deprioritize_gloo_thread():
            groups.append(dist.ProcessGroupGloo(dist.HashStore(), 0, 1))
    found = {"groups": GROUPS, "poller": [], "named": [], "own": [os.sched_getscheduler(0)]}
    for name in set(os.listdir(TASKS)) - before:
        kind = "named" if (TASKS / name / "comm").read_text().startswith("pt_") else "poller"
        found[kind].append(os.sched_getscheduler(int(name)))
    del groups
    return found
