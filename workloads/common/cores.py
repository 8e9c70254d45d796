"""Option for the number of threads that prepare batches, and the available cores."""

from __future__ import annotations

import os
from dataclasses import dataclass

from workloads.api import WorkerContext, option


@dataclass(frozen=True, kw_only=True)
class DataThreadsOptions:
    """Option of workloads that prepare batches in threads."""

    data_threads: int = option(
        0,
        "threads per process that prepare batches. 0: the default of the workload",
        minimum=0,
        key="data.threads",
    )


def process_cores(worker: WorkerContext) -> int:
    """Return the number of cores for this process.

    For a pinned process, the function returns the number of cores to which the process is pinned. A
    process that is not pinned, such as a process with a GPU, gets an equal share of the host's
    available cores.
    """
    usable = len(os.sched_getaffinity(0))
    return (
        usable if worker.cores else max(1, usable // (worker.local_world_size or worker.world_size))
    )
