"""MXNet: one process drives all devices of a host, one context each, joined by a KVStore.

Under `update=async` each device has a process; they meet at a server of weights, which a scheduler tells them of (ps-lite).
"""

from __future__ import annotations

from suite.common.runspec import RunSpec
from suite.launch.base import (
    SERVER,
    SERVER_VARIABLE,
    WORKER,
    Command,
    Framework,
    malloc_variables,
    server_commands,
    server_variables,
    thread_variables,
    waiting_variables,
)
from suite.launch.hosts import Cluster, Host

TEMPORARY_SPACES = 64
"""Temporary spaces of MXNet's CPU operators. All CPU contexts share them, and an operator waits for the one before it in its
space: with the default of 4 contexts wait for each other. Each space keeps the most that an operator ever took in it:
with 4,096 GNMT's demo on two devices grew by 0.1 GiB a second to 15 GiB; with 64 it takes
3.6. Steps of ResNet-50, SSD and Mask R-CNN differ by the noise of a busy machine (two rounds)."""

MALLOC_TUNABLES = "glibc.malloc.hugetlb=1"
"""Huge pages: ResNet-50 on two cores trained 1.02 to 1.05 times as fast (three rounds). What keeps PyTorch's memory adds
nothing, since MXNet plans its memory once."""


ROLE_VARIABLE = "SUITE_STORE_ROLE"
"""`scheduler` or `server`: what a process that serves sets DMLC_ROLE to (workloads/frameworks/mxnet/server.py)."""


def device_variables(run: RunSpec) -> dict[str, str]:
    """What makes devices compute side by side, and fp32 mean fp32."""
    settings = run.settings
    if settings.device == "cpu":
        spaces = {"MXNET_CPU_TEMP_COPY": str(TEMPORARY_SPACES)} if settings.devices > 1 else {}
        return {**spaces, **malloc_variables(run, MALLOC_TUNABLES)}
    return {"NVIDIA_TF32_OVERRIDE": "0"} if settings.precision == "fp32" else {}


def store_variables(cluster: Cluster, host: Host, role: str, workers: int, servers: int = 1) -> dict[str, str]:
    """What a process of a distributed key-value store needs (ps-lite): `role` is `scheduler`, `server` or `worker`.

    The scheduler listens on the cluster's port for servers; a single server is on the first host. MXNet begins to serve in
    the midst of being imported where DMLC_ROLE says so, when optimizers of ours cannot be loaded: so servers get it later.
    """
    return {
        "DMLC_ROLE" if role == "worker" else ROLE_VARIABLE: role,
        "DMLC_PS_ROOT_URI": cluster.master_address,
        "DMLC_PS_ROOT_PORT": str(cluster.server_port),
        "DMLC_NODE_HOST": host.address,
        "DMLC_NUM_SERVER": str(servers),
        "DMLC_NUM_WORKER": str(workers),
    }


def store_commands(run: RunSpec, run_file: str, cluster: Cluster, host: Host, workers: int) -> list[Command]:
    """Scheduler and server of a distributed key-value store of so many workers."""
    roles = {role: store_variables(cluster, host, role, workers) for role in ("scheduler", "server")}
    return server_commands(run, run_file, cluster, host, roles)


def _commands(run: RunSpec, run_file: str, cluster: Cluster, host: Host) -> list[Command]:
    """A worker for the host, or under `update=async` one for each of its devices."""
    if not run.settings.asynchronous:
        (worker,) = single_process(run, run_file, cluster, host)
        return [worker] if len(cluster.hosts) == 1 else joined(run, run_file, cluster, host, worker)
    workers = run.settings.devices
    common = {
        **thread_variables(run.settings.cores_per_device),
        **waiting_variables(run),
        **device_variables(run),
        **server_variables(run, cluster),
        **store_variables(cluster, host, "worker", workers),
        "WORLD_SIZE": str(workers),
    }
    return [
        *store_commands(run, run_file, cluster, host, workers),
        *(
            Command(f"worker-{process}", (*WORKER, run_file), {**common, "RANK": str(process)})
            for process in host.replicas
        ),
    ]


def joined(run: RunSpec, run_file: str, cluster: Cluster, host: Host, worker: Command) -> list[Command]:
    """The worker of one of several hosts. They meet at a store (`dist_sync`): a server on each, the scheduler on the first."""
    count, number = len(cluster.hosts), cluster.hosts.index(host)
    roles = {f"server-{number}": "server"}
    if number == 0:
        roles["scheduler"] = "scheduler"
    common = {**thread_variables(1), SERVER_VARIABLE: cluster.server_endpoint}
    serving = [
        Command(
            name, (*SERVER, run_file), {**common, **store_variables(cluster, host, role, count, count)}, serves=True
        )
        for name, role in roles.items()
    ]
    own = {**worker.variables, **store_variables(cluster, host, "worker", count, count)}
    return [*serving, Command(worker.name, worker.arguments, own)]


def single_process(run: RunSpec, run_file: str, cluster: Cluster, host: Host) -> list[Command]:
    """One worker that holds every replica of the host."""
    process = cluster.hosts.index(host)
    variables = {
        **thread_variables(run.settings.cores_per_device),
        **waiting_variables(run),
        **device_variables(run),
        "RANK": str(process),
        "WORLD_SIZE": str(len(cluster.hosts)),
    }
    return [Command(f"worker-{process}", (*WORKER, run_file), variables)]


MXNET = Framework(
    name="mxnet",
    environments={"cpu": "mxnet-cpu", "cuda": "mxnet-cuda"},
    packages=("mxnet", "mxnet-cu112"),
    processes=lambda devices: 1,
    commands=_commands,
    equal_shares=True,
)
