"""MXNet: a process for each CPU device; one drives all GPUs of a host, a context each, and sums over them itself.

Several processes meet at servers of a KVStore, which a scheduler tells them of (ps-lite): sums of gradients, or under
`update=async`, where each GPU has a process too, weights. CPU contexts of one process would share its random generator, which
RNN operators ask for, and the thread that prepares their steps: the demos of GNMT, Mask R-CNN and Transformer gained little or
nothing from a second one.
"""

from __future__ import annotations

from suite.common.runspec import Host, RunSpec
from suite.launch.base import (
    SERVER,
    SERVER_VARIABLE,
    Command,
    Framework,
    arithmetic_variables,
    malloc_variables,
    network_variables,
    omp_spin_env,
    thread_variables,
    worker,
)
from suite.launch.hosts import Rendezvous

MALLOC_TUNABLES = "glibc.malloc.hugetlb=1"
"""Huge pages: ResNet-50 on two cores trained 1.02 to 1.05 times as fast (three rounds). What keeps PyTorch's memory adds
nothing, since MXNet plans its memory once."""


ROLE_VARIABLE = "SUITE_STORE_ROLE"
"""`scheduler` or `server`: what a process that serves sets DMLC_ROLE to (workloads/frameworks/mxnet/server.py)."""


def device_variables(run: RunSpec) -> dict[str, str]:
    """Return the variables of a device: how memory is kept, the arithmetic, and whether GPUs copy through the host's memory."""
    settings = run.settings
    if settings.device == "cpu":
        return malloc_variables(run, MALLOC_TUNABLES)
    variables = arithmetic_variables(run)
    return variables if settings.link == "auto" else {**variables, "MXNET_ENABLE_GPU_P2P": "0"}


def store_variables(rendezvous: Rendezvous, host: Host, role: str, workers: int, servers: int = 1) -> dict[str, str]:
    """What a process of a distributed key-value store needs (ps-lite): `role` is `scheduler`, `server` or `worker`.

    The scheduler listens on the cluster's port for servers; a single server is on the first host. MXNet begins to serve in
    the midst of being imported where DMLC_ROLE says so, when optimizers of ours cannot be loaded: so servers get it later.
    """
    return {
        SERVER_VARIABLE: rendezvous.server_endpoint,
        "DMLC_ROLE" if role == "worker" else ROLE_VARIABLE: role,
        "DMLC_PS_ROOT_URI": rendezvous.master_address,
        "DMLC_PS_ROOT_PORT": str(rendezvous.server_port),
        "DMLC_NODE_HOST": host.address,
        **network_variables(host, ("DMLC_INTERFACE",)),
        "DMLC_NUM_SERVER": str(servers),
        "DMLC_NUM_WORKER": str(workers),
    }


def _commands(run: RunSpec, run_file: str, rendezvous: Rendezvous, host: Host) -> list[Command]:
    """A worker for each CPU device of the host, or one for all its GPUs; several workers meet at a store."""
    settings = run.settings
    counts = [MXNET.process_count(len(one.replicas), settings.device, settings.update) for one in rendezvous.hosts]
    number, workers = rendezvous.hosts.index(host), sum(counts)
    servers = len(rendezvous.hosts) if workers > 1 else 0
    if settings.asynchronous:
        servers = 1
    common = {
        **thread_variables(settings.cores_per_device),
        **omp_spin_env(run),
        **device_variables(run),
        **(store_variables(rendezvous, host, "worker", workers, servers) if servers else {}),
    }
    first = sum(counts[:number])
    started = [worker(process, workers, run_file, common) for process in range(first, first + counts[number])]
    return [*_serving(run_file, rendezvous, host, workers, servers), *started]


def _serving(run_file: str, rendezvous: Rendezvous, host: Host, workers: int, servers: int) -> list[Command]:
    """The host's part of a store: one of its servers, which the first hosts have, and on the first of all the scheduler."""
    number = rendezvous.hosts.index(host)
    roles = {"scheduler": "scheduler"} if number == 0 and servers else {}
    if number < servers:
        roles["server" if servers == 1 else f"server-{number}"] = "server"
    return [
        Command(
            name,
            (*SERVER, run_file),
            {**thread_variables(1), **store_variables(rendezvous, host, role, workers, servers)},
            serves=True,
        )
        for name, role in roles.items()
    ]


MXNET = Framework(
    name="mxnet",
    environments={"cpu": "mxnet-cpu", "cuda": "mxnet-cuda"},
    packages=("mxnet", "mxnet-cu112"),
    processes=lambda devices, device: 1 if device == "cuda" else devices,
    commands=_commands,
    equal_shares=True,
    title="MXNet",
    colour=0,
    tuning_variables=("MXNET_",),
    from_float64={"sgd": 2.5e-7, "lars": 2.5e-7, "adam": 2.0e-7},
)
