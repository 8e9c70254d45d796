"""CPU cores for what a process does beside its devices: making batches."""

from __future__ import annotations

import os

from workloads.api import Place


def own_cores(place: Place) -> int:
    """The cores that the process is pinned to; where it is not, as beside a GPU, its share of those that it may use."""
    usable = len(os.sched_getaffinity(0))
    return usable if place.cores else max(1, usable // (place.processes_of_host or place.processes))
