"""Configuration of a run, with a dataclass for each group of configuration keys.

The dataclasses also define the allowed values of each key. `suite.config` composes a `RunConfig`
from the command line and from files. All other packages receive the `RunConfig` as an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, TypeVar

from workloads.api import option

MAX_SECONDS = 1e6
"""Maximum of all settings for the time to wait for a machine, in seconds (about eleven days).

Sockets and ssh use integers for seconds, and larger numbers could overflow.
"""
PORTS = range(1, 1 << 16)


@dataclass
class CpuConfig:
    """`cpu.*`: CPU cores and threads per device under `device=cpu`."""

    cores_per_device: Any = option(
        1,
        "CPU cores of a device; `all`: divide all cores among the devices",
        pattern=r"all|[1-9]\d*",
        example="2",
    )
    threads_per_device: Any = option(
        "auto",
        "threads of a device's operators; auto: one per core, fewer in a demo on a busy machine",
        pattern=r"auto|[1-9]\d*",
        example="1",
    )


@dataclass
class FrameworkConfig:
    """`framework.*`: the framework and options of its trainers."""

    name: str = option("???", "name of the framework")
    linear_backend: str = option(
        "auto",
        "library of linear layers in fp32 on CPU cores (PyTorch); auto: onednn on AMD processors,"
        " else mkl",
        choices=("auto", "mkl", "onednn"),
    )
    graphs: str = option(
        "auto",
        "run a training step on GPUs as a CUDA graph (PyTorch: NCF; ResNet-50 and SSD on one GPU);"
        " auto: off, until measured",
        choices=("auto", "on", "off"),
    )
    kernels: str = option(
        "auto",
        "custom GPU kernels of the suite (PyTorch); auto: on if they compile and agree with their"
        " plain forms",
        choices=("auto", "off"),
    )
    allow_open_grpc: bool = option(
        False,
        "let TensorFlow's gRPC servers, which have no authentication, listen on all interfaces of a"
        " single machine",
    )


@dataclass
class ProfileConfig:
    """`profile.*`: profile (reference, demo, or synthetic) and submission fields."""

    name: str = option("???", "reference, demo or synthetic")
    submission_org: str = option("not submitted", "`submission_org` in the log")
    submission_status: str = option(
        "onprem",
        "`submission_status` in the log",
        choices=("cloud", "onprem", "preview", "research"),
    )


@dataclass
class EnvironmentConfig:
    """`environment.*`: the Python environment in which the framework is installed."""

    name: str = option(
        "auto",
        "auto: the default environment of the framework; current: this Python; custom; docker,"
        " podman, apptainer or enroot; or a name from `suite env create`",
    )
    command_prefix: list[str] = option(
        [], "command before the Python, inside a container if there is one: numactl …"
    )
    python: str | None = option(None, "path of the Python, inside the container if there is one")
    path_map: dict[str, str] = option(
        {}, "folder of this machine to the same folder inside the container"
    )
    image: str | None = option(
        None, "image of the container: NAME:TAG, or a file for apptainer and enroot"
    )
    mounts: list[str] = option(
        [], "further read-only mounts of the container: HOST, HOST:INSIDE, or HOST:INSIDE:rw"
    )
    options: list[str] = option(
        [], "further options of docker run, podman run, apptainer exec or enroot start"
    )


@dataclass
class SystemConfig:
    """`system.*`: description of the machine, such as its name in result tables."""

    name: str = option("local", "short name of the system; tables group by it")
    submission_platform: str = option(
        "auto", "`submission_platform` in the log; auto: devices x device name"
    )
    drop_caches: bool = option(
        False, "write to /proc/sys/vm/drop_caches before each run (needs root)"
    )
    cache_clear_command: list[str] = option([], "command that clears the caches before each run")
    price_per_device_hour: float | None = option(
        None, "price of a device for an hour in any currency, for costs in reports", minimum=0.0
    )


@dataclass
class TimingConfig:
    """`timing.*`: time measurement in runs with a fixed number of steps."""

    warmup_steps: int = option(
        0, "steps before the measured steps, left out of times and throughput", minimum=0
    )
    each: str = option(
        "interval",
        "steps (short: timing=steps): time each step, with a wait after it; segment: time several"
        " steps together",
        choices=("interval", "steps"),
    )


@dataclass
class SlurmConfig:
    """`launch.slurm.*`: the job that `launch=slurm` submits if no allocation exists."""

    sbatch: Any = option([], "further options of sbatch: [--partition=gpu,--time=60]")


@dataclass
class KubernetesConfig:
    """`launch.kubernetes.*`: options of the manifest that `launch=kubernetes` writes.

    See docs/how-to/multiple_nodes.md.
    """

    submit: bool = option(False, "run kubectl apply on the manifest")
    image: str | None = option(None, "image of the pods, NAME:TAG")
    data: str | None = option(None, "prepared data: name of a claim, or /folder of every node")
    logs: str | None = option(None, "folder for runs: name of a claim, or /folder of every node")
    node_selector: Any = option([], "labels of allowed nodes: [KEY=VALUE]")
    jobset: bool = option(
        False, "write a JobSet, which restarts all pods if one fails, instead of a Job"
    )


@dataclass
class LaunchConfig:
    """`launch.*`: machines of a run, and how processes are started on them.

    See docs/how-to/multiple_nodes.md.
    """

    by: str = option(
        "auto",
        "short: launch=ssh; auto: ssh with launch.hosts, slurm inside an allocation, else local;"
        " packages may add launchers",
        choices=("auto", "local", "slurm", "ssh", "external", "kubernetes"),
    )
    hosts: Any = option(
        [], "machines for launch=ssh, in the order of their devices: [a,b] or node[1-4]"
    )
    hostfile: str | None = option(None, "file with the machines for launch=ssh, one per line")
    interface: str | None = option(
        None,
        "network interface, with the same name on all machines; unset: the interface that reaches"
        " the first machine",
    )
    port: int | None = option(
        None,
        "port of the rendezvous on the first machine (external: of the agents); unset: a free port",
        minimum=1,
        maximum=PORTS[-1],
        example="29500",
    )
    slurm: SlurmConfig = option(SlurmConfig, "the job of launch=slurm")
    kubernetes: KubernetesConfig = option(KubernetesConfig, "the manifest of launch=kubernetes")
    wait_seconds: float = option(
        10.0,
        "time within which a machine must answer at the start",
        minimum=1.0,
        maximum=MAX_SECONDS,
        example="30",
    )
    lease_seconds: float = option(
        5.0,
        "time without a message after which a machine is lost",
        minimum=2.0,
        maximum=MAX_SECONDS,
        example="10",
    )


@dataclass
class UpdateConfig:
    """`update.*`: synchronous or asynchronous model updates."""

    kind: str = option(
        "sync",
        "sync: an update sums the gradients of all devices; async (short: update=async): a"
        " parameter server updates for each",
        choices=("sync", "async"),
    )
    straggler_ms: int = option(
        0, "milliseconds that the last device sleeps in each of its steps", minimum=0, example="50"
    )


@dataclass
class CheckpointConfig:
    """`checkpoint.*`: checkpoints and final weights (docs/how-to/resume_and_checkpoints.md)."""

    when: str = option(
        "off",
        "short: checkpoint=every:1; every:EPOCHS or every:MINUTESmin: write checkpoints from which"
        " resume=true resumes",
        pattern=r"off|every:[1-9]\d{0,5}(min)?",
        example="every:1",
    )
    final: bool = option(False, "keep the trained weights in weights.npz next to the log")


@dataclass
class SweepConfig:
    """`sweep.*`: options for the jobs of `-m` and of a study."""

    limit: int = option(
        1000,
        "largest number of jobs of a command; on the command line only, since files are read later",
        minimum=1,
    )


@dataclass
class RunConfig:
    """All configuration keys of a run.

    `workload`, `data`, and `backbone` contain the keys that the workload's `Options` define.
    """

    workload: Any = option(dict, "keys of the workload: see `workload.*`")
    framework: FrameworkConfig = option(FrameworkConfig, "the framework")
    profile: ProfileConfig = option(ProfileConfig, "the kind of run")
    environment: EnvironmentConfig = option(EnvironmentConfig, "the Python that has the framework")
    system: SystemConfig = option(SystemConfig, "the machine")
    cpu: CpuConfig = option(CpuConfig, "CPU cores and threads of a device")
    data: Any = option(dict, "input pipeline: keys of the workloads that have them")
    backbone: Any = option(dict, "pretrained weights: keys of the workloads that have them")
    timing: TimingConfig = option(TimingConfig, "time measurement in runs of fixed length")
    launch: LaunchConfig = option(
        LaunchConfig, "the machines of a run, and how processes are started on them"
    )
    sweep: SweepConfig = option(SweepConfig, "the jobs of a command")
    update: UpdateConfig = option(UpdateConfig, "synchronous or asynchronous updates")
    rules: str = option(
        "auto",
        "round that defines clock, targets and closed rules; auto: the default of the workload",
        choices=("auto",),
    )
    gpus: int = option(1, "number of devices over all nodes", minimum=1, example="8")
    nodes: int = option(
        1, "number of machines, each with the same number of devices", minimum=1, example="2"
    )
    device: str = option(
        "auto",
        "kind of device; auto never falls back to the CPU under profile=reference",
        choices=("auto", "cuda", "cpu"),
    )
    transport: str = option(
        "auto",
        "no_p2p: GPUs exchange data through the host instead of their links; network: through the"
        " network protocol only, also within a machine",
        choices=("auto", "no_p2p", "network"),
    )
    oversubscribe: bool = option(
        False, "allow more devices than the machine has; labels the result"
    )
    precision: str = option(
        "auto",
        "precision of the model; auto: fp32 on CPU cores, on GPUs the first of bf16, fp16, tf32"
        " that workload and device have",
        choices=("auto", "fp32", "tf32", "bf16", "fp16"),
    )
    batch: str = option(
        "default",
        "global batch size: default (of the hyperparameter set), global:N, or per_device:N",
        pattern=r"default|(global|per_device):[1-9]\d*",
        example="global:65536",
    )
    lr_scaling: str = option(
        "default",
        "scaling of the learning rate if the batch differs from the hyperparameter set",
        choices=("default", "none", "linear", "sqrt"),
    )
    runs: Any = option(
        1,
        "runs of each setting; official: the number that the rules require",
        pattern=r"official|[1-9]\d*",
        example="5",
    )
    seed: int | None = option(
        None,
        "seed of the first run (the next has seed + 1); unset: a new seed for each run",
        minimum=0,
        example="1",
    )
    stop: str = option(
        "auto",
        "end of a run; auto: target (synthetic: steps:50)",
        pattern=r"auto|target|(epochs|samples|steps):[1-9]\d*",
        example="epochs:5",
    )
    mode: str = option(
        "train",
        "forward_backward: gradients without an update; forward: the loss only; inference:"
        " evaluation batches only",
        choices=("train", "forward_backward", "forward", "inference"),
    )
    watchdog_seconds: float = option(
        300.0,
        "time without progress after which a process counts as hung",
        minimum=1.0,
        example="300",
    )
    setup_watchdog_seconds: float = option(
        1200.0, "the same while the model is built and compiled", minimum=1.0, example="1200"
    )
    checkpoint: CheckpointConfig = option(CheckpointConfig, "checkpoints and final weights")
    resume: bool = option(
        False,
        "with output=FOLDER: run only the missing runs of the folder, from their checkpoints if"
        " there are any",
    )
    plugins: Any = option(
        [],
        "packages with plugins: folders, wheels or installed distributions, [PATH,NAME]; one list"
        " for a whole sweep",
    )
    dry_run: Any = option(
        False,
        "print the plan and everything that prevents it, and start nothing (also --dry-run); full:"
        " all details of each job",
        choices=("false", "true", "full"),
    )
    output: str | None = option(
        None, "folder for this command's runs; unset: a time stamp below the log folder"
    )

    @property
    def workload_name(self) -> str:
        """Return the name of the workload."""
        return str(self.workload["name"])

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> RunConfig:
        """Build the configuration from a mapping of keys to values.

        A configuration group is a nested mapping. Missing keys get their default values.
        """
        return _build(cls, values)

    def value(self, key: str) -> Any:
        """Return the value of a key such as `gpus` or `timing.each`."""
        found: Any = self
        for name in key.split("."):
            found = getattr(found, name)
        return found


_Config = TypeVar("_Config")


def _build(kind: type[_Config], values: Mapping[str, Any]) -> _Config:
    built: dict[str, Any] = {}
    for item in fields(kind):  # type: ignore[arg-type]
        if item.name in values:
            group = subgroup(item)
            value = values[item.name]
            if group is not None:
                value = _build(group, value)  # type: ignore[arg-type]
            built[item.name] = value
    return kind(**built)


def known_fields(kind: Any) -> dict[str, Field[Any]]:
    """Return the fields of a configuration dataclass that users can set, by name."""
    return {item.name: item for item in fields(kind) if not item.metadata.get("internal")}


def subgroup(item: Field[Any]) -> Callable[[], Any] | None:
    """Return the dataclass of a field that is a group (`cpu`, `environment`, …).

    Returns None for a field with a plain value.
    """
    factory = item.default_factory
    return factory if factory is not MISSING and hasattr(factory, "__dataclass_fields__") else None
