"""Choose the devices of a run, and the environment for `environment=auto`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from suite.common.run_config import RunConfig
from suite.environments import environment, locks
from suite.launch.base import Framework
from suite.launch.hosts import AvailableHost
from suite.machine import devices
from suite.plan.unsupported import Lacks, MissingResourceError


@dataclass(frozen=True)
class Devices:
    """The devices of a run."""

    kind: str
    """Device type: `cpu` or `cuda`."""
    count: int
    """Total number of devices on all machines.

    If fewer devices are available than requested, `count` is the available number.
    """
    cores: int
    """Number of CPU cores per device."""
    oversubscribe: bool
    """True if several devices share CPU cores."""


def decide_devices(
    config: RunConfig,
    profile: str,
    framework: Framework,
    hosts: Sequence[AvailableHost],
    lacks: Lacks,
) -> Devices:
    """Return the devices of a run.

    Args:
        config: The configuration.
        profile: Name of the profile. Under `device=auto`, the profile `reference` requires GPUs.
        framework: The framework. Under `device=auto`, a demo uses GPUs only if the framework has an
            environment for GPUs.
        hosts: The machines that the run may use. If empty, the run uses this machine.
        lacks: Function that is called if the machines lack devices or cores, or if there are too
            few machines.

    Raises:
        ValueError: A GPU does not respond.
    """
    count = _evenly_shared(config, hosts, lacks)
    kind, count = _kind_and_count(config, count, profile, framework, hosts, lacks)
    return _with_cores(config, kind, count, hosts, lacks)


def _evenly_shared(config: RunConfig, hosts: Sequence[AvailableHost], lacks: Lacks) -> int:
    """Return the largest number of devices, up to `config.gpus`, that can be split evenly.

    The devices are split across the machines.
    """
    count, machines = config.gpus, config.nodes
    if machines > max(1, len(hosts)):
        remedy = (
            "Set launch.hosts=[a,b] (ssh), run this inside a SLURM allocation (salloc"
            f" -N{machines}), or leave nodes out to use only this machine"
        )
        lacks(MissingResourceError(f"nodes={machines}: no machines are named", remedy))
    if (error := uneven(count, machines)) is None:
        return count
    lacks(error)
    return max(1, count // machines) * machines


def uneven(count: int, machines: int) -> MissingResourceError | None:
    """Return the error for devices that cannot be split evenly across the machines.

    Returns None if the devices can be split evenly.
    """
    if count % machines == 0:
        return None
    fitting = max(1, count // machines) * machines
    return MissingResourceError(
        f"nodes={machines} gpus={count}: every machine must have the same number of devices",
        f"Set gpus={fitting} or a different multiple of {machines}",
    )


def _kind_and_count(
    config: RunConfig,
    count: int,
    profile: str,
    framework: Framework,
    hosts: Sequence[AvailableHost],
    lacks: Lacks,
) -> tuple[str, int]:
    """Return the device type (`cpu` or `cuda`) and the number of devices.

    The number of GPUs is limited to the number of visible GPUs.
    """
    requested = config.device
    for host in hosts:
        if host.gpu_fault and requested != "cpu":
            raise ValueError(f"machine {host.name}: {host.gpu_fault}")
    visible = min(visible_gpus(hosts), key=len) if requested != "cpu" else []
    machines = max(1, len(hosts))
    if not visible and requested == "cuda":
        problem = (
            "device=cuda: no NVIDIA GPU is visible (check the driver and CUDA_VISIBLE_DEVICES)"
        )
        lacks(MissingResourceError(problem, "Set device=cpu"))
        return "cuda", count  # later error messages then also refer to GPUs
    if not visible and requested == "auto" and profile == "reference":
        remedy = (
            "To train on CPU cores, set device=cpu. For a small run without a data set, set"
            " profile=demo"
        )
        lacks(MissingResourceError("profile=reference needs a GPU, but no GPU is visible", remedy))
        return "cuda", count
    use_cuda = bool(visible) and (
        requested == "cuda" or _has_cuda_environment(config, profile, framework)
    )
    if use_cuda and count > machines * len(visible):
        available = machines * len(visible)
        problem = f"gpus={count}: {smallest_host(hosts)} has {len(visible)} visible GPU(s)"
        lacks(MissingResourceError(problem, f"Set gpus={available} or less"))
        count = available
    return "cuda" if use_cuda else "cpu", count


def _has_cuda_environment(config: RunConfig, profile: str, framework: Framework) -> bool:
    """Check whether a run under `device=auto` has an environment for GPUs.

    Returns True for the profile `reference` in any case, because this profile requires GPUs.
    """
    if profile == "reference":
        return True
    try:
        auto = auto_environment(framework, "cuda", (), config.gpus)
        environment.resolve(config.environment, auto, tell=lambda line: None)
    except ValueError:
        return False
    return True


def _with_cores(
    config: RunConfig, kind: str, count: int, hosts: Sequence[AvailableHost], lacks: Lacks
) -> Devices:
    """Return the devices with their number of CPU cores.

    The number of devices is reduced if a machine has too few CPU cores.
    """
    cores = min((len(host.cores) for host in hosts), default=0) or len(devices.cpu_cores())
    machines, requested = max(len(hosts), config.nodes), config.cpu.cores_per_device
    per_machine = count // machines
    per_device = max(1, cores // per_machine) if requested == "all" else int(requested)
    oversubscribe = config.oversubscribe
    if kind == "cpu" and per_device * per_machine > cores and not oversubscribe:
        fitting = max(1, cores // per_device) * machines
        problem = (
            f"gpus={count}: {per_machine} CPU device(s) of {per_device} core(s) need"
            f" {per_device * per_machine} cores, but {smallest_host(hosts)} has {cores}"
        )
        fewer_cores = ", or cpu.cores_per_device=1" if per_device > 1 else ""
        remedy = f"Set gpus={fitting}{fewer_cores}, or oversubscribe=true (labels the result)"
        lacks(MissingResourceError(problem, remedy))
        oversubscribe = fitting >= count
        count = min(fitting, count)
    return Devices(kind, count, per_device, oversubscribe)


def smallest_host(hosts: Sequence[AvailableHost]) -> str:
    """Return the name of the machine with the fewest GPUs and cores, for error messages."""
    least = min(hosts, key=lambda host: (len(host.hardware["gpus"]), len(host.cores)), default=None)
    return "this machine" if least is None else f"machine {least.name}"


def visible_gpus(hosts: Sequence[AvailableHost]) -> list[list[Mapping[str, Any]]]:
    """Return the GPUs of each machine, or of this machine if `hosts` is empty.

    The descriptions of the GPUs have the format of `suite.machine.devices.hardware`.
    """
    return (
        [host.hardware["gpus"] for host in hosts]
        if hosts
        else [[asdict(gpu) for gpu in devices.gpus()]]
    )


def gpu_capabilities(hosts: Sequence[AvailableHost], count: int) -> list[str]:
    """Return the distinct compute capabilities of the first `count` GPUs.

    The `count` GPUs are split evenly across the machines.
    """
    per_machine = count // max(1, len(hosts))
    return sorted(
        {str(gpu["capability"]) for gpus in visible_gpus(hosts) for gpu in gpus[:per_machine]}
    )


def auto_environment(
    framework: Framework, device: str, hosts: Sequence[AvailableHost], count: int
) -> str:
    """Return the environment that `environment=auto` selects.

    Returns the framework's first environment that supports the GPUs and the CUDA driver.
    """
    name, alternatives = framework.environments[device], framework.other_gpu_environments
    if device == "cpu" or not alternatives:
        return name
    with devices.nvml() as library:
        driver = None if library is None or hosts else devices.cuda_driver_version(library)
    return locks.suiting([name, *alternatives], gpu_capabilities(hosts, count), driver)
