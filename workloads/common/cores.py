"""Threads that make batches beside the devices: the option that says how many, and the cores that there are."""

from __future__ import annotations

import os
from dataclasses import dataclass

from workloads.api import WorkerContext, option


@dataclass(frozen=True, kw_only=True)
class DataThreadsOptions:
    """Option of workloads whose batches are made by threads."""

    data_threads: int = option(
        0, "threads per process that make batches; 0: what suits the workload", minimum=0, key="data.threads"
    )


def own_cores(worker: WorkerContext) -> int:
    """The cores that the process is pinned to; where it is not, as beside a GPU, its share of those that it may use."""
    usable = len(os.sched_getaffinity(0))
    return usable if worker.cores else max(1, usable // (worker.local_world_size or worker.world_size))
