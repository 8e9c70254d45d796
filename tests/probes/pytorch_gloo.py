"""Run inside PyTorch's environment: the threads of gloo and their scheduling policies."""

import os
from pathlib import Path

import torch.distributed as dist

from workloads.frameworks.pytorch.gloo import deprioritize_gloo_thread

TASKS = Path("/proc/self/task")
GROUPS = 40


def policies():
    """Of the threads that process groups of one start (their pollers', those that PyTorch names),
    and of this one.

    Many groups, because a thread names itself some time after it was started.
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
