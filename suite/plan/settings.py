"""From the composed configuration to the settings of a run: what is chosen, scaled and refused."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from suite.common import registry
from suite.common.paths import data_root
from suite.common.registry import not_allowed
from suite.common.run_config import RunConfig
from suite.launch.base import Framework
from suite.launch.hosts import AvailableHost
from suite.machine import sysfiles
from suite.plan.device_choice import decide_devices, gpu_capabilities, smallest_host
from suite.plan.unsupported import Lacks, UnsupportedError, refuse
from workloads.api import NOT_OPTIONS, OPTION_GROUPS, Defaults, Json, Settings, Workload, of_sets, option_keys, untyped

FIRST_WITH = {"fp32": (0, 0), "fp16": (7, 0), "tf32": (8, 0), "bf16": (8, 0)}
"""Compute capability of the first GPUs whose matrix units have a precision: Volta, Ampere."""


def resolve_settings(
    config: RunConfig,
    workload: type[Workload],
    framework: Framework,
    hosts: Sequence[AvailableHost] = (),
    lacks: Lacks = refuse,
) -> Settings:
    """The settings of a run (seed 0) from the configuration. Raises ValueError; what the machines lack goes to `lacks`.

    `hosts`: the machines that the run may take; without any, this one.
    """
    profile = config.profile.name
    rules = workload.default_rules if config.rules == "auto" else config.rules
    of_round = workload.round_named(rules)
    options = typed_options(config, workload)
    defaults = workload.defaults(profile, rules, _set_by_user(workload, options))
    devices = decide_devices(config, profile, framework, hosts, lacks)
    device, cores = devices.kind, devices.cores
    config = replace(config, gpus=devices.count, oversubscribe=devices.oversubscribe)
    precision = _precision(config, workload, framework, device, rules, hosts)
    _check_link(config.link, device, framework)
    values = _values(config, workload, defaults, options, framework.name)
    dataset = defaults.dataset if options.get("dataset", "auto") == "auto" else options["dataset"]
    if dataset and dataset not in (known := registry.dataset_names()):
        raise not_allowed("workload.dataset", dataset, known)
    targets = _targets(workload, defaults, options)
    if config.update.kind == "async":
        _check_asynchronous(config, workload, framework, precision)
    elsewhere = {*NOT_OPTIONS, *of_sets(workload.Options), *values["hyperparameters"]}
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
        "options": {name: value for name, value in options.items() if name not in elsewhere},
    }
    return Settings(**{**_as_typed(config, decided), **decided})


def _as_typed(config: RunConfig, decided: Mapping[str, Json]) -> dict[str, Json]:
    """The settings that are what the user typed, under the key that their field names."""
    values = {}
    for item in fields(Settings):
        if item.metadata["typed"] and item.name not in decided:
            values[item.name] = config.value(item.metadata["typed"])
    return values


def typed_options(config: RunConfig, workload: type[Workload]) -> dict[str, Json]:
    """The workload's `Options` by field name, wherever each is typed. Raises ValueError for a key that it does not have."""
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
                f"{key}={value}: workload={workload.name} has no such key; allowed: {allowed or 'none of these groups'}"
            )
    return options


def _set_by_user(workload: type[Workload], options: Mapping[str, Json]) -> dict[str, Json]:
    """The options that differ from their defaults."""
    untouched = untyped(workload.Options)
    return {name: value for name, value in options.items() if value != untouched[name]}


def _check_link(link: str, device: str, framework: Framework) -> None:
    """Raises Impossible for a way of exchanging data that the devices do not have."""
    if link == "no_p2p" and device == "cpu":
        raise UnsupportedError(f"link={link}: CPU cores have no links of their own; leave it out, or type device=cuda")
    if link == "network" and framework.process_count(2, device) == 1:
        raise UnsupportedError(
            f"link={link}: {framework.name} drives the devices of a machine from one process, and there is no network between "
            f"them; leave it out"
        )


