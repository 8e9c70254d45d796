"""What a framework must say so that its workers can be started."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from suite.common.run_folder import RUN_FILE
from suite.common.runspec import Host, RunSpec
from suite.launch.hosts import Rendezvous, hosts_of
from suite.launch.network import free_ports, is_loopback, loopback_interface
from workloads.api import Settings, WorkerContext, Workload

WORKER = ("-m", "suite.worker.main")
SERVER = ("-m", "suite.worker.server")
SERVER_VARIABLE = "SUITE_SERVER"
"""`address:port` where processes that serve are met, in their environment and the workers' (`update=async`, MXNet's store)."""


@dataclass(frozen=True)
class Command:
    """One process to start on a host."""

    name: str
    """`server` or `worker-R`, unlike any other of the run: also the name of its text log."""
    arguments: tuple[str, ...]
    """What follows the host's Python on the command line."""
    variables: Mapping[str, str] = field(default_factory=dict)
    serves: bool = False
    """Whether it serves the workers: it need not end by itself, and the run is over if it does."""


@dataclass(frozen=True)
class Framework:
    """A framework as the controller knows it. Registered under the entry-point group `suite.frameworks`."""

    name: str
    environments: Mapping[str, str]
    """Device (`cpu`, `cuda`) to the name of the environment that `environment=auto` takes."""
    packages: tuple[str, ...]
    """Distributions, one of which is installed and whose version stands for the framework's."""
    processes: Callable[[int, str], int]
    """(devices of a host, `cpu` or `cuda`) to its worker processes under `update=sync`; `async` has one for each device."""
    commands: Callable[[RunSpec, str, Rendezvous, Host], list[Command]]
    """(run, path of run.json as the host's workers see it, cluster, host) to the processes to start on that host."""
    equal_shares: bool = False
    """On CPU cores an operator gives each thread an equal share of its work (OpenMP), so that it ends when the slowest core
    ends; a pool whose threads take what is left (Eigen) does not."""
    other_gpu_environments: tuple[str, ...] = ()
    """Taken instead where they suit the GPUs or their driver, and the one above does not."""
    title: str = ""
    """What sentences and descriptions call it: `PyTorch`; empty: its name."""
    colour: int | None = None
    """Its colour in figures, by number; None: one that no other framework of a page has."""
    tuning_variables: tuple[str, ...] = ()
    """Beginnings of the names of variables by which a user tunes it (TUNING_VARIABLES has those of all): `TF_`."""
    precisions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Workload to the precisions of its trainer, where the workload's own `precisions` do not name this framework."""
    from_float64: Mapping[str, float] = field(default_factory=dict)
    """Optimizer to the largest difference of weights and optimizer state from float64 after ten steps, as a part of the array's
    largest value, over all variants of tests/workloads/frameworks/test_updates.py; CPU, rounded up. Packages state it."""
    listens_everywhere: Callable[[Settings], bool] = lambda settings: False
    """Whether processes of a run listen on all interfaces for connections that they do not authenticate."""
    gpu_choices: tuple[str, ...] = ()
    """Of the configuration's `framework.graphs` and `framework.kernels` those that its trainers have on GPUs."""
    build_query: str = ""
    """Python that prints, as JSON, [version, CUDA or null, whether it sees a GPU, architectures]; empty: the lock says it."""

    def precisions_of(self, workload: type[Workload]) -> tuple[str, ...]:
        """What `precision` may be for a workload."""
        return workload.precisions.get(self.name) or self.precisions.get(workload.name, ("fp32",))

    def process_count(self, devices: int, device: str, update: str = "sync") -> int:
        """Worker processes of a host with so many devices; `device` and `update`: of `Settings`."""
        return devices if update == "async" else self.processes(devices, device)

    def hosts_of_processes(self, hosts: Sequence[Host], device: str, update: str = "sync") -> tuple[Host, ...]:
        """The host of every worker process of a run, in process order."""
        return tuple(host for host in hosts for _ in range(self.process_count(len(host.replicas), device, update)))


def ports_here(host: Host) -> list[int]:
    """A free port for each replica of a host and one for a server. Raises ValueError for a host whose address is not here."""
    try:
        return free_ports(len(host.replicas) + 1, host.address)
    except OSError as error:
        raise ValueError(
            f"host {host.name}: ports of {host.address} cannot be probed from here: {error.strerror or error}; "
            f"probe them on that machine"
        ) from None


