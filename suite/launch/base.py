"""What a framework must say so that its workers can be started."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from suite.common.runspec import RunSpec
from workloads.api import Place

WORKER = ("-m", "suite.worker.main")


@dataclass(frozen=True)
class Command:
    """One process for the controller to start."""

    name: str
    """`launcher` or `worker-R`: also the name of its text log."""
    arguments: tuple[str, ...]
    """What follows the environment's Python on the command line."""
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Framework:
    """A framework as the controller knows it. Registered under the entry-point group `suite.frameworks`."""

    name: str
    environments: Mapping[str, str]
    """Device (`cpu`, `cuda`) to the name of the environment that `environment=auto` takes."""
    packages: tuple[str, ...]
    """Distributions, one of which is installed and whose version stands for the framework's."""
    processes: Callable[[int], int]
    """Devices of a run to the number of worker processes."""
    commands: Callable[[RunSpec, str], list[Command]]
    """(run, path of run.json as the workers see it) to the processes to start."""


def free_ports(count: int) -> list[int]:
    """Distinct TCP ports on the loopback address that nobody listens on now."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def thread_variables(cores: int) -> dict[str, str]:
    """Thread counts of the numerical libraries, to match the cores that a process is pinned to."""
    count = str(cores)
    return {"OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count}


def malloc_variables(run: RunSpec, tunables: str) -> dict[str, str]:
    """glibc's malloc tunables for workers on CPU cores; the user's own GLIBC_TUNABLES stand."""
    wanted = run.settings.device == "cpu" and "GLIBC_TUNABLES" not in os.environ
    return {"GLIBC_TUNABLES": tunables} if wanted else {}


def place_of(run: RunSpec, process: int, processes: int) -> Place:
    """Where `process` of `processes` stands: replicas are dealt out in order, equally many to each process."""
    settings = run.settings
    share = settings.devices // processes
    replicas = range(process * share, (process + 1) * share)
    cores: tuple[int, ...] = ()
    if settings.device == "cpu":
        width = settings.cores_per_device
        wanted = [replica * width + core for replica in replicas for core in range(width)]
        cores = tuple(sorted({run.cores[index % len(run.cores)] for index in wanted}))
        devices = tuple("cpu" for _ in replicas)
    else:
        devices = tuple(f"cuda:{replica}" for replica in replicas)
    return Place(process, processes, replicas, settings.devices, devices, cores, settings.cores_per_device)


def place_from_environment(run: RunSpec) -> Place:
    """This worker's place, from the variables that the launcher set (`RANK` and `WORLD_SIZE`)."""
    return place_of(run, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