def _precision(
    config: RunConfig,
    workload: type[Workload],
    framework: Framework,
    device: str,
    rules: str,
    hosts: Sequence[AvailableHost],
) -> str:
    """As typed; `auto` on GPUs: the first of the workload's that trainer and devices have and the rules allow."""
    precision, allowed = str(config.precision), framework.precisions_of(workload)
    least = _least_capability(hosts, config.gpus) if device == "cuda" else (0, 0)
    if precision == "auto":
        closed = [row.allowed for row in workload.round_named(rules).rows if "precision" in row.names]
        usable = [one for one in workload.gpu_precisions if one in allowed and least >= FIRST_WITH[one]]
        offered = [one for one in usable if all(allows.holds(one, {}) for allows in closed)]
        return offered[0] if device == "cuda" and offered else "fp32"
    if precision not in allowed:
        raise UnsupportedError(
            str(not_allowed(f"precision (for {workload.name} in {framework.name})", precision, allowed))
        )
    if device == "cpu" and precision in ("tf32", "fp16"):
        raise UnsupportedError(
            f"precision={precision}: GPUs alone have it; type precision=fp32 or bf16, or device=cuda"
        )
    if device == "cuda" and least < FIRST_WITH[precision]:
        have, needed = ("{}.{}".format(*one) for one in (least, FIRST_WITH[precision]))
        raise UnsupportedError(
            f"precision={precision}: GPUs have it from compute capability {needed} on, {smallest_host(hosts)} has one of "
            f"{have}; "
            f"type precision=auto or fp32"
        )
    return precision


def _least_capability(hosts: Sequence[AvailableHost], count: int) -> tuple[int, int]:
    found = [
        (int(major), int(minor)) for major, _, minor in (one.partition(".") for one in gpu_capabilities(hosts, count))
    ]
    return min(found, default=(99, 0))  # none is seen, which is said elsewhere


def _linear(config: RunConfig, workload: type[Workload], framework: Framework, device: str, precision: str) -> str:
    """`mkl` or `onednn`; empty where there is nothing to choose. Raises ValueError where it was typed nevertheless.

    `auto` goes by this machine's processor: docs/design.md has figures.
    """
    typed = str(config.framework.linear)
    if framework.name in workload.linear_choice and (device, precision) == ("cpu", "fp32"):
        by_processor = "onednn" if sysfiles.cpu_field("vendor_id") == "AuthenticAMD" else "mkl"
        return by_processor if typed == "auto" else typed
    if typed != "auto":
        where = f"{workload.name} in {framework.name}, device={device} precision={precision}"
        raise ValueError(f"framework.linear={typed}: {where} has nothing to choose there; leave it out")
    return ""


def _graphs(config: RunConfig, workload: type[Workload], framework: Framework, device: str, devices: int) -> str:
    """`on`, or empty. Raises ValueError where it was typed and cannot be."""
    typed = str(config.framework.graphs)
    if typed != "on":
        return ""
    able = "graphs" in framework.gpu_choices and device == "cuda" and devices <= workload.graph_devices
    if not able or (config.mode, config.update.kind) != ("train", "sync"):
        where = f"{workload.name} in {framework.name} on {devices} × {device}, mode={config.mode}"
        raise ValueError(f"framework.graphs=on: {where} has no graph of a step; type framework.graphs=auto")
    return "on"


def _kernels(config: RunConfig, framework: Framework, device: str) -> str:
    """`off`, or empty. Raises ValueError where it was typed and there are none."""
    if config.framework.kernels == "auto":
        return ""
    if "kernels" not in framework.gpu_choices or device != "cuda":
        where = f"{framework.name} on device={device}"
        raise ValueError(f"framework.kernels=off: {where} has none of the suite's own kernels; leave it out")
    return "off"


def _check_asynchronous(config: RunConfig, workload: type[Workload], framework: Framework, precision: str) -> None:
    """Raise ValueError, in one line, for what `update=async` does not have."""
    if framework.name not in workload.asynchronous:
        offered = [
            f"workload={name}"
            for name in registry.names(registry.WORKLOADS)
            if framework.name in registry.load_workload(name).asynchronous
        ]
        instead = f", or {' or '.join(offered)}" if offered else ""
        raise UnsupportedError(
            f"update=async: not offered by {workload.name} in {framework.name}; type update=sync{instead}"
        )
    if config.nodes > 1:
        raise UnsupportedError("update=async: nodes=1 alone is offered; type nodes=1, or update=sync")
    if config.mode != "train":
        raise ValueError(f"update=async: mode={config.mode} makes no updates; type mode=train, or update=sync")
    if config.timing.each == "steps":
        raise ValueError(
            "update=async: a step is made by several workers at times of their own; type timing=stretch, or update=sync"
        )
    if precision == "fp16":
        raise UnsupportedError("update=async: precision=fp16 is not offered; type precision=bf16 or fp32")


