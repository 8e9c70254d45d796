"""Resolve the composed configuration to the settings of a run.

The module chooses defaults, scales the learning rate and the batch size, and rejects invalid
settings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from suite.catalog.rounds import get_round
from suite.catalog.sets import named_sets
from suite.common import registry
from suite.common.paths import data_root
from suite.common.registry import invalid_choice
from suite.common.run_config import RunConfig
from suite.launch.base import Framework
from suite.launch.hosts import AvailableHost
from suite.machine import sysfiles
from suite.plan.device_choice import decide_devices, gpu_capabilities, smallest_host
from suite.plan.unsupported import Lacks, UnsupportedError, refuse
from workloads.api import (
    NOT_OPTIONS,
    OPTION_GROUPS,
    Defaults,
    Json,
    Settings,
    TrainerInfo,
    Workload,
    default_values,
    find_trainer,
    get_trainer,
    hyperparameter_fields,
    option_keys,
)

FIRST_WITH = {"fp32": (0, 0), "fp16": (7, 0), "tf32": (8, 0), "bf16": (8, 0)}
"""Maps each precision to the lowest compute capability whose tensor cores support the precision.
7.0 is Volta, and 8.0 is Ampere.
"""


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
        hosts: The machines that the run may use. If empty, the run uses this machine.
        lacks: Function that receives each error about a missing resource.

    Raises:
        ValueError: The settings are invalid.
        UnsupportedError: The workload, the framework, or the devices do not support the settings.
    """
    profile = config.profile.name
    rules = workload.default_rules if config.rules == "auto" else config.rules
    of_round = get_round(rules, workload)
    options = options_from_config(config, workload)
    defaults = workload.defaults(profile, of_round, _set_by_user(workload, options))
    devices = decide_devices(config, profile, framework, hosts, lacks)
    device, cores = devices.kind, devices.cores
    config = replace(config, gpus=devices.count, oversubscribe=devices.oversubscribe)
    trainer = get_trainer(workload, framework.name)
    precision = _precision(config, workload, framework, trainer, device, rules, hosts)
    _check_transport(config.transport, device, framework)
    values = _values(config, workload, defaults, options, framework.name)
    dataset = defaults.dataset if options.get("dataset", "auto") == "auto" else options["dataset"]
    if dataset and dataset not in (dataset_names := registry.dataset_names()):
        raise invalid_choice("workload.dataset", dataset, dataset_names)
    targets = _targets(workload, defaults, options)
    if config.update.kind == "async":
        _check_asynchronous(config, workload, framework, trainer, precision)
    not_options = {
        *NOT_OPTIONS,
        *hyperparameter_fields(workload.Options),
        *values["hyperparameters"],
    }
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
        "linear_backend": _linear_backend(config, workload, framework, trainer, device, precision),
        "graphs": _graphs(config, workload, framework, trainer, device, int(config.gpus)),
        "kernels": _kernels(config, framework, device),
        "stop": (stop := _stop(config, profile, targets, defaults.stop)),
        "max_epochs": values["hyperparameters"].get("max_epochs") if stop == "target" else None,
        "dataset": dataset,
        "data_dir": "" if profile == "synthetic" else str(data_root() / dataset),
        "model": defaults.model,
        "variant": defaults.variant,
        "targets": targets,
        "falling_metrics": tuple(sorted(workload.falling_metrics)),
        "epoch_unit": workload.epoch_unit,
        **values,
        "options": {name: value for name, value in options.items() if name not in not_options},
    }
    return Settings(**{**_settings_from_config(config, decided), **decided})


def _settings_from_config(config: RunConfig, decided: Mapping[str, Json]) -> dict[str, Json]:
    """Return the settings that are copied from the configuration without changes.

    Each field of the settings is read from the configuration at its command-line key.
    """
    values = {}
    for item in fields(Settings):
        if item.metadata["cli_key"] and item.name not in decided:
            values[item.name] = config.value(item.metadata["cli_key"])
    return values


def options_from_config(config: RunConfig, workload: type[Workload]) -> dict[str, Json]:
    """Return the values of the workload's `Options` by field name.

    Each option is read from the configuration group that contains the option's key.

    Raises:
        ValueError: The configuration sets a key that is not an option of the workload.
    """
    keys, defaults = option_keys(workload.Options), default_values(workload.Options)
    options: dict[str, Json] = {}
    for key, item in keys.items():
        group, _, name = key.partition(".")
        value = getattr(config, group).get(name)
        options[item.name] = defaults[item.name] if value is None else value
    for key, value in (
        (f"{group}.{name}", value)
        for group in OPTION_GROUPS
        for name, value in getattr(config, group).items()
    ):
        if value is not None and key not in keys:
            allowed = ", ".join(sorted(name for name in keys if not name.startswith("workload.")))
            raise ValueError(
                f"{key}={value}: workload={workload.name} has no such key. Allowed:"
                f" {allowed or 'no key of these groups'}"
            )
    return options


