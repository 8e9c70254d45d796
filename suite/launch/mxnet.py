"""MXNet: one process per CPU device, or one process per host for all its GPUs.

The process for the GPUs has a context per GPU and sums the gradients of its contexts. Several
processes communicate through the servers of a KVStore. A scheduler (ps-lite) sends the processes
the addresses of the servers. The servers sum the gradients of all processes. With `update=async`,
the server stores the weights, and each GPU has a separate process.

Each CPU device needs a separate process. Several CPU contexts in a process would share a random
generator, which RNN operators use, and the thread that prepares their steps. With a second CPU
context, the demos of GNMT, Mask R-CNN, and Transformer trained only slightly faster or not faster
than with a single CPU context.
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
"""malloc tunable that enables huge pages. With this tunable, ResNet-50 on two cores trained 1.02 to
1.05 times as fast as without the tunable (three rounds).

The tunables with which PyTorch keeps freed memory have no additional effect, because MXNet plans
its memory once.
"""


ROLE_VARIABLE = "SUITE_STORE_ROLE"
"""Environment variable with the role of a KVStore process, `scheduler` or `server`.

The process copies the role to DMLC_ROLE (workloads/frameworks/mxnet/server.py).
"""


def device_variables(run: RunSpec) -> dict[str, str]:
    """Return the environment variables of a worker that depend on its device type.

    On CPU cores, the variables configure malloc. On GPUs, the variables configure arithmetic and
    peer-to-peer copies.
    """
    settings = run.settings
    if settings.device == "cpu":
        return malloc_variables(run, MALLOC_TUNABLES)
    env = arithmetic_variables(run)
    return env if settings.transport == "auto" else {**env, "MXNET_ENABLE_GPU_P2P": "0"}


def store_variables(
    rendezvous: Rendezvous, host: Host, role: str, workers: int, servers: int = 1
) -> dict[str, str]:
    """Return the environment variables of a process of a distributed KVStore (ps-lite).

    The scheduler listens on `rendezvous.server_port`. A single server runs on the first host. If
    DMLC_ROLE is `server` or `scheduler`, importing MXNet starts the server before the optimizers of
    the suite can be loaded. Servers and schedulers therefore get their role in ROLE_VARIABLE and
    set DMLC_ROLE later.

    Args:
        rendezvous: Hosts and ports of the run.
        host: Host of the process.
        role: `scheduler`, `server`, or `worker`.
        workers: Number of workers of the run.
        servers: Number of servers of the KVStore.
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
    """Return the commands of a host: its workers, server, and scheduler.

    Servers and a scheduler are started only if the run has several workers.
    """
    settings = run.settings
    counts = [
        MXNET.process_count(len(node.replicas), settings.device, settings.update)
        for node in rendezvous.hosts
    ]
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
    worker_commands = [
        worker(process, workers, run_file, common)
        for process in range(first, first + counts[number])
    ]
    return [*_store_commands(run_file, rendezvous, host, workers, servers), *worker_commands]


def _store_commands(
    run_file: str, rendezvous: Rendezvous, host: Host, workers: int, servers: int
) -> list[Command]:
    """Return the commands of the KVStore on a host.

    Each of the first `servers` hosts runs a server. The first host also runs the scheduler.
    """
    number = rendezvous.hosts.index(host)
    roles = {"scheduler": "scheduler"} if number == 0 and servers else {}
    if number < servers:
        roles["server" if servers == 1 else f"server-{number}"] = "server"
    return [
        Command(
            name,
            (*SERVER, run_file),
            {**thread_variables(1), **store_variables(rendezvous, host, role, workers, servers)},
            is_server=True,
        )
        for name, role in roles.items()
    ]


MXNET = Framework(
    name="mxnet",
    environments={"cpu": "mxnet-cpu", "cuda": "mxnet-cuda"},
    packages=("mxnet", "mxnet-cu112"),
    processes=lambda devices, device: 1 if device == "cuda" else devices,
    commands=_commands,
    static_work_split=True,
    title="MXNet",
    colour=0,
    tuning_variables=("MXNET_",),
    max_error_vs_float64={"sgd": 2.5e-7, "lars": 2.5e-7, "adam": 2.0e-7, "adamw": 2.8e-7},
)
