"""Resolves the composed configuration to the settings of a run: chooses defaults, scales, and refuses invalid settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from suite.common import registry
from suite.common.paths import data_root
from suite.common.registry import not_allowed
from suite.common.run_config import RunConfig
from suite.environments import environment, locks
from suite.launch.base import Framework
from suite.launch.hosts import AvailableHost
from suite.machine import devices, sysfiles
from workloads.api import NOT_OPTIONS, OPTION_GROUPS, Defaults, Json, Settings, Workload, of_sets, option_keys, untyped

FIRST_WITH = {"fp32": (0, 0), "fp16": (7, 0), "tf32": (8, 0), "bf16": (8, 0)}
"""Lowest compute capability whose matrix units support a precision. 7.0 is Volta, and 8.0 is Ampere."""


class UnsupportedError(ValueError):
    """The machine or the framework does not support the settings, which are valid in themselves.

    In a study, the cell of such a run shows this, and the remaining cells run.
    """

    shown = "–"
    """Text of the cell."""


class MissingResourceError(UnsupportedError):
    """The machine lacks a resource for a run that it could do with different settings."""


Lacks = Callable[[UnsupportedError], None]
"""Receives an error about a missing resource. If it returns, planning continues with the resources that the machines have."""


def refuse(error: UnsupportedError) -> None:
    """Raise the error, so that planning stops at the first missing resource."""
    raise error


def resolve_settings(
    config: RunConfig,
    workload: type[Workload],
    framework: Framework,
    hosts: Sequence[AvailableHost] = (),
    lacks: Lacks = refuse,
) -> Settings:
    """Return the settings of a run, with seed 0.

    Args:
        config: The composed configuration.
        workload: The workload of the run.
        framework: The framework of the run.
        hosts: The machines that the run may use. Empty: this machine.
        lacks: Receives each error about a missing resource.

    Raises:
        ValueError: The settings are invalid.
        UnsupportedError: The workload, the framework, or the devices do not support them.
    """
    config = _checked_hosts(config, hosts, lacks)
    profile = config.profile.name
    rules = workload.default_rules if config.rules == "auto" else config.rules
    of_round = workload.round_named(rules)
    options = typed_options(config, workload)
    defaults = workload.defaults(profile, rules, _set_by_user(workload, options))
    device, config = choose_device(config, profile, framework, hosts, lacks)
    cores, config = cores_per_device(config, device, hosts, lacks)
    precision = _precision(config, workload, framework, device, rules, hosts)
    _check_link(config.link, device, framework)
    values = _values(config, workload, defaults, options, framework.name)
    dataset = defaults.dataset if options.get("dataset", "auto") == "auto" else options["dataset"]
    if dataset and dataset not in (dataset_names := registry.dataset_names()):
        raise not_allowed("workload.dataset", dataset, dataset_names)
    targets = _targets(workload, defaults, options)
    if config.update.kind == "async":
        _check_asynchronous(config, workload, framework, precision)
    not_options = {*NOT_OPTIONS, *of_sets(workload.Options), *values["hyperparameters"]}
    decided = {
        "workload": workload.name,
        "framework": framework.name,
        "profile": profile,
        "rules": rules,
        "round": of_round.figures,
        "device": device,
        "cores_per_device": cores,
        "threads_per_device": _threads_per_device(config, device, cores),
        "precision": precision,
        "linear": _linear(config, workload, framework, device, precision),
        "graphs": _graphs(config, workload, framework, device, int(config.gpus)),
        "kernels": _kernels(config, framework, device),
        "stop": (stop := _stop(config, profile, targets, defaults.stop)),
        "max_epochs": values["hyperparameters"].get("max_epochs") if stop == "target" else None,
        "dataset": dataset,
        "data_dir": "" if profile == "synthetic" else str(data_root() / dataset),
        "model": defaults.model,
        "variant": defaults.variant,
        "targets": targets,
        **values,
        "options": {name: value for name, value in options.items() if name not in not_options},
    }
    return Settings(**{**_settings_from_config(config, decided), **decided})


def _settings_from_config(config: RunConfig, decided: Mapping[str, Json]) -> dict[str, Json]:
    """Return the settings that are copied from the configuration, by the command-line key of their field."""
    values = {}
    for item in fields(Settings):
        if item.metadata["typed"] and item.name not in decided:
            values[item.name] = config.value(item.metadata["typed"])
    return values


def typed_options(config: RunConfig, workload: type[Workload]) -> dict[str, Json]:
    """Return the values of the workload's `Options` by field name, from the groups that hold their keys.

    Raises:
        ValueError: A key is set that the workload does not have.
    """
    keys, defaults = option_keys(workload.Options), untyped(workload.Options)
    options: dict[str, Json] = {}
    for key, item in keys.items():
        group, _, name = key.partition(".")
        value = getattr(config, group).get(name)
        options[item.name] = defaults[item.name] if value is None else value
    for key, value in (
        (f"{group}.{name}", value) for group in OPTION_GROUPS for name, value in getattr(config, group).items()
    ):
        if value is not None and key not in keys:
            allowed = ", ".join(sorted(name for name in keys if not name.startswith("workload.")))
            raise ValueError(
                f"{key}={value}: workload={workload.name} has no such key. Allowed: {allowed or 'no key of these groups'}"
            )
    return options


def _set_by_user(workload: type[Workload], options: Mapping[str, Json]) -> dict[str, Json]:
    """Return the options that differ from their defaults."""
    defaults = untyped(workload.Options)
    return {name: value for name, value in options.items() if value != defaults[name]}


def _check_link(link: str, device: str, framework: Framework) -> None:
    """Raise UnsupportedError if the devices cannot exchange data over the chosen transport."""
    if link == "no_p2p" and device == "cpu":
        raise UnsupportedError(f"link={link}: CPU cores have no peer-to-peer links. Leave it out, or set device=cuda")
    if link == "network" and framework.process_count(2, device) == 1:
        raise UnsupportedError(
            f"link={link}: {framework.name} drives all devices of a machine from a single process, without a network between "
            f"them. Leave it out"
        )


def _precision(
    config: RunConfig,
    workload: type[Workload],
    framework: Framework,
    device: str,
    rules: str,
    hosts: Sequence[AvailableHost],
) -> str:
    """Return the precision.

    `auto` on GPUs is the first precision in the workload's list that the trainer and the devices support and the rules allow.
    `auto` on CPU cores is fp32.
    """
    precision, allowed = str(config.precision), framework.precisions_of(workload)
    least = _least_capability(hosts, config.gpus) if device == "cuda" else (0, 0)
    if precision == "auto":
        closed = [row.allowed for row in workload.round_named(rules).rows if "precision" in row.names]
        usable = [choice for choice in workload.gpu_precisions if choice in allowed and least >= FIRST_WITH[choice]]
        offered = [choice for choice in usable if all(allows.holds(choice, {}) for allows in closed)]
        return offered[0] if device == "cuda" and offered else "fp32"
    if precision not in allowed:
        raise UnsupportedError(
            str(not_allowed(f"precision (for {workload.name} in {framework.name})", precision, allowed))
        )
    if device == "cpu" and precision in ("tf32", "fp16"):
        raise UnsupportedError(
            f"precision={precision}: only GPUs support it. Set precision=fp32 or bf16, or device=cuda"
        )
    if device == "cuda" and least < FIRST_WITH[precision]:
        found, needed = ("{}.{}".format(*capability) for capability in (least, FIRST_WITH[precision]))
        raise UnsupportedError(
            f"precision={precision}: GPUs support it from compute capability {needed} on, but {_where(hosts)} has a GPU of "
            f"{found}. Set precision=auto or fp32"
        )
    return precision


def visible_gpus(hosts: Sequence[AvailableHost]) -> list[list[Mapping[str, Any]]]:
    """Return the GPUs of each host, as `suite.machine.devices.hardware` describes them. Without hosts, of this machine."""
    return [host.hardware["gpus"] for host in hosts] if hosts else [[asdict(gpu) for gpu in devices.gpus()]]


def gpu_capabilities(hosts: Sequence[AvailableHost], count: int) -> list[str]:
    """Return the sorted compute capabilities of the GPUs that a run on `count` devices uses."""
    each = count // max(1, len(hosts))
    return sorted({str(gpu["capability"]) for gpus in visible_gpus(hosts) for gpu in gpus[:each]})


def _least_capability(hosts: Sequence[AvailableHost], count: int) -> tuple[int, int]:
    parts = (capability.partition(".") for capability in gpu_capabilities(hosts, count))
    found = [(int(major), int(minor)) for major, _, minor in parts]
    return min(found, default=(99, 0))  # no GPU is visible: `choose_device` reports this


def auto_environment(framework: Framework, device: str, hosts: Sequence[AvailableHost], count: int) -> str:
    """Return the name that `environment=auto` selects: the framework's first environment that suits the GPUs and driver."""
    name, alternatives = framework.environments[device], framework.other_gpu_environments
    if device == "cpu" or not alternatives:
        return name
    with devices.nvml() as library:
        driver = None if library is None or hosts else devices.cuda_driver_version(library)
    return locks.suiting([name, *alternatives], gpu_capabilities(hosts, count), driver)