def _set_by_user(workload: type[Workload], options: Mapping[str, Json]) -> dict[str, Json]:
    """Return the workload options whose values differ from their defaults."""
    defaults = default_values(workload.Options)
    return {name: value for name, value in options.items() if value != defaults[name]}


def _check_transport(transport: str, device: str, framework: Framework) -> None:
    """Raise UnsupportedError if the devices do not support the selected transport."""
    if transport == "no_p2p" and device == "cpu":
        raise UnsupportedError(
            f"transport={transport}: CPU cores have no peer-to-peer links. Leave it out, or"
            " set device=cuda"
        )
    if transport == "network" and framework.process_count(2, device) == 1:
        raise UnsupportedError(
            f"transport={transport}: {framework.name} drives all devices of a machine from a single"
            " process, without a network between them. Leave it out"
        )


def _precision(
    config: RunConfig,
    workload: type[Workload],
    framework: Framework,
    trainer: TrainerInfo,
    device: str,
    rules: str,
    hosts: Sequence[AvailableHost],
) -> str:
    """Return the precision of the run.

    On GPUs, `auto` selects the first precision in the workload's list that the trainer and the
    devices support and the rules allow. On CPU cores, `auto` selects fp32.
    """
    precision, allowed = str(config.precision), trainer.precisions
    least = _least_capability(hosts, config.gpus) if device == "cuda" else (0, 0)
    if precision == "auto":
        closed = [
            row.allowed for row in get_round(rules, workload).rows if "precision" in row.names
        ]
        usable = [
            choice
            for choice in workload.gpu_precisions
            if choice in allowed and least >= FIRST_WITH[choice]
        ]
        offered = [
            choice for choice in usable if all(allows.holds(choice, {}) for allows in closed)
        ]
        return offered[0] if device == "cuda" and offered else "fp32"
    if precision not in allowed:
        raise UnsupportedError(
            str(
                invalid_choice(
                    f"precision (for {workload.name} in {framework.name})", precision, allowed
                )
            )
        )
    if device == "cpu" and precision in ("tf32", "fp16"):
        raise UnsupportedError(
            f"precision={precision}: only GPUs support it. Set precision=fp32 or bf16, or"
            " device=cuda"
        )
    if device == "cuda" and least < FIRST_WITH[precision]:
        found, needed = (
            "{}.{}".format(*capability) for capability in (least, FIRST_WITH[precision])
        )
        raise UnsupportedError(
            f"precision={precision}: GPUs support it from compute capability {needed} on, but"
            f" {smallest_host(hosts)} has a GPU of {found}. Set precision=auto or fp32"
        )
    return precision


def _least_capability(hosts: Sequence[AvailableHost], count: int) -> tuple[int, int]:
    parts = (capability.partition(".") for capability in gpu_capabilities(hosts, count))
    found = [(int(major), int(minor)) for major, _, minor in parts]
    # no GPU is visible, and `decide_devices` already reported the error
    return min(found, default=(99, 0))


def _linear_backend(
    config: RunConfig,
    workload: type[Workload],
    framework: Framework,
    trainer: TrainerInfo,
    device: str,
    precision: str,
) -> str:
    """Return the library that computes linear layers, `mkl` or `onednn`.

    The string is empty if this workload has no choice of libraries on this device. With `auto`, the
    processor of this machine determines the library (docs/explanation/architecture.md).

    Raises:
        ValueError: The user sets a library, but this workload has no choice of libraries on this
            device.
    """
    library = str(config.framework.linear_backend)
    if trainer.linear_backend and (device, precision) == ("cpu", "fp32"):
        by_processor = "onednn" if sysfiles.cpu_field("vendor_id") == "AuthenticAMD" else "mkl"
        return by_processor if library == "auto" else library
    if library != "auto":
        where = f"{workload.name} in {framework.name}, device={device} precision={precision}"
        raise ValueError(
            f"framework.linear_backend={library}: {where} has no choice of this library. Leave"
            " it out"
        )
    return ""


