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
"""Environment variable of servers and workers that contains a server's `address:port`. The
variable is set with `update=async` and for MXNet's KVStore.
"""


@dataclass(frozen=True)
class Command:
    """A command that starts a process of a run on a host."""

    name: str
    """Name of the process, such as `server` or `worker-R`. The name is unique in a run.

    The process writes the text log `NAME.log`.
    """
    arguments: tuple[str, ...]
    """Command-line arguments after the path of the host's Python interpreter."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that the run sets for the process."""
    is_server: bool = False
    """True if the process is a server for the workers.

    A server need not exit by itself. If a server exits while workers need it, the run ends.
    """


@dataclass(frozen=True)
class Framework:
    """Definition of a framework.

    A package registers the definition in the entry-point group `suite.frameworks`.
    """

    name: str
    environments: Mapping[str, str]
    """Maps a device type (`cpu`, `cuda`) to the name of the environment that `environment=auto`
    selects.
    """
    packages: tuple[str, ...]
    """Names of alternative distributions that provide the framework.

    The framework's version is the version of the alternative that is installed.
    """
    processes: Callable[[int, str], int]
    """Function that returns the number of worker processes per host with `update=sync`.

    The function's arguments are the number of the host's devices, and `cpu` or `cuda`. With
    `update=async`, the function is not used, because each device has a separate process.
    """
    commands: Callable[[RunSpec, str, Rendezvous, Host], list[Command]]
    """Function that returns the commands of the processes to start on a host.

    The function's arguments are the run, the path of run.json on the host, the rendezvous, and the
    host.
    """
    static_work_split: bool = False
    """True if operators on CPU cores split their work into equal shares, one per thread (OpenMP).

    An operator with equal shares waits for the slowest core. The attribute is False for a thread
    pool that assigns work dynamically (Eigen).
    """
    other_gpu_environments: tuple[str, ...] = ()
    """Alternative GPU environments. `environment=auto` selects one of these environments if the
    environment in `environments` does not support the GPUs or their driver.
    """
    title: str = ""
    """Display name of the framework, such as `PyTorch`. If the string is empty, `name` is
    displayed.
    """
    colour: int | None = None
    """Color slot of the framework in figures. If None, a figure uses a slot that no registered
    framework in the figure's page uses.
    """
    tuning_variables: tuple[str, ...] = ()
    """Prefixes of environment variables that tune this framework, such as `TF_`.

    Prefixes that apply to all frameworks are in TUNING_VARIABLES.
    """
    max_error_vs_float64: Mapping[str, float] = field(default_factory=dict)
    """Maximum deviation of weights and optimizer state from float64 after ten steps on the CPU, by
    optimizer.

    The deviation is relative to the largest element of the array. Each number is the maximum over
    all variants in tests/workloads/frameworks/test_updates.py, rounded up. Plugins that define a
    framework must specify these numbers.
    """
    listens_everywhere: Callable[[Settings], bool] = lambda settings: False
    """Function that returns whether a run's processes accept unauthenticated connections on all
    interfaces. The function's argument is the run's settings.
    """
    has_gpu_kernels: bool = False
    """True if the trainers use the suite's GPU kernels, which `framework.kernels=off` disables."""
    build_info_script: str = ""
    """Python code that prints a JSON list: [version, CUDA version or null, whether a GPU is
    visible, architectures].

    If the string is empty, this information is read from the environment's lock file.
    """

    def process_count(self, devices: int, device: str, update: str = "sync") -> int:
        """Return the number of worker processes per host.

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
    """Return a free port for each replica on a host, and a free port for a server.

    Raises:
        ValueError: The host's address is not an address of this machine.
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

    The rendezvous contains the hosts, a port for each replica, and a port for a server on the first
    host.

    Args:
        hosts: Hosts of the run.
        ports_of: Function that returns a host's free ports: a port for each replica and a port for
            a server.
    """
    ports_by_host = [list(ports_of(host)) for host in hosts]
    return Rendezvous(
        tuple(hosts),
        tuple(port for ports in ports_by_host for port in ports[:-1]),
        ports_by_host[0][-1],
    )


def thread_variables(cores: int) -> dict[str, str]:
    """Return the variables that set the number of threads of numerical libraries.

    The number of threads is `cores`, the number of cores per process.
    """
    count = str(cores)
    return {"OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count}


TUNING_VARIABLES = (
    *("NCCL_", "GLOO_", "UCX_", "HOROVOD_"),
    *("OMP_", "GOMP_", "KMP_", "GLIBC_TUNABLES"),
    *("MKL_", "ONEDNN_", "DNNL_", "OPENBLAS_", "CUBLAS_", "CUBLASLT_", "CUDNN_"),
    *("XLA_", "TRITON_", "TORCHINDUCTOR_", "TORCHDYNAMO_", "ATEN_"),
    *("TF_", "TORCH_", "PYTORCH_", "MXNET_", "JAX_"),
)
"""Prefixes of environment variables that tune collectives, threads, libraries, compilers, and
frameworks.

