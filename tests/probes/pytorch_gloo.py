"""Run inside PyTorch's environment: the threads of gloo and their scheduling policies."""

import os
from pathlib import Path

import torch.distributed as dist

from workloads.frameworks.pytorch.gloo import polling_gives_way

TASKS = Path("/proc/self/task")


def policies():
    """Of the threads that a process group of one starts (its poller's, those that PyTorch names), and of this one."""
    before = set(os.listdir(TASKS))
    with polling_gives_way():
        group = dist.ProcessGroupGloo(dist.HashStore(), 0, 1)
    found = {"poller": [], "named": [], "own": [os.sched_getscheduler(0)]}
    for name in set(os.listdir(TASKS)) - before:
        kind = "named" if (TASKS / name / "comm").read_text().startswith("pt_") else "poller"
        found[kind].append(os.sched_getscheduler(int(name)))
    del group
    return found