def _linear(config: RunConfig, workload: type[Workload], framework: Framework, device: str, precision: str) -> str:
    """Return the library of linear layers, `mkl` or `onednn`. Empty if the workload and the device offer no choice.

    `auto` depends on the processor of this machine. Measurements are in docs/design.md.

    Raises:
        ValueError: A library is set, but the workload and the device offer no choice.
    """
    library = str(config.framework.linear)
    if framework.name in workload.linear_choice and (device, precision) == ("cpu", "fp32"):
        by_processor = "onednn" if sysfiles.cpu_field("vendor_id") == "AuthenticAMD" else "mkl"
        return by_processor if library == "auto" else library
    if library != "auto":
        where = f"{workload.name} in {framework.name}, device={device} precision={precision}"
        raise ValueError(f"framework.linear={library}: {where} has no choice of this library. Leave it out")
    return ""


def _graphs(config: RunConfig, workload: type[Workload], framework: Framework, device: str, devices: int) -> str:
    """Return `on` to capture a step as a CUDA graph, or empty. Raises ValueError if it is set but not supported."""
    if str(config.framework.graphs) != "on":
        return ""
    able = "graphs" in framework.gpu_choices and device == "cuda" and devices <= workload.graph_devices
    if not able or (config.mode, config.update.kind) != ("train", "sync"):
        where = f"{workload.name} in {framework.name} on {devices} × {device}, mode={config.mode}"
        raise ValueError(f"framework.graphs=on: {where} does not support CUDA graphs. Set framework.graphs=auto")
    return "on"


