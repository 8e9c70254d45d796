"""Number of cores that a process may use to build batches."""

import os

import pytest

from workloads.api import WorkerContext
from workloads.common.cores import process_cores


@pytest.mark.parametrize(
    ("usable", "processes", "of_host", "cores", "wanted"),
    [
        (96, 8, 8, (), 12),
        (96, 16, 8, (), 12),  # Two hosts.
        (96, 2, 1, (), 96),  # A single process per host.
        (4, 8, 0, (), 1),
        (96, 1, 0, (), 96),
        (3, 8, 8, (0, 1, 2), 3),  # Pinned: each process has its cores to itself.
    ],
)
def test_processes_of_a_host_share_its_cores(
    monkeypatch, usable, processes, of_host, cores, wanted
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(usable)))
    worker = WorkerContext(
        0, processes, range(1), processes, ("cuda:0",), cores, local_world_size=of_host
    )
    assert process_cores(worker) == wanted
