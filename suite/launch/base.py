"""Framework definition: what the controller needs to launch the workers of a framework."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from suite.common.run_folder import RUN_FILE
from suite.common.runspec import Host, RunSpec
from suite.launch.hosts import Rendezvous, hosts_of
from suite.launch.network import free_ports, is_loopback, loopback_interface
from workloads.api import Settings, WorkerContext

WORKER = ("-m", "suite.worker.main")
SERVER = ("-m", "suite.worker.server")
SERVER_VARIABLE = "SUITE_SERVER"
"""Environment variable of servers and workers with a server's `address:port` (`update=async`, and
the KVStore of MXNet).
"""


@dataclass(frozen=True)
class Command:
    """One process to start on a host."""

    name: str
    """Name of the process, unique in its run, such as `server` or `worker-R`.

    The text log of the process has the same name.
    """
    arguments: tuple[str, ...]
    """Arguments after the host's Python on the command line."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that the run sets for the process."""
    is_server: bool = False
    """Whether the process is a server for the workers.

    A server need not end by itself, and the run is over if it does.
    """


@dataclass(frozen=True)
class Framework:
    """Definition of a framework.

    A package registers it under the entry-point group `suite.frameworks`.
    """

    name: str
    environments: Mapping[str, str]
    """Name of the environment that `environment=auto` selects, by device (`cpu`, `cuda`)."""
    packages: tuple[str, ...]
    """Alternative distributions of the framework.

    The version of the installed distribution is the framework's version.
    """
    processes: Callable[[int, str], int]
    """Returns the number of worker processes of a host with `update=sync`.

    The arguments are the number of devices of the host, and `cpu` or `cuda`. With `update=async`,
    each device has a process.
    """
    commands: Callable[[RunSpec, str, Rendezvous, Host], list[Command]]
    """Returns the processes to start on a host.

    The arguments are the run, the path of run.json in the file system of the host's workers, the
    rendezvous, and the host.
    """
    static_work_split: bool = False
    """Whether an operator on CPU cores gives each thread an equal share of its work (OpenMP).

    Such an operator ends when the slowest core ends. It is False for a thread pool whose threads
    take the remaining work piece by piece (Eigen).
    """
    other_gpu_environments: tuple[str, ...] = ()
    """Environments that `environment=auto` selects if they support the GPUs and their driver and
    `environments` does not.
    """
    title: str = ""
    """Name in sentences and descriptions, such as `PyTorch`. Empty: `name`."""
    colour: int | None = None
    """Color slot in figures. None: a slot that no registered framework of the page has."""
    tuning_variables: tuple[str, ...] = ()
    """Prefixes of environment variables with which users tune this framework, such as `TF_`.

    TUNING_VARIABLES has the prefixes that apply to all frameworks.
    """
    max_error_vs_float64: Mapping[str, float] = field(default_factory=dict)
    """Largest difference of weights and optimizer state from float64 after ten steps on the CPU, by
    optimizer.

    Differences are relative to the largest value of the array. Each figure is the maximum over all
    variants in tests/workloads/frameworks/test_updates.py, rounded up. Packages with a framework
    specify the figures.
    """
    listens_everywhere: Callable[[Settings], bool] = lambda settings: False
    """Returns whether processes of a run with these settings accept unauthenticated connections on
    all interfaces.
    """
    has_gpu_kernels: bool = False
    """Whether the trainers use GPU kernels of the suite, which `framework.kernels=off` disables."""
    build_info_script: str = ""
    """Python code that prints a JSON list: [version, CUDA version or null, whether a GPU is
    visible, architectures].

    Empty: the lock file of the environment specifies these facts.
    """

    def process_count(self, devices: int, device: str, update: str = "sync") -> int:
        """Return the number of worker processes of a host.

        Args:
            devices: Number of devices of the host.
            device: `cpu` or `cuda`.
            update: `sync` or `async`.
        """
        return devices if update == "async" else self.processes(devices, device)

    def hosts_of_processes(
        self, hosts: Sequence[Host], device: str, update: str = "sync"
    ) -> tuple[Host, ...]:
        """Return the host of every worker process of a run, ordered by rank.

        Args:
            hosts: Hosts of the run.
            device: `cpu` or `cuda`.
            update: `sync` or `async`.
        """
        return tuple(
            host
            for host in hosts
            for _ in range(self.process_count(len(host.replicas), device, update))
        )


def ports_here(host: Host) -> list[int]:
    """Return a free port for each replica of a host, and a free port for a server.

    Raises:
        ValueError: The address of the host is not an address of this machine.
    """
    try:
        return free_ports(len(host.replicas) + 1, host.address)
    except OSError as error:
        raise ValueError(
            f"host {host.name}: the ports of {host.address} cannot be probed from this machine "
            f"({error.strerror or error}). Probe them on {host.name}"
        ) from None


