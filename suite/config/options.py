"""The settings that a user types: a dataclass per Hydra group, with what is allowed beside each key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any

from workloads.api import option

MOST_SECONDS = 1e6
"""That a machine is waited for, eleven days: sockets and ssh count seconds in integers of their own."""
PORTS = range(1, 1 << 16)


@dataclass
class Cpu:
    """`cpu.*`: what a device is when `device=cpu`."""

    cores_per_device: Any = option(
        1, "CPU cores that make one device; `all` shares out every core", pattern=r"all|[1-9]\d*", example="2"
    )
    threads_per_device: Any = option(
        "auto",
        "threads of a device's operators; auto: one for each core, in a demo fewer where others use its cores",
        pattern=r"auto|[1-9]\d*",
        example="1",
    )


@dataclass
class FrameworkConfig:
    """`framework.*`."""

    name: str = option("???", "the framework's name")
    linear: str = option(
        "auto",
        "library of linear layers in fp32 on CPU cores (PyTorch); auto: onednn on AMD's processors, else mkl",
        choices=("auto", "mkl", "onednn"),
    )
    graphs: str = option(
        "auto",
        "a training step on GPUs as one CUDA graph (PyTorch: NCF; ResNet-50 and SSD on one GPU); auto: off, until measured",
        choices=("auto", "on", "off"),
    )
    kernels: str = option(
        "auto",
        "the suite's own kernels on GPUs (PyTorch); auto: where they compile and agree with their plain forms",
        choices=("auto", "off"),
    )
    allow_open_grpc: bool = option(
        False,
        "let TensorFlow's gRPC servers, which have no authentication, listen on all interfaces of a single machine",
    )


@dataclass
class ProfileConfig:
    """`profile.*`: what kind of run this is."""

    name: str = option("???", "reference, demo or synthetic")
    submission_org: str = option("not submitted", "`submission_org` in the log")
    submission_status: str = option(
        "onprem", "`submission_status` in the log", choices=("cloud", "onprem", "preview", "research")
    )


@dataclass
class EnvironmentConfig:
    """`environment.*`: how to reach a Python that has the framework."""

    name: str = option(
        "auto",
        "auto: the framework's own; current: this Python; custom; docker, podman, apptainer or enroot; or a name made by "
        "`suite env create`",
    )
    argv_prefix: list[str] = option([], "what stands before the Python, in a container inside it: numactl …")
    python: str | None = option(None, "the Python to call, as seen inside a container")
    path_map: dict[str, str] = option({}, "host folder to the folder inside a container")
    image: str | None = option(None, "a container's image: NAME:TAG, or a file for apptainer and enroot")
    mounts: list[str] = option([], "more to see in a container, read-only: HOST, HOST:INSIDE, or HOST:INSIDE:rw")
    options: list[str] = option([], "more words for docker run, podman run, apptainer exec or enroot start")


@dataclass
class SystemConfig:
    """`system.*`: the machine, as tables name it."""

    name: str = option("local", "short name of the system; tables group by it")
    submission_platform: str = option("auto", "`submission_platform` in the log; auto: devices x device name")
    drop_caches: bool = option(False, "write to /proc/sys/vm/drop_caches before each run (needs root)")
    cache_clear_command: list[str] = option([], "a command that clears the caches, run before each run")
    price_per_device_hour: float | None = option(
        None, "price of one device for an hour, in any currency: reports then say what runs cost", minimum=0.0
    )


@dataclass
class TimingConfig:
    """`timing.*`: what is timed in runs of fixed length."""

    warmup_steps: int = option(0, "steps before the measured ones, left out of times and throughput", minimum=0)
    each: str = option(
        "stretch",
        "what is timed by itself: steps (short: timing=steps), each with a wait, or a stretch of them without",
        choices=("stretch", "steps"),
    )


@dataclass
class LaunchConfig:
    """`launch.*`: the machines of a run, and how processes are started there (docs/several_machines.md)."""

    by: str = option(
        "auto",
        "short: launch=ssh; auto: ssh with launch.hosts, slurm inside an allocation, else local; a package may bring others",
        choices=("auto", "local", "slurm", "ssh", "external", "kubernetes"),
    )
    hosts: Any = option([], "machines for launch=ssh, in the order of their devices: [a,b] or node[1-4]")
    hostfile: str | None = option(None, "the same from a file: one machine a line")
    interface: str | None = option(
        None, "network interface, of the same name on all; unset: the one that leads to the first"
    )
    port: int | None = option(
        None,
        "where processes meet on the first machine (external: agents); unset: a free one",
        minimum=1,
        maximum=PORTS[-1],
        example="29500",
    )
    sbatch: Any = option([], "what sbatch gets where launch=slurm submits: [--partition=gpu,--time=60]")
    submit: bool = option(False, "kubernetes: hand what was written to kubectl")
    image: str | None = option(None, "kubernetes: the image of the pods, NAME:TAG")
    data: str | None = option(None, "kubernetes: prepared data, as a claim's name or a /folder of every node")
    logs: str | None = option(None, "kubernetes: where runs write, as a claim's name or a /folder of every node")
    node_selector: Any = option([], "kubernetes: labels of the nodes that may be taken: [KEY=VALUE]")
    jobset: bool = option(False, "kubernetes: a JobSet, which starts all pods again where one fails, in place of a Job")
    wait_seconds: float = option(
        10.0, "how long a machine may take to answer at all", minimum=1.0, maximum=MOST_SECONDS, example="30"
    )
    lease_seconds: float = option(
        5.0, "a machine that is silent for so long is lost", minimum=2.0, maximum=MOST_SECONDS, example="10"
    )


@dataclass
class UpdateConfig:
    """`update.*`: who waits for whom before an update."""

    kind: str = option(
        "sync",
        "sync: one update by the gradients of all devices; async (short: update=async): one by those of each, on a server",
        choices=("sync", "async"),
    )
    straggler_ms: int = option(
        0, "milliseconds that the last device sleeps in each of its steps", minimum=0, example="50"
    )


@dataclass
class CheckpointConfig:
    """`checkpoint.*`: what a run leaves of its weights (docs/checkpoints.md)."""

    when: str = option(
        "off",
        "short: checkpoint=every:1; every:EPOCHS, or every:MINUTESmin: what resume=true goes on from",
        pattern=r"off|every:[1-9]\d{0,5}(min)?",
        example="every:1",
    )
    final: bool = option(False, "keep the trained weights, in weights.npz beside the log")


@dataclass
class SweepConfig:
    """`sweep.*`: the jobs of `-m` and of a study."""

    limit: int = option(1000, "most jobs of one command; typed, since it is asked before files are read", minimum=1)


@dataclass
class SuiteConfig:
    """The keys at the top level."""

    workload: Any = option(dict, "the workload's own keys: see `workload.*`")
    framework: FrameworkConfig = option(FrameworkConfig, "the framework")
    profile: ProfileConfig = option(ProfileConfig, "the kind of run")
    environment: EnvironmentConfig = option(EnvironmentConfig, "where the framework is installed")
    system: SystemConfig = option(SystemConfig, "the machine")
    cpu: Cpu = option(Cpu, "what a device is on a CPU")
    data: Any = option(dict, "how samples are read: keys of the workloads that have them")
    backbone: Any = option(dict, "pretrained weights: keys of the workloads that have them")
    timing: TimingConfig = option(TimingConfig, "what is timed")
    launch: LaunchConfig = option(LaunchConfig, "the machines of a run, and how processes are started there")
    sweep: SweepConfig = option(SweepConfig, "the jobs of one command")
    update: UpdateConfig = option(UpdateConfig, "who waits for whom before an update")
    rules: str = option(
        "auto", "round that clock, targets and closed rules are of; auto: the workload's own", choices=("auto",)
    )
    gpus: int = option(1, "devices in total, over all nodes", minimum=1, example="8")
    nodes: int = option(1, "machines, each with an equal share of the devices", minimum=1, example="2")
    device: str = option(
        "auto",
        "kind of device; auto never falls back to the CPU under profile=reference",
        choices=("auto", "cuda", "cpu"),
    )
    link: str = option(
        "auto",
        "no_p2p: GPUs exchange data by way of the host, not over their own links; network: by the network's protocol "
        "alone, also within a machine",
        choices=("auto", "no_p2p", "network"),
    )
    oversubscribe: bool = option(False, "allow more devices than there are; labels the result")
    precision: str = option(
        "auto",
        "arithmetic of the model; auto: fp32 on CPU cores, on GPUs bf16, fp16 or tf32, the first that workload and device have",
        choices=("auto", "fp32", "tf32", "bf16", "fp16"),
    )
    batch: str = option(
        "set",
        "global batch size: the hyperparameter set's, or global:N, or per_device:N",
        pattern=r"set|(global|per_device):[1-9]\d*",
        example="global:65536",
    )
    lr_scaling: str = option(
        "set", "learning rate when the batch is not the set's", choices=("set", "none", "linear", "sqrt")
    )
    runs: Any = option(
        1,
        "runs of each setting; official: the number that the rules ask for",
        pattern=r"official|[1-9]\d*",
        example="5",
    )
    seed: int | None = option(
        None, "seed of the first run (the next has seed + 1); unset: a fresh one each", minimum=0, example="1"
    )
    stop: str = option(
        "auto",
        "when a run ends; auto: target (synthetic: steps:50)",
        pattern=r"auto|target|(epochs|samples|steps):[1-9]\d*",
        example="epochs:5",
    )
    mode: str = option(
        "train",
        "forward_backward: gradients without an update; forward: the loss alone; inference: evaluation batches alone",
        choices=("train", "forward_backward", "forward", "inference"),
    )
    watchdog_seconds: float = option(
        300.0, "a process without progress for so long is hung", minimum=1.0, example="300"
    )
    setup_watchdog_seconds: float = option(
        1200.0, "the same while the model is built and compiled", minimum=1.0, example="1200"
    )
    checkpoint: CheckpointConfig = option(CheckpointConfig, "what a run leaves of its weights")
    resume: bool = option(False, "with output=FOLDER: run only what is missing there, from checkpoints where there are")
    plugins: Any = option(
        [], "packages from outside: folders, wheels or installed distributions, [PATH,NAME]; one list for a whole sweep"
    )
    dry_run: Any = option(
        False,
        "say what would run and what is in the way, and start nothing; also --dry-run; full: all of each job of a sweep",
        choices=("false", "true", "full"),
    )
    output: str | None = option(None, "folder for this command's runs; unset: a time stamp below the log folder")


def known_fields(kind: Any) -> dict[str, Field[Any]]:
    """Name to field of a configuration dataclass, of those that a user can type."""
    return {item.name: item for item in fields(kind) if not item.metadata.get("internal")}


def subgroup(item: Field[Any]) -> Callable[[], Any] | None:
    """The dataclass below a field (`cpu`, `environment`, …), None for a plain value."""
    factory = item.default_factory
    return factory if factory is not MISSING and hasattr(factory, "__dataclass_fields__") else None