Variables with these prefixes are copied to workers on remote machines and in containers. They are
also recorded (suite/launch/recorded_env.py).
"""
NETWORK_VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
"""Environment variables that select the network interface of collectives.

Gloo requires a single interface name. Without NCCL_SOCKET_IFNAME, NCCL may choose an interface
without a route to the run's hosts.
"""


def network_variables(host: Host, names: Sequence[str] = NETWORK_VARIABLES) -> dict[str, str]:
    """Return the environment variables that select the network interface on a host.

    If the run has a single host, the loopback interface is selected.

    Args:
        host: Host of the processes.
        names: Variables to set to the name of the interface.
    """
    interface = host.interface or (loopback_interface() if is_loopback(host.address) else "")
    return dict.fromkeys(names, interface) if interface else {}


WAITING_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
"""Environment variables that specify how long an idle libgomp thread spins before it sleeps."""
DEMO_SPIN_COUNT = 1_000
"""Spin count of libgomp for demos, which corresponds to a few microseconds.

libgomp's default is 300,000 iterations, a millisecond or more. If every thread has a separate core,
training with the default is not faster than training with this spin count. If a thread shares its
core, training with the default is slower (benchmarks/busy_machine.py).
"""


def omp_spin_env(run: RunSpec) -> dict[str, str]:
    """Return the variable that sets libgomp's spin count for a demo on CPU cores.

    For any other run, the dictionary is empty. Demos must tolerate other load on their machine,
    while a reference run has the machine to itself. A spin count or wait policy that the user set
    takes precedence. Use this function only for frameworks whose operators use libgomp (PyTorch and
    MXNet). TensorFlow uses a different thread pool.
    """
    if (
        run.settings.device != "cpu"
        or run.settings.profile != "demo"
        or omp_spin_settings(os.environ)
    ):
        return {}
    return {"GOMP_SPINCOUNT": str(DEMO_SPIN_COUNT)}


def omp_spin_settings(env: Mapping[str, str]) -> str:
    """Format the values of WAITING_VARIABLES for the log.

    If no variable is set, the string is empty, and the default of libgomp applies.
    """
    return " ".join(f"{name}={env[name]}" for name in WAITING_VARIABLES if name in env)


def malloc_variables(run: RunSpec, tunables: str) -> dict[str, str]:
    """Return the environment variable that tunes glibc's malloc for workers on CPU cores.

    If the user set GLIBC_TUNABLES, the user's value takes precedence.

    Args:
        run: The run.
        tunables: Value of GLIBC_TUNABLES.
    """
    if run.settings.device != "cpu" or "GLIBC_TUNABLES" in os.environ:
        return {}
    return {"GLIBC_TUNABLES": tunables}


WITHOUT_PROXY = {"grpc_proxy": ""}
"""Environment variable that disables gRPC's proxy. Without it, gRPC would connect the processes
of a run through the proxy in `http_proxy`.
"""
TRANSPORT_VARIABLES: Mapping[str, Mapping[str, str]] = {
    "auto": {},
    "no_p2p": {"NCCL_P2P_DISABLE": "1"},
    "network": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"},
}
"""NCCL variables for each value of `transport`.

