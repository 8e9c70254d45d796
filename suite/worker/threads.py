"""How many threads compute a device's operators, decided before a framework is imported and before the clock starts."""

from __future__ import annotations

from dataclasses import replace

from suite.common.registry import load_framework
from suite.machine.cpu_load import cores_taken
from workloads.api import Settings, WorkerContext


def with_threads(worker: WorkerContext, settings: Settings) -> WorkerContext:
    """The place with the number that was typed, or where that is `auto` with one for each core that is there for the run.

    Where operators give each thread an equal share, one core that another process uses too halves the rate of all of them; on
    the cores that are left a demo keeps most of it (docs/telemetry.md). So a demo leaves to others the cores that they use
    without pause. What it computes then differs by rounding, as on a device of fewer cores. Takes half a second, and only
    where a device has several cores. Nobody looks where processes of the run's own would be taken for others: devices that
    share cores, servers (`update=async`, MXNet on several devices), several machines.
    """
    if settings.threads_per_device != "auto":
        return replace(worker, threads=int(settings.threads_per_device))
    alone = not (settings.oversubscribe or settings.asynchronous or worker.server) and settings.nodes == 1
    if settings.device != "cpu" or worker.cores_per_device == 1 or settings.profile != "demo" or not alone:
        return worker
    if not load_framework(settings.framework).equal_shares:
        return worker
    left = (len(worker.cores) - cores_taken(worker.cores)) // len(worker.replica_ids)
    return replace(worker, threads=max(1, min(worker.cores_per_device, left)))