def _stop(config: RunConfig, profile: str, targets: Mapping[str, float], length: str) -> str:
    """The meaning of `stop`, `length` where none was typed and there is no target; checks that it fits what the run does."""
    stop, mode = str(config.stop), config.mode
    measures = mode == "train" and profile != "synthetic" and bool(targets)
    if stop == "auto":
        stop = "target" if measures else length
    if stop == "target" and not measures:
        why = f"profile={profile} mode={mode}" if targets else "the workload has no target and"
        raise ValueError(f"stop=target: {why} evaluates nothing; type stop=steps:50")
    if mode == "inference" and profile == "synthetic":
        raise ValueError("mode=inference: profile=synthetic has no evaluation set; type profile=demo or reference")
    if mode == "inference" and not stop.startswith("steps:"):
        raise ValueError(f"stop={stop}: mode=inference counts evaluation batches; type stop=steps:50")
    if config.timing.warmup_steps and stop == "target":
        raise ValueError(
            f"timing.warmup_steps={config.timing.warmup_steps}: a run to its target is timed from its first step; "
            f"leave it out, or type stop=steps:50"
        )
    return stop


def _threads_per_device(config: RunConfig, device: str, cores: int) -> str:
    """As typed. Raises ValueError for more threads than a device has cores."""
    typed = str(config.cpu.threads_per_device)
    if typed != "auto" and device == "cpu" and int(typed) > cores:
        raise ValueError(
            f"cpu.threads_per_device={typed}: a device has {cores} core(s); type 1 to {cores}, or auto; "
            f"cpu.cores_per_device=N gives it more"
        )
    return typed


def _values(
    config: RunConfig, workload: type[Workload], defaults: Defaults, options: Mapping[str, Json], framework: str
) -> dict[str, Json]:
    """The settings that follow from a hyperparameter set with the user's own values on top, at the batch that was asked for."""
    name, sets = str(options.get("hyperparameter_set", "auto")), workload.named_sets()
    name = defaults.set_for(framework) if name == "auto" else name
    if name not in sets and (name or sets):
        raise not_allowed("workload.hyperparameter_set", name, sets)
    chosen = sets[name] if name else {}
    values = {key: hyperparameter.value for key, hyperparameter in chosen.items()}
    sources = {key: hyperparameter.source for key, hyperparameter in chosen.items()}
    for key, given in options.items():
        if given is not None and (key in values or key in of_sets(workload.Options)):
            values[key], sources[key] = given, "user"
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
    """Global batch size of `set`, `global:N` or `per_device:N`. Raises ValueError for one that the devices cannot share."""
    kind, _, number = rule.partition(":")
    if kind == "set":
        if set_batch is None:
            raise ValueError("batch=set: the workload has no hyperparameter set to take it from; type batch=global:N")
        size = int(set_batch)
    else:
        size = int(number) * (devices_count if kind == "per_device" else 1)
    if size < devices_count:
        raise UnsupportedError(
            f"batch={rule}: {size} sample(s) per step cannot be shared by {devices_count} devices; "
            f"type batch=global:{devices_count} or more"
        )
    return size


def _rate_factor(scaling: str, ratio: float) -> float:
    """What the set's learning rate is multiplied by when the batch is `ratio` times the set's."""
    return {"none": 1.0, "linear": ratio, "sqrt": math.sqrt(ratio)}[scaling]


def _targets(workload: type[Workload], defaults: Defaults, options: Mapping[str, Json]) -> dict[str, float]:
    """The profile's targets with the user's own: `workload.target=X` for one metric, `workload.target.METRIC=X` for several."""
    given = options.get("target")
    if given is None:
        return dict(defaults.targets)
    if isinstance(given, Mapping):
        typed_targets = {metric: float(value) for metric, value in given.items() if value is not None}
        unknown = next((metric for metric in typed_targets if metric not in defaults.targets), None)
        if unknown is not None:
            raise not_allowed(f"workload.target (of {workload.name})", unknown, defaults.targets)
        return {**defaults.targets, **typed_targets}
    if len(defaults.targets) != 1:
        keys = ", ".join(f"workload.target.{metric}={value:g}" for metric, value in defaults.targets.items())
        raise ValueError(
            f"workload.target={given}: {workload.name} has {len(defaults.targets)} targets; type {keys or 'none'}"
        )
    return {metric: float(given) for metric in defaults.targets}