def meet(hosts: Sequence[Host], ports_of: Callable[[Host], Sequence[int]] = ports_here) -> Rendezvous:
    """The hosts with a free port for each replica, and one on the first for a parameter server, as `ports_of` finds them."""
    ports_by_host = [list(ports_of(host)) for host in hosts]
    return Rendezvous(tuple(hosts), tuple(port for ports in ports_by_host for port in ports[:-1]), ports_by_host[0][-1])


def thread_variables(cores: int) -> dict[str, str]:
    """Thread counts of the numerical libraries, to match the cores that a process is pinned to."""
    count = str(cores)
    return {"OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count}


TUNING_VARIABLES = (
    *("NCCL_", "GLOO_", "UCX_", "HOROVOD_"),
    *("OMP_", "GOMP_", "KMP_", "GLIBC_TUNABLES"),
    *("MKL_", "ONEDNN_", "DNNL_", "OPENBLAS_", "CUBLAS_", "CUBLASLT_", "CUDNN_"),
    *("XLA_", "TRITON_", "TORCHINDUCTOR_", "TORCHDYNAMO_", "ATEN_"),
    *("TF_", "TORCH_", "PYTORCH_", "MXNET_", "JAX_"),
)
"""Prefixes of the names of variables by which a user tunes collectives, threads, libraries, compilers, and frameworks.

They are carried to workers on other machines and in containers, and recorded (suite/launch/recorded_env.py).
"""
NETWORK_VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
"""Which interface collectives take. Gloo wants one name; NCCL's own choice may be one that leads nowhere."""


def network_variables(host: Host, names: Sequence[str] = NETWORK_VARIABLES) -> dict[str, str]:
    """The interface by which the processes of a host meet others; of one that is alone the one that leads nowhere else."""
    interface = host.interface or (loopback_interface() if is_loopback(host.address) else "")
    return dict.fromkeys(names, interface) if interface else {}


WAITING_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
"""How long a thread of libgomp spins for the next piece of work before it sleeps."""
DEMO_SPIN_COUNT = 1_000
"""Some microseconds. libgomp's own choice is 300,000 turns, a millisecond or more: nothing is faster as long as every thread
has a core to itself, and nothing slower where one has not (benchmarks/busy_machine.py)."""


def omp_spin_env(run: RunSpec) -> dict[str, str]:
    """libgomp's for a demo on CPU cores, which must bear other load; a reference run has its machine to itself.

    A user's own stand. Only for frameworks whose operators run on libgomp: PyTorch and MXNet, while TensorFlow has a pool of
    its own.
    """
    if run.settings.device != "cpu" or run.settings.profile != "demo" or waiting_in(os.environ):
        return {}
    return {"GOMP_SPINCOUNT": str(DEMO_SPIN_COUNT)}


def waiting_in(variables: Mapping[str, str]) -> str:
    """What these environment variables say about waiting, for the log; empty: nothing, so the runtime decides."""
    return " ".join(f"{name}={variables[name]}" for name in WAITING_VARIABLES if name in variables)


def malloc_variables(run: RunSpec, tunables: str) -> dict[str, str]:
    """glibc's malloc tunables for workers on CPU cores; the user's own GLIBC_TUNABLES stand."""
    if run.settings.device != "cpu" or "GLIBC_TUNABLES" in os.environ:
        return {}
    return {"GLIBC_TUNABLES": tunables}


WITHOUT_PROXY = {"grpc_proxy": ""}
"""gRPC would connect the processes of a run through the proxy of `http_proxy`; an empty value means no proxy."""
LINK_VARIABLES: Mapping[str, Mapping[str, str]] = {
    "auto": {},
    "no_p2p": {"NCCL_P2P_DISABLE": "1"},
    "network": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"},
}
"""Value of `link` to NCCL's variables.

With `no_p2p`, GPUs exchange data through the host's memory; with `network`, over sockets or InfiniBand within a machine too. A
framework that copies without NCCL has its own variable. Processes on CPU cores always use TCP.
"""
DEVICE_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""CUDA numbers devices as NVML does, which says what they are and samples them; its own order begins with the fastest."""


def arithmetic_variables(run: RunSpec) -> dict[str, str]:
    """Return the variables that make fp32 mean fp32 on GPUs, whatever the shell says: libraries of NVIDIA may use TF32."""
    settings = run.settings
    return {"NVIDIA_TF32_OVERRIDE": "0"} if settings.device == "cuda" and settings.precision == "fp32" else {}


def worker(process: int, processes: int, run_file: str, variables: Mapping[str, str]) -> Command:
    """The command of worker `process` of so many, which `worker_context_from_env` tells where it stands."""
    rank_env = {"RANK": str(process), "WORLD_SIZE": str(processes), **DEVICE_ORDER}
    return Command(f"worker-{process}", (*WORKER, run_file), {**variables, **rank_env})


def single_process(run: RunSpec, run_file: str, rendezvous: Rendezvous, host: Host) -> list[Command]:
    """The commands of a framework whose worker holds every replica of a host."""
    variables = {**thread_variables(run.settings.cores_per_device), **omp_spin_env(run)}
    return [worker(rendezvous.hosts.index(host), len(rendezvous.hosts), run_file, variables)]


def server_variables(run: RunSpec, rendezvous: Rendezvous) -> dict[str, str]:
    """Where the parameter server is met; nothing under `update=sync`."""
    return {SERVER_VARIABLE: rendezvous.server_endpoint} if run.settings.asynchronous else {}


def server_commands(
    run: RunSpec, run_file: str, rendezvous: Rendezvous, host: Host, variables: Mapping[str, str] | None = None
) -> list[Command]:
    """The process that serves the workers of `update=async`, on the first host; none under `update=sync`.

    `variables`: what it has beside the common ones.
    """
    if not run.settings.asynchronous or host is not rendezvous.hosts[0]:
        return []
    common = {**thread_variables(1), **server_variables(run, rendezvous)}
    return [Command("server", (*SERVER, run_file), {**common, **(variables or {})}, serves=True)]


def command_variables(run: RunSpec, host: Host, command: Command) -> dict[str, str]:
    """Return the variables that the run sets for a process, in addition to those that the process inherits."""
    links = LINK_VARIABLES[run.settings.link]
    return {"PYTHONUNBUFFERED": "1", **links, **network_variables(host), **command.variables}


def variables_set_by_run(framework: Framework, run: RunSpec) -> frozenset[str]:
    """Return the names of all variables that the run sets for its processes."""
    hosts = hosts_of(run)
    ports = tuple(range(1, sum(len(host.replicas) for host in hosts) + 1))  # any numbers: the names alone are used
    rendezvous = Rendezvous(hosts, ports, len(ports) + 1)
    return frozenset(
        name
        for host in hosts
        for command in framework.commands(run, RUN_FILE, rendezvous, host)
        for name in command_variables(run, host, command)
    )


def needs_private_network(framework: Framework, run: RunSpec) -> bool:
    """Check whether the processes of a run, all on one machine, start in a private network: strangers must not reach them."""
    return framework.listens_everywhere(run.settings) and run.settings.nodes == 1 and not run.open_network


def worker_context_for(run: RunSpec, rank: int, world_size: int) -> WorkerContext:
    """Return the context of a worker. Replicas are assigned in order, the same number to each worker.

    Ranks and replicas are numbered over all machines, devices and cores on each machine.

    Args:
        run: The run.
        rank: Rank of the worker.
        world_size: Number of workers of the run.
    """
    settings = run.settings
    share = settings.devices // world_size
    replicas = range(rank * share, (rank + 1) * share)
    host = next(host for host in hosts_of(run) if replicas.start in host.replicas)
    assert replicas[-1] in host.replicas, "a process drives devices of one host"
    positions = [replica - host.replicas.start for replica in replicas]
    cores: tuple[int, ...] = ()
    if settings.device == "cpu":
        width = settings.cores_per_device
        indices = [position * width + core for position in positions for core in range(width)]
        cores = tuple(sorted({host.cores[index % len(host.cores)] for index in indices}))
        devices = tuple("cpu" for _ in replicas)
    else:
        devices = tuple(f"cuda:{host.devices[position]}" for position in positions)
    return WorkerContext(
        rank,
        world_size,
        replicas,
        settings.devices,
        devices,
        cores,
        settings.cores_per_device,
        host=host.name,
        local_world_size=len(host.replicas) // share,
    )


def worker_context_from_env(run: RunSpec) -> WorkerContext:
    """Return the context of this worker process, from the environment variables that its command has."""
    worker = worker_context_for(run, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    return replace(worker, server=os.environ.get(SERVER_VARIABLE, ""))