def _kernels(config: RunConfig, framework: Framework, device: str) -> str:
    """Return `off` to disable the suite's GPU kernels, or empty. Raises ValueError for `off` if the run uses none of them."""
    if config.framework.kernels == "auto":
        return ""
    if "kernels" not in framework.gpu_choices or device != "cuda":
        where = f"{framework.name} on device={device}"
        raise ValueError(f"framework.kernels=off: {where} does not use GPU kernels of the suite. Leave it out")
    return "off"


def _check_asynchronous(config: RunConfig, workload: type[Workload], framework: Framework, precision: str) -> None:
    """Raise ValueError if `update=async` does not support the settings. The message is a single line."""
    if framework.name not in workload.asynchronous:
        offered = [
            f"workload={name}"
            for name in registry.names(registry.WORKLOADS)
            if framework.name in registry.load_workload(name).asynchronous
        ]
        instead = f", or {' or '.join(offered)}" if offered else ""
        raise UnsupportedError(
            f"update=async: not supported by {workload.name} in {framework.name}. Set update=sync{instead}"
        )
    if config.nodes > 1:
        raise UnsupportedError("update=async: only nodes=1 is supported. Set nodes=1, or update=sync")
    if config.mode != "train":
        raise ValueError(f"update=async: mode={config.mode} makes no updates. Set mode=train, or update=sync")
    if config.timing.each == "steps":
        raise ValueError(
            "update=async: workers update at different times, so that steps of all workers cannot be timed. "
            "Set timing=stretch, or update=sync"
        )
    if precision == "fp16":
        raise UnsupportedError("update=async: precision=fp16 is not supported. Set precision=bf16 or fp32")


