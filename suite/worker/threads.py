"""Chooses the number of threads for a device's operators.

It does so before a framework is imported and before the clock starts.
"""

from __future__ import annotations

from dataclasses import replace

from suite.common.registry import load_framework
from suite.machine.cpu_load import cores_taken
from workloads.api import Settings, WorkerContext


def resolve_thread_count(worker: WorkerContext, settings: Settings) -> WorkerContext:
    """Return the worker with its number of threads.

    This is the configured number, or for `auto` a thread per available core.

    Under `auto`, a demo does not use the cores that foreign programs use without pause. If the
    operators of a framework give each thread an equal share of the work, a single shared core
    halves the rate of all threads. On the remaining cores, a demo keeps most of its rate
    (docs/reference/telemetry.md). The results then differ by rounding, as on a device with fewer
    cores.

    The measurement takes half a second, and is only made if a device has several cores. It is not
    made if it could count processes of the run as foreign programs: if devices share cores, with
    servers (`update=async`, MXNet on several devices), and on several machines.

    Args:
        worker: The worker, with its cores.
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
