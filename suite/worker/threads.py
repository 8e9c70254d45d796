"""Choose the number of CPU threads per device.

The number is chosen before a framework is imported and before the clock of the run starts.
"""

from __future__ import annotations

from dataclasses import replace

from suite.common.registry import load_framework
from suite.machine.cpu_load import cores_taken
from workloads.api import Settings, WorkerContext


def resolve_thread_count(worker: WorkerContext, settings: Settings) -> WorkerContext:
    """Return the worker context with the number of threads per device.

    The number is `threads_per_device`. With `auto`, it is one thread per available core.

    With `auto`, a demo does not use cores that unrelated programs use permanently. The operators of
    a framework give each thread an equal share of the work, so a single core that is shared with
    another program halves the speed of all threads. On the remaining cores, a demo keeps most of
    its speed (docs/reference/telemetry.md). The results then differ by rounding, as on a device
    with fewer cores.

    The measurement of the core use takes 0.5 s, and is made only if a device has several cores. The
    measurement is skipped if it could mistake processes of the run for unrelated programs: if
    several devices share cores, if there are servers (`update=async`, MXNet on several devices),
    and on several machines.

    Args:
        worker: The worker context, with the cores.
        settings: The settings of the run, with `threads_per_device`.
    """
    if settings.threads_per_device != "auto":
        return replace(worker, threads=int(settings.threads_per_device))
    alone = (
        not (settings.oversubscribe or settings.asynchronous or worker.server)
        and settings.nodes == 1
    )
    if (
        settings.device != "cpu"
        or worker.cores_per_device == 1
        or settings.profile != "demo"
        or not alone
    ):
        return worker
    if not load_framework(settings.framework).static_work_split:
        return worker
    left = (len(worker.cores) - cores_taken(worker.cores)) // len(worker.replica_ids)
    return replace(worker, threads=max(1, min(worker.cores_per_device, left)))