def _stop(config: RunConfig, profile: str, targets: Mapping[str, float], length: str) -> str:
    """Return when a run stops, such as `target` or `steps:50`.

    Args:
        config: The composed configuration.
        profile: Name of the profile.
        targets: Targets of the workload by metric.
        length: Value of `stop=auto` for a run without a target.

    Raises:
        ValueError: `stop` does not suit the mode, the profile, or the timing.
    """
    stop, mode = str(config.stop), config.mode
    evaluates = mode == "train" and profile != "synthetic" and bool(targets)
    if stop == "auto":
        stop = "target" if evaluates else length
    if stop == "target" and not evaluates:
        why = f"profile={profile} mode={mode} does not evaluate" if targets else "the workload has no target"
        raise ValueError(f"stop=target: {why}. Set stop=steps:50")
    if mode == "inference" and profile == "synthetic":
        raise ValueError("mode=inference: profile=synthetic has no evaluation set. Set profile=demo or reference")
    if mode == "inference" and not stop.startswith("steps:"):
        raise ValueError(f"stop={stop}: mode=inference counts evaluation batches. Set stop=steps:50")
    if config.timing.warmup_steps and stop == "target":
        raise ValueError(
            f"timing.warmup_steps={config.timing.warmup_steps}: a run to its target is timed from its first step. "
            f"Leave it out, or set stop=steps:50"
        )
    return stop