With `no_p2p`, GPUs exchange data through host memory. With `network`, GPUs use sockets or
InfiniBand, even within a machine. A framework that copies data without NCCL sets its own variables.
Processes on CPU cores always use TCP.
"""
DEVICE_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""Environment variable that makes CUDA number devices in the same order as NVML. The suite
describes and samples devices through NVML.

By default, CUDA numbers the fastest device first.
"""


def arithmetic_variables(run: RunSpec) -> dict[str, str]:
    """Return the variable that disables TF32 in NVIDIA's libraries for fp32 runs on GPUs.

    The value overrides the value that the user's shell has set.
    """
    settings = run.settings
    return (
        {"NVIDIA_TF32_OVERRIDE": "0"}
        if settings.device == "cuda" and settings.precision == "fp32"
        else {}
    )


def worker(process: int, processes: int, run_file: str, env: Mapping[str, str]) -> Command:
    """Return the command that starts a worker.

    The worker reads the command's environment variables with `worker_context_from_env`.

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
    """Return the command of a host's only worker, which handles all replicas of the host.

    Args:
        run: The run.
        run_file: Path of run.json.
        rendezvous: Hosts and ports of the run.
        host: Host of the worker.
    """
    env = {**thread_variables(run.settings.cores_per_device), **omp_spin_env(run)}
    return [worker(rendezvous.hosts.index(host), len(rendezvous.hosts), run_file, env)]


def server_variables(run: RunSpec, rendezvous: Rendezvous) -> dict[str, str]:
    """Return the environment variable with the address and port of the parameter server.

    With `update=sync`, the dictionary is empty.
    """
    return {SERVER_VARIABLE: rendezvous.server_endpoint} if run.settings.asynchronous else {}


def server_commands(
    run: RunSpec,
    run_file: str,
    rendezvous: Rendezvous,
    host: Host,
    env: Mapping[str, str] | None = None,
) -> list[Command]:
    """Return the command of the parameter server for `update=async` on the first host.

    Args:
        run: The run.
        run_file: Path of run.json.
        rendezvous: Hosts and ports of the run.
        host: Host for which commands are returned.
        env: Environment variables in addition to the thread counts and the server's address.

    Returns:
        A list with the command. The list is empty with `update=sync`, and for all hosts except the
        first.
    """
    if not run.settings.asynchronous or host is not rendezvous.hosts[0]:
        return []
    common = {**thread_variables(1), **server_variables(run, rendezvous)}
    return [Command("server", (*SERVER, run_file), {**common, **(env or {})}, is_server=True)]


def command_variables(run: RunSpec, host: Host, command: Command) -> dict[str, str]:
    """Return the environment variables that the run sets for a process.

    The process gets these variables in addition to the inherited variables.
    """
    links = TRANSPORT_VARIABLES[run.settings.transport]
    return {"PYTHONUNBUFFERED": "1", **links, **network_variables(host), **command.env}


def variables_set_by_run(framework: Framework, run: RunSpec) -> frozenset[str]:
    """Return the names of all environment variables that the run sets for its processes."""
    hosts = hosts_of(run)
    # The ports are placeholders, because only the names of the variables are needed.
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

    Other users of the machine cannot reach a private network. The private network is needed for a
    run on a single machine whose framework listens on all interfaces, unless
    `framework.allow_open_grpc` is set.
    """
    return (
        framework.listens_everywhere(run.settings)
        and run.settings.nodes == 1
        and not run.open_network
    )


def worker_context_for(run: RunSpec, rank: int, world_size: int) -> WorkerContext:
    """Return the `WorkerContext` of a worker.

    All workers have the same number of replicas, and the replicas of a worker are consecutive.
    Ranks and replicas are numbered across all machines. Devices and cores are numbered per machine.

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
    """Return the `WorkerContext` of this worker process.

    The rank and the world size are read from the environment variables of the worker's command.
    """
    worker = worker_context_for(run, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    return replace(worker, server=os.environ.get(SERVER_VARIABLE, ""))