def _graphs(
    config: RunConfig,
    workload: type[Workload],
    framework: Framework,
    trainer: TrainerInfo,
    device: str,
    devices: int,
) -> str:
    """Return `on` to capture each training step as a CUDA graph, or an empty string.

    Raises ValueError if the user sets CUDA graphs but the run does not support them.
    """
    if str(config.framework.graphs) != "on":
        return ""
    able = device == "cuda" and devices <= trainer.max_cuda_graph_devices
    if not able or (config.mode, config.update.kind) != ("train", "sync"):
        where = f"{workload.name} in {framework.name} on {devices} × {device}, mode={config.mode}"
        raise ValueError(
            f"framework.graphs=on: {where} does not support CUDA graphs. Set framework.graphs=auto"
        )
    return "on"


def _kernels(config: RunConfig, framework: Framework, device: str) -> str:
    """Return `off` to disable the suite's GPU kernels, or an empty string.

    Raises ValueError for `off` if the run would not use any of the suite's GPU kernels.
    """
    if config.framework.kernels == "auto":
        return ""
    if not framework.has_gpu_kernels or device != "cuda":
        where = f"{framework.name} on device={device}"
        raise ValueError(
            f"framework.kernels=off: {where} does not use GPU kernels of the suite. Leave it out"
        )
    return "off"


def _check_asynchronous(
    config: RunConfig,
    workload: type[Workload],
    framework: Framework,
    trainer: TrainerInfo,
    precision: str,
) -> None:
    """Raise ValueError if `update=async` does not support the other settings.

    The error message is a single line.
    """
    if not trainer.async_updates:
        trainers = {
            name: find_trainer(registry.load_workload(name), framework.name)
            for name in registry.names(registry.WORKLOADS)
        }
        offered = [
            f"workload={name}" for name, info in trainers.items() if info and info.async_updates
        ]
        instead = f", or {' or '.join(offered)}" if offered else ""
        raise UnsupportedError(
            f"update=async: not supported by {workload.name} in {framework.name}. Set"
            f" update=sync{instead}"
        )
    if config.nodes > 1:
        raise UnsupportedError(
            "update=async: only nodes=1 is supported. Set nodes=1, or update=sync"
        )
    if config.mode != "train":
        raise ValueError(
            f"update=async: mode={config.mode} makes no updates. Set mode=train, or update=sync"
        )
    if config.timing.each == "steps":
        raise ValueError(
            "update=async: workers update at different times, so that steps of all workers cannot"
            " be timed. Set timing=interval, or update=sync"
        )
    if precision == "fp16":
        raise UnsupportedError(
            "update=async: precision=fp16 is not supported. Set precision=bf16 or fp32"
        )


def _stop(config: RunConfig, profile: str, targets: Mapping[str, float], length: str) -> str:
    """Return the condition on which a run stops, such as `target` or `steps:50`.

    Args:
        config: The composed configuration.
        profile: Name of the profile.
        targets: Targets of the workload by metric.
        length: Condition that `stop=auto` selects for a run without a target.

    Raises:
        ValueError: `stop` is incompatible with the mode, the profile, or the timing.
    """
    stop, mode = str(config.stop), config.mode
    evaluates = mode == "train" and profile != "synthetic" and bool(targets)
    if stop == "auto":
        stop = "target" if evaluates else length
    if stop == "target" and not evaluates:
        why = (
            f"profile={profile} mode={mode} does not evaluate"
            if targets
            else "the workload has no target"
        )
        raise ValueError(f"stop=target: {why}. Set stop=steps:50")
    if mode == "inference" and profile == "synthetic":
        raise ValueError(
            "mode=inference: profile=synthetic has no evaluation set. Set profile=demo or reference"
        )
    if mode == "inference" and not stop.startswith("steps:"):
        raise ValueError(
            f"stop={stop}: mode=inference counts evaluation batches. Set stop=steps:50"
        )
    if config.timing.warmup_steps and stop == "target":
        raise ValueError(
            f"timing.warmup_steps={config.timing.warmup_steps}: a run to its target is timed from"
            " its first step. Leave it out, or set stop=steps:50"
        )
    return stop


def _threads_per_device(config: RunConfig, device: str, cores: int) -> str:
    """Return the number of threads per device, or `auto`.

    Raises ValueError if the number is larger than the number of cores per device.
    """
    threads = str(config.cpu.threads_per_device)
    if threads != "auto" and device == "cpu" and int(threads) > cores:
        raise ValueError(
            f"cpu.threads_per_device={threads}: a device has {cores} core(s). Set 1 to {cores}, or"
            " auto, or set cpu.cores_per_device=N for more cores per device"
        )
    return threads