def _checked_hosts(config: RunConfig, hosts: Sequence[AvailableHost], lacks: Lacks) -> RunConfig:
    """Return the configuration with a number of devices that divides evenly among the machines.

    `lacks` receives an error if machines are missing, or if the requested number of devices does not divide evenly.
    """
    count, machines = config.gpus, config.nodes
    if machines > max(1, len(hosts)):
        line = (
            f"nodes={machines}: no machines are named. Set launch.hosts=[a,b] (ssh), run this inside a SLURM allocation "
            f"(salloc -N{machines}), or leave nodes out to use only this machine"
        )
        lacks(MissingResourceError(line))
    if (error := uneven(count, machines)) is None:
        return config
    lacks(error)
    return replace(config, gpus=max(1, count // machines) * machines)


def uneven(count: int, machines: int) -> MissingResourceError | None:
    """Return an error if `count` devices do not divide evenly among the machines."""
    if count % machines == 0:
        return None
    fitting = max(1, count // machines) * machines
    return MissingResourceError(
        f"nodes={machines} gpus={count}: every machine must have the same number of devices. "
        f"Set gpus={fitting} or a different multiple of {machines}"
    )


def _where(hosts: Sequence[AvailableHost]) -> str:
    """Return `this machine`, or the name of the machine with the fewest GPUs and cores."""
    least = min(hosts, key=lambda host: (len(host.hardware["gpus"]), len(host.cores)), default=None)
    return "this machine" if least is None else f"machine {least.name}"


def choose_device(
    config: RunConfig, profile: str, framework: Framework, hosts: Sequence[AvailableHost], lacks: Lacks
) -> tuple[str, RunConfig]:
    """Return `cpu` or `cuda`, and the configuration with at most as many GPUs as are available.

    Raises:
        ValueError: A GPU does not respond.
    """
    wanted, count = config.device, config.gpus
    for host in hosts:
        if host.gpu_fault and wanted != "cpu":
            raise ValueError(f"machine {host.name}: {host.gpu_fault}")
    visible = min(visible_gpus(hosts), key=len) if wanted != "cpu" else []
    machines = max(1, len(hosts))
    if not visible and (wanted == "cuda" or (wanted == "auto" and profile == "reference")):
        line = (
            "device=cuda: no NVIDIA GPU is visible (check the driver and CUDA_VISIBLE_DEVICES). Set device=cpu"
            if wanted == "cuda"
            else "profile=reference needs a GPU, but no GPU is visible. To train on CPU cores, set device=cpu. "
            "For a small run without a data set, set profile=demo"
        )
        lacks(MissingResourceError(line))
        return "cuda", config  # so that all further errors are about GPUs too
    use_cuda = bool(visible) and (wanted == "cuda" or _has_cuda_environment(config, profile, framework))
    if use_cuda and count > machines * len(visible):
        available = machines * len(visible)
        line = f"gpus={count}: {_where(hosts)} has {len(visible)} visible GPU(s). Set gpus={available} or less"
        lacks(MissingResourceError(line))
        config = replace(config, gpus=available)
    return "cuda" if use_cuda else "cpu", config


def _has_cuda_environment(config: RunConfig, profile: str, framework: Framework) -> bool:
    """Check whether `device=auto` uses GPUs. A demo uses GPUs only if an environment for GPUs exists."""
    if profile == "reference":
        return True
    try:
        auto = auto_environment(framework, "cuda", (), config.gpus)
        environment.resolve(config.environment, auto, tell=lambda line: None)
    except ValueError:
        return False
    return True


def cores_per_device(
    config: RunConfig, device: str, hosts: Sequence[AvailableHost], lacks: Lacks
) -> tuple[int, RunConfig]:
    """Return the CPU cores per device, and the configuration with at most as many devices as every machine has cores for."""
    cores = min((len(host.cores) for host in hosts), default=0) or len(devices.cpu_cores())
    machines, requested = max(len(hosts), config.nodes), config.cpu.cores_per_device
    count = config.gpus // machines
    each = max(1, cores // count) if requested == "all" else int(requested)
    if device == "cpu" and each * count > cores and not config.oversubscribe:
        fitting = max(1, cores // each) * machines
        line = (
            f"gpus={config.gpus}: {count} CPU device(s) of {each} core(s) need {each * count} cores, but {_where(hosts)} has "
            f"{cores}. Set gpus={fitting}{', or cpu.cores_per_device=1' if each > 1 else ''}, "
            f"or oversubscribe=true (labels the result)"
        )
        lacks(MissingResourceError(line))
        fewer_devices = {"gpus": fitting} if fitting < config.gpus else {"oversubscribe": True}
        config = replace(config, **fewer_devices)
    return each, config


def _threads_per_device(config: RunConfig, device: str, cores: int) -> str:
    """Return the threads per device, or `auto`. Raises ValueError for more threads than a device has cores."""
    threads = str(config.cpu.threads_per_device)
    if threads != "auto" and device == "cpu" and int(threads) > cores:
        raise ValueError(
            f"cpu.threads_per_device={threads}: a device has {cores} core(s). Set 1 to {cores}, or auto, or set "
            f"cpu.cores_per_device=N for more cores per device"
        )
    return threads


def _values(
    config: RunConfig, workload: type[Workload], defaults: Defaults, options: Mapping[str, Json], framework: str
) -> dict[str, Json]:
    """Return the hyperparameters and the settings that depend on them: batch size, scaling, and the source of each value.

    Values that the user sets replace those of the hyperparameter set. The learning rate is scaled to the requested batch
    size, unless the user sets it.
    """
    name, sets = str(options.get("hyperparameter_set", "auto")), workload.named_sets()
    name = defaults.set_for(framework) if name == "auto" else name
    if name not in sets and (name or sets):
        raise not_allowed("workload.hyperparameter_set", name, sets)
    chosen = sets[name] if name else {}
    values = {key: hyperparameter.value for key, hyperparameter in chosen.items()}
    sources = {key: hyperparameter.source for key, hyperparameter in chosen.items()}
    for key, value in options.items():
        if value is not None and (key in values or key in of_sets(workload.Options)):
            values[key], sources[key] = value, "user"
    set_batch, set_scaling = values.pop("batch_size_global", None), str(values.pop("lr_scaling", "none"))
    size = batch_size(config.batch, config.gpus, set_batch)
    scaling = set_scaling if config.lr_scaling == "set" else str(config.lr_scaling)
    if config.batch != "set":
        sources["batch_size_global"] = "user"
    factor = _rate_factor(scaling, size / set_batch) if set_batch else 1.0
    if factor != 1.0 and sources["learning_rate"] != "user":
        values["learning_rate"] *= factor
        origin = f"{scaling} scaling of {sources['learning_rate']} from batch {set_batch}"
        sources["learning_rate"] = f"derived: {origin}"
    chosen_values = {"hyperparameters": values, "hyperparameter_sources": sources}
    return {"batch_size_global": size, "lr_scaling": scaling, "hyperparameter_set": name, **chosen_values}


def batch_size(rule: str, devices_count: int, set_batch: int | None) -> int:
    """Return the global batch size, in the batch unit of the workload.

    Args:
        rule: `set` (from the hyperparameter set), `global:N`, or `per_device:N`.
        devices_count: Number of devices.
        set_batch: Global batch size of the hyperparameter set. None: the workload has no set.

    Raises:
        ValueError: `set` without a hyperparameter set.
        UnsupportedError: There are fewer samples than devices.
    """
    kind, _, number = rule.partition(":")
    if kind == "set":
        if set_batch is None:
            raise ValueError("batch=set: the workload has no hyperparameter set with a batch size. Set batch=global:N")
        size = int(set_batch)
    else:
        size = int(number) * (devices_count if kind == "per_device" else 1)
    if size < devices_count:
        raise UnsupportedError(
            f"batch={rule}: {size} sample(s) per step cannot be divided among {devices_count} devices. "
            f"Set batch=global:{devices_count} or more"
        )
    return size


def _rate_factor(scaling: str, ratio: float) -> float:
    """Return the factor for the learning rate of the set if the batch size is `ratio` times the batch size of the set."""
    return {"none": 1.0, "linear": ratio, "sqrt": math.sqrt(ratio)}[scaling]


def _targets(workload: type[Workload], defaults: Defaults, options: Mapping[str, Json]) -> dict[str, float]:
    """Return the targets by metric: those of the profile, or the user's values.

    A user sets `workload.target=X` if there is a single metric, and `workload.target.METRIC=X` if there are several.
    """
    target = options.get("target")
    if target is None:
        return dict(defaults.targets)
    if isinstance(target, Mapping):
        user_targets = {metric: float(value) for metric, value in target.items() if value is not None}
        unknown = next((metric for metric in user_targets if metric not in defaults.targets), None)
        if unknown is not None:
            raise not_allowed(f"workload.target (of {workload.name})", unknown, defaults.targets)
        return {**defaults.targets, **user_targets}
    if len(defaults.targets) != 1:
        keys = ", ".join(f"workload.target.{metric}={value:g}" for metric, value in defaults.targets.items())
        remedy = f"Set {keys}" if keys else "Leave it out"
        raise ValueError(f"workload.target={target}: {workload.name} has {len(defaults.targets)} targets. {remedy}")
    return {metric: float(target) for metric in defaults.targets}