def create_rendezvous(
    hosts: Sequence[Host], ports_of: Callable[[Host], Sequence[int]] = ports_here
) -> Rendezvous:
    """Return the rendezvous of a run.

    It has the hosts, a port for each replica, and a port on the first host for a server.

    Args:
        hosts: Hosts of the run.
        ports_of: Returns a free port of a host for each of its replicas, and a free port for a
            server.
    """
    ports_by_host = [list(ports_of(host)) for host in hosts]
    return Rendezvous(
        tuple(hosts),
        tuple(port for ports in ports_by_host for port in ports[:-1]),
        ports_by_host[0][-1],
    )


def thread_variables(cores: int) -> dict[str, str]:
    """Return variables that limit the threads of numerical libraries to the cores of a process."""
    count = str(cores)
    return {"OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count}


TUNING_VARIABLES = (
    *("NCCL_", "GLOO_", "UCX_", "HOROVOD_"),
    *("OMP_", "GOMP_", "KMP_", "GLIBC_TUNABLES"),
    *("MKL_", "ONEDNN_", "DNNL_", "OPENBLAS_", "CUBLAS_", "CUBLASLT_", "CUDNN_"),
    *("XLA_", "TRITON_", "TORCHINDUCTOR_", "TORCHDYNAMO_", "ATEN_"),
    *("TF_", "TORCH_", "PYTORCH_", "MXNET_", "JAX_"),
)
"""Prefixes of environment variables with which users tune collectives, threads, libraries,
compilers, and frameworks.

These variables are copied to workers on remote machines and in containers. They are recorded
(suite/launch/recorded_env.py).
"""
NETWORK_VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
"""Variables that select the network interface of collectives.

Gloo requires a single name. NCCL's default may be an interface without a route to the hosts of the
run.
"""


def network_variables(host: Host, names: Sequence[str] = NETWORK_VARIABLES) -> dict[str, str]:
    """Return variables that select the interface through which a host's processes communicate.

    The interface is the loopback interface if the run has a single host.

    Args:
        host: Host of the processes.
        names: Variables to set to the name of the interface.
    """
    interface = host.interface or (loopback_interface() if is_loopback(host.address) else "")
    return dict.fromkeys(names, interface) if interface else {}


WAITING_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
"""Variables that specify how long an idle thread of libgomp spins before it sleeps."""
DEMO_SPIN_COUNT = 1_000
"""Spin count of libgomp for demos: some microseconds.

libgomp's default is 300,000 iterations, a millisecond or more. No setting is faster as long as
every thread has a core to itself, and no setting is slower if a thread shares its core
(benchmarks/busy_machine.py).
"""


def omp_spin_env(run: RunSpec) -> dict[str, str]:
    """Return the variable that sets libgomp's spin count for a demo on CPU cores.

    Returns an empty dict for any other run. Demos must tolerate other load on their machine. A
    reference run has its machine to itself. A spin count or wait policy that the user set takes
    precedence. Use this function only for frameworks whose operators run on libgomp: PyTorch and
    MXNet. TensorFlow has a different thread pool.
    """
    if (
        run.settings.device != "cpu"
        or run.settings.profile != "demo"
        or omp_spin_settings(os.environ)
    ):
        return {}
    return {"GOMP_SPINCOUNT": str(DEMO_SPIN_COUNT)}


def omp_spin_settings(env: Mapping[str, str]) -> str:
    """Return the settings in WAITING_VARIABLES for the log.

    Empty: none is set, and the runtime's default applies.
    """
    return " ".join(f"{name}={env[name]}" for name in WAITING_VARIABLES if name in env)


def malloc_variables(run: RunSpec, tunables: str) -> dict[str, str]:
    """Return the variable with the tunables of glibc's malloc for workers on CPU cores.

    A GLIBC_TUNABLES that the user set takes precedence.

    Args:
        run: The run.
        tunables: Value of GLIBC_TUNABLES.
    """
    if run.settings.device != "cpu" or "GLIBC_TUNABLES" in os.environ:
        return {}
    return {"GLIBC_TUNABLES": tunables}


WITHOUT_PROXY = {"grpc_proxy": ""}
"""Disables the proxy of gRPC, which would otherwise connect the processes of a run through the
proxy of `http_proxy`.
"""
TRANSPORT_VARIABLES: Mapping[str, Mapping[str, str]] = {
    "auto": {},
    "no_p2p": {"NCCL_P2P_DISABLE": "1"},
    "network": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"},
}
"""NCCL variables for each value of `transport`.

With `no_p2p`, GPUs exchange data through the host's memory. With `network`, they use sockets or
InfiniBand within a machine too. A framework that copies without NCCL sets its variable itself.
Processes on CPU cores always use TCP.
"""
DEVICE_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""Makes CUDA number devices in the order of NVML, which the suite uses to describe and to sample
them.

CUDA's default order begins with the fastest device.
"""


def arithmetic_variables(run: RunSpec) -> dict[str, str]:
    """Return the variable that forbids TF32 in NVIDIA's libraries for a run in fp32 on GPUs.

    The variable overrides the value in the shell.
    """
    settings = run.settings
    return (
        {"NVIDIA_TF32_OVERRIDE": "0"}
        if settings.device == "cuda" and settings.precision == "fp32"
        else {}
    )


def worker(process: int, processes: int, run_file: str, env: Mapping[str, str]) -> Command:
    """Return the command that starts a worker.

    Its environment variables are those that `worker_context_from_env` reads.

    Args:
        process: Rank of the worker.
        processes: Number of workers of the run.
        run_file: Path of run.json.
        env: Additional environment variables of the worker.
    """
    rank_env = {"RANK": str(process), "WORLD_SIZE": str(processes), **DEVICE_ORDER}
    return Command(f"worker-{process}", (*WORKER, run_file), {**env, **rank_env})


def single_process(
    run: RunSpec, run_file: str, rendezvous: Rendezvous, host: Host
) -> list[Command]:
    """Return the command of the only worker of a host, which holds all replicas of the host.

    Args:
        run: The run.
        run_file: Path of run.json.
        rendezvous: Hosts and ports of the run.
        host: Host of the worker.
    """
    env = {**thread_variables(run.settings.cores_per_device), **omp_spin_env(run)}
    return [worker(rendezvous.hosts.index(host), len(rendezvous.hosts), run_file, env)]


def server_variables(run: RunSpec, rendezvous: Rendezvous) -> dict[str, str]:
    """Return the variable with the endpoint of the parameter server.

    Returns an empty dict with `update=sync`.
    """
    return {SERVER_VARIABLE: rendezvous.server_endpoint} if run.settings.asynchronous else {}


def server_commands(
    run: RunSpec,
    run_file: str,
    rendezvous: Rendezvous,
    host: Host,
    env: Mapping[str, str] | None = None,
) -> list[Command]:
    """Return the command of the parameter server of `update=async` on the first host.

    Args:
        run: The run.
        run_file: Path of run.json.
        rendezvous: Hosts and ports of the run.
        host: Host whose commands are collected.
        env: Environment variables in addition to the thread counts and the endpoint.

    Returns:
        An empty list with `update=sync`, and for all hosts except the first.
    """
    if not run.settings.asynchronous or host is not rendezvous.hosts[0]:
        return []
    common = {**thread_variables(1), **server_variables(run, rendezvous)}
    return [Command("server", (*SERVER, run_file), {**common, **(env or {})}, is_server=True)]


def command_variables(run: RunSpec, host: Host, command: Command) -> dict[str, str]:
    """Return the environment variables that the run sets for a process.

    The process gets them in addition to the inherited variables.
    """
    links = TRANSPORT_VARIABLES[run.settings.transport]
    return {"PYTHONUNBUFFERED": "1", **links, **network_variables(host), **command.env}


def variables_set_by_run(framework: Framework, run: RunSpec) -> frozenset[str]:
    """Return the names of all variables that the run sets for its processes."""
    hosts = hosts_of(run)
    # The port numbers are arbitrary, because they are not used.
    ports = tuple(range(1, sum(len(host.replicas) for host in hosts) + 1))
    rendezvous = Rendezvous(hosts, ports, len(ports) + 1)
    return frozenset(
        name
        for host in hosts
        for command in framework.commands(run, RUN_FILE, rendezvous, host)
        for name in command_variables(run, host, command)
    )


def needs_private_network(framework: Framework, run: RunSpec) -> bool:
    """Check whether the processes of a run must start in a private network.

    Other users cannot reach such a network. It is needed for a run on a single machine whose
    framework listens on all interfaces, unless `framework.allow_open_grpc` is set.
    """
    return (
        framework.listens_everywhere(run.settings)
        and run.settings.nodes == 1
        and not run.open_network
    )


def worker_context_for(run: RunSpec, rank: int, world_size: int) -> WorkerContext:
    """Return the context of a worker.

    Replicas are assigned in order, the same number to each worker.

    Ranks and replicas are numbered across all machines. Devices and cores are numbered on each
    machine.

    Args:
        run: The run.
        rank: Rank of the worker.
        world_size: Number of workers of the run.
    """
    settings = run.settings
    share = settings.devices // world_size
    replicas = range(rank * share, (rank + 1) * share)
    host = next(host for host in hosts_of(run) if replicas.start in host.replicas)
    assert replicas[-1] in host.replicas, "all replicas of a worker must be on the same host"
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
    """Return the context of this worker process, from the environment variables of its command."""
    worker = worker_context_for(run, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    return replace(worker, server=os.environ.get(SERVER_VARIABLE, ""))