def _values(
    config: RunConfig,
    workload: type[Workload],
    defaults: Defaults,
    options: Mapping[str, Json],
    framework: str,
) -> dict[str, Json]:
    """Return the hyperparameters and the settings that depend on them.

    The dependent settings are the batch size, the learning-rate scaling, and the source of each
    hyperparameter. Hyperparameters that the user sets replace those of the hyperparameter set. The
    learning rate is scaled to the requested batch size, unless the user sets the learning rate.
    """
    name, sets = str(options.get("hyperparameter_set", "auto")), named_sets(workload)
    name = defaults.set_for(framework) if name == "auto" else name
    if name not in sets and (name or sets):
        raise invalid_choice("workload.hyperparameter_set", name, sets)
    chosen = sets[name] if name else {}
    values = {key: hyperparameter.value for key, hyperparameter in chosen.items()}
    sources = {key: hyperparameter.source for key, hyperparameter in chosen.items()}
    for key, value in options.items():
        if value is not None and (key in values or key in hyperparameter_fields(workload.Options)):
            values[key], sources[key] = value, "user"
    set_batch, set_scaling = (
        values.pop("global_batch_size", None),
        str(values.pop("lr_scaling", "none")),
    )
    size = batch_size(config.batch, config.gpus, set_batch)
    scaling = set_scaling if config.lr_scaling == "default" else str(config.lr_scaling)
    if config.batch != "default":
        sources["global_batch_size"] = "user"
    factor = _rate_factor(scaling, size / set_batch) if set_batch else 1.0
    if factor != 1.0 and sources["learning_rate"] != "user":
        values["learning_rate"] *= factor
        origin = f"{scaling} scaling of {sources['learning_rate']} from batch {set_batch}"
        sources["learning_rate"] = f"derived: {origin}"
    chosen_values = {"hyperparameters": values, "hyperparameter_sources": sources}
    return {
        "global_batch_size": size,
        "lr_scaling": scaling,
        "hyperparameter_set": name,
        **chosen_values,
    }


def batch_size(rule: str, devices_count: int, set_batch: int | None) -> int:
    """Return the global batch size, in the batch unit of the workload.

    Args:
        rule: `default` (batch size of the hyperparameter set), `global:N`, or `per_device:N`.
        devices_count: Number of devices.
        set_batch: Global batch size of the hyperparameter set, or None if the workload has no
            hyperparameter set.

    Raises:
        ValueError: `default` is used without a hyperparameter set.
        UnsupportedError: The batch has fewer samples than the run has devices.
    """
    kind, _, number = rule.partition(":")
    if kind == "default":
        if set_batch is None:
            raise ValueError(
                "batch=default: the workload has no hyperparameter set with a batch size. Set"
                " batch=global:N"
            )
        size = int(set_batch)
    else:
        size = int(number) * (devices_count if kind == "per_device" else 1)
    if size < devices_count:
        raise UnsupportedError(
            f"batch={rule}: {size} sample(s) per step cannot be divided among {devices_count}"
            f" devices. Set batch=global:{devices_count} or more"
        )
    return size


def _rate_factor(scaling: str, ratio: float) -> float:
    """Return the factor by which the learning rate of a hyperparameter set is scaled.

    `ratio` is the batch size divided by the batch size of the hyperparameter set.
    """
    return {"none": 1.0, "linear": ratio, "sqrt": math.sqrt(ratio)}[scaling]


def _targets(
    workload: type[Workload], defaults: Defaults, options: Mapping[str, Json]
) -> dict[str, float]:
    """Return the user's targets by metric. Without them, return the profile's targets.

    A user sets `workload.target=X` if the workload has a single metric, and
    `workload.target.METRIC=X` if the workload has several metrics.
    """
    target = options.get("target")
    if target is None:
        return dict(defaults.targets)
    if isinstance(target, Mapping):
        user_targets = {
            metric: float(value) for metric, value in target.items() if value is not None
        }
        unknown = next((metric for metric in user_targets if metric not in defaults.targets), None)
        if unknown is not None:
            raise invalid_choice(f"workload.target (of {workload.name})", unknown, defaults.targets)
        return {**defaults.targets, **user_targets}
    if len(defaults.targets) != 1:
        keys = ", ".join(
            f"workload.target.{metric}={value:g}" for metric, value in defaults.targets.items()
        )
        remedy = f"Set {keys}" if keys else "Leave it out"
        raise ValueError(
            f"workload.target={target}: {workload.name} has {len(defaults.targets)} targets."
            f" {remedy}"
        )
    return {metric: float(target) for metric in defaults.targets}
