"""From what the user typed to what a run needs: every decision and every check that can be made before a clock starts."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from suite import __version__
from suite.common import registry
from suite.common.git_state import git_state
from suite.common.paths import data_root
from suite.common.registry import not_allowed
from suite.common.runspec import RunSpec
from suite.environments import environment
from suite.environments.environment import Environment
from suite.environments.plugins import Plugin, check_trainer, equip
from suite.launch.base import Framework
from suite.machine import devices
from suite.plan.capacity import check_memory
from workloads.api import Defaults, Facts, Settings, Workload

Config = Mapping[str, Any]
"""The composed Hydra configuration as plain dicts and lists."""


@dataclass(frozen=True)
class Job:
    """One setting of a sweep: one or several runs of it."""

    name: str
    folder: Path
    run_count: int
    template: RunSpec
    """The runs' spec, but for index, folder, seed and `cache_cleared`."""
    fixed_seed: int | None
    framework: Framework
    environment: Environment
    cache_clear: Config

    def run(self, index: int, cache_cleared: bool) -> RunSpec:
        """The spec of run `index`, with a seed of its own."""
        seed = secrets.randbits(31) if self.fixed_seed is None else self.fixed_seed + index
        folder = self.folder / f"run_{index}"
        settings = replace(self.template.settings, seed=seed)
        return replace(
            self.template, run_index=index, folder=str(folder), settings=settings, cache_cleared=cache_cleared
        )


@dataclass(frozen=True)
class Choice:
    """A job as far as it is known without its data set."""

    workload: type[Workload]
    framework: Framework
    settings: Settings
    environment: Environment
    plugins: tuple[str, ...] = ()
    """Distributions from outside."""


def choose(config: Config, plugins: Sequence[Plugin] = ()) -> Choice:
    """Check names, devices, settings and environment. Raises ValueError with one line: what is wrong and what to type."""
    workload = registry.load_workload(config["workload"]["name"])
    framework: Framework = registry.load_framework(config["framework"]["name"])
    offered = registry.frameworks_of(workload.name)
    if framework.name not in offered:
        raise not_allowed(f"framework (for workload={workload.name})", framework.name, offered)
    settings = workload.resolve(resolve_settings(config, workload, framework))
    env = environment.resolve(config["environment"], framework.environments[settings.device])
    return Choice(workload, framework, settings, equip(env, plugins), tuple(plugin.name for plugin in plugins))


def check_trainers(choices: Sequence[Choice], plugins: Sequence[Plugin]) -> None:
    """Import the plugins' trainers that a sweep uses, each once, where they are going to run."""
    used = {
        (choice.environment.name, choice.workload.name, choice.framework.name): choice.environment for choice in choices
    }
    for (_, workload, framework), env in used.items():
        check_trainer(env, workload, framework, plugins)


def make_job(choice: Choice, config: Config, name: str, output: Path) -> Job:
    """Everything about one job. Raises ValueError if the data set is missing or damaged."""
    workload, framework, settings, env = choice.workload, choice.framework, choice.settings, choice.environment
    facts = workload.read_facts(settings)
    check_memory(workload, settings)
    fixed_labels, cores = _labels(settings, facts)
    deviations = (*_deviations(settings, workload), *workload.deviations(settings), *facts.notes)
    packages = (*framework.packages, *choice.plugins, "numpy", "mlperf-logging")
    found = environment.installed_versions(env, packages)
    versions = {"suite": __version__, **{name: version for name, version in found.items() if version is not None}}
    framework_version = next((versions[name] for name in framework.packages if name in versions), "unknown")
    hardware = devices.hardware()
    runs_required = workload.official_runs
    run_count = runs_required if config["runs"] == "official" else int(config["runs"])
    template = RunSpec(
        run_index=0,
        runs_required=runs_required,
        folder="",
        settings=settings,
        facts=facts,
        labels=fixed_labels,
        division="open" if deviations else "closed",
        deviations=deviations,
        cores=cores,
        cache_cleared=False,
        watchdog_seconds=float(config["watchdog_seconds"]),
        setup_watchdog_seconds=float(config["setup_watchdog_seconds"]),
        identity=_identity(config, settings, workload, framework_version, hardware),
        environment=asdict(env),
        versions=versions,
        git=git_state(),
        hardware=hardware,
    )
    return Job(
        name=name,
        folder=output / name,
        run_count=run_count,
        template=template,
        fixed_seed=config["seed"],
        framework=framework,
        environment=env,
        cache_clear=config["system"],
    )


def resolve_settings(config: Config, workload: type[Workload], framework: Framework) -> Settings:
    """The settings of a run (seed 0) from the configuration. Raises ValueError."""
    profile = config["profile"]["name"]
    rules = workload.default_rules if config["rules"]["name"] == "auto" else config["rules"]["name"]
    clock = rules if config["rules"]["clock"] == "auto" else config["rules"]["clock"]
    options = dict(config["workload"])
    defaults = workload.defaults(profile, rules)
    device = _device(config, profile, framework)
    precision = config["precision"]
    allowed = workload.precisions.get(framework.name, ("fp32",))
    if precision not in allowed:
        raise not_allowed(f"precision (for {workload.name} in {framework.name})", precision, allowed)
    if device == "cpu" and precision in ("tf32", "fp16"):
        raise ValueError(f"precision={precision}: GPUs alone have it; type precision=fp32 or bf16, or device=cuda")
    set_name, values, sources = _hyperparameters(workload, options, defaults)
    batch_size = _batch(config, values, sources)
    dataset = defaults.dataset if options.get("dataset", "auto") == "auto" else options["dataset"]
    if dataset not in registry.names(registry.DATASETS):
        raise not_allowed("workload.dataset", dataset, registry.names(registry.DATASETS))
    stop = config["stop"]
    if stop == "auto":
        stop = "steps:50" if profile == "synthetic" or config["mode"] == "forward" else "target"
    if stop == "target" and (profile == "synthetic" or config["mode"] == "forward"):
        raise ValueError(f"stop=target: profile={profile} mode={config['mode']} evaluates nothing; type stop=steps:50")
    if config["nodes"] > 1:
        raise ValueError(f"nodes={config['nodes']}: runs over several machines are not there yet; type nodes=1")
    return Settings(
        workload=workload.name,
        framework=framework.name,
        profile=profile,
        rules=rules,
        clock=clock,
        device=device,
        devices=config["gpus"],
        nodes=config["nodes"],
        cores_per_device=_cores_per_device(config, device),
        oversubscribe=config["oversubscribe"],
        precision=precision,
        batch_size_global=batch_size,
        batch_rule=config["batch"],
        lr_scaling=str(values.pop("lr_scaling")),
        seed=0,
        stop=stop,
        mode=config["mode"],
        dataset=dataset,
        data_dir="" if profile == "synthetic" else str(data_root() / dataset),
        model=defaults.model,
        targets=_targets(defaults, options),
        hyperparameter_set=set_name,
        hyperparameters=values,
        hyperparameter_sources=sources,
        options={
            **{name: value for name, value in options.items() if name not in (*values, "name", "dataset")},
            "decode": config["data"]["decode"],
            "data_threads": config["data"]["threads"],
            "skip_bad": config["data"]["skip_bad"],
            **_backbone(config["backbone"]),
        },
    )


def _backbone(backbone: Config) -> dict[str, Any]:
    """`backbone.*` where it is given, for `Workload.resolve`."""
    return {f"backbone_{name}": value for name, value in backbone.items() if value}


def _device(config: Config, profile: str, framework: Framework) -> str:
    """`cpu` or `cuda`; checks that there are enough of them."""
    wanted, count = config["device"], config["gpus"]
    visible = devices.gpus() if wanted != "cpu" else []
    if wanted == "cuda" and not visible:
        raise ValueError(
            "device=cuda: no NVIDIA device is visible here (driver, CUDA_VISIBLE_DEVICES?); type device=cpu"
        )
    if wanted == "auto" and not visible and profile == "reference":
        raise ValueError(
            "profile=reference needs a GPU and none is visible here; to train on CPU cores type device=cpu, "
            "for a small run without a data set type profile=demo"
        )
    use_cuda = bool(visible) and (wanted == "cuda" or _has_cuda_environment(config, profile, framework))
    if use_cuda and count > len(visible):
        raise ValueError(f"gpus={count}: this machine shows {len(visible)} GPU(s); type gpus={len(visible)} or less")
    return "cuda" if use_cuda else "cpu"


def _has_cuda_environment(config: Config, profile: str, framework: Framework) -> bool:
    """Under `device=auto` a demo uses GPUs only where the environment for them exists."""
    if profile == "reference":
        return True
    try:
        environment.resolve(config["environment"], framework.environments["cuda"])
    except ValueError:
        return False
    return True


def _cores_per_device(config: Config, device: str) -> int:
    """CPU cores of one device; checks that the machine has enough for all."""
    cores, count, asked = len(devices.cpu_cores()), config["gpus"], config["cpu"]["cores_per_device"]
    each = max(1, cores // count) if asked == "all" else int(asked)
    if device == "cpu" and each * count > cores and not config["oversubscribe"]:
        raise ValueError(
            f"gpus={count}: {count} CPU device(s) of {each} core(s) need {each * count} cores, this machine has {cores}; "
            f"type gpus={max(1, cores // each)}{', or cpu.cores_per_device=1' if each > 1 else ''}, "
            f"or oversubscribe=true (labels the result)"
        )
    return each


def _hyperparameters(
    workload: type[Workload], options: dict[str, Any], defaults: Defaults
) -> tuple[str, dict[str, Any], dict[str, str]]:
    """Name of the set, its values with the user's own on top, and the source of each."""
    sets = workload.hyperparameter_sets()
    name = options.pop("hyperparameter_set", "auto")
    name = defaults.hyperparameter_set if name == "auto" else name
    if name not in sets:
        raise not_allowed("workload.hyperparameter_set", name, sets)
    values = {key: setting.value for key, setting in sets[name].items()}
    sources = {key: setting.source for key, setting in sets[name].items()}
    for option in fields(workload.Options):
        given = options.get(option.name)
        if option.name in values and given is not None:
            values[option.name], sources[option.name] = given, "user"
    return name, values, sources


def _batch(config: Config, values: dict[str, Any], sources: dict[str, str]) -> int:
    """Global batch size; scales the learning rate in `values` where a rule says so."""
    of_set = int(values.pop("batch_size_global"))
    rule, count = config["batch"], config["gpus"]
    kind, _, number = rule.partition(":")
    size = of_set if kind == "set" else int(number) * (count if kind == "per_device" else 1)
    if size < count:
        raise ValueError(
            f"batch={rule}: {size} sample(s) per step cannot be shared by {count} devices; type batch=global:{count} or more"
        )
    if kind != "set":
        sources["batch_size_global"] = "user"
    scaling = values["lr_scaling"] if config["lr_scaling"] == "set" else config["lr_scaling"]
    values["lr_scaling"] = scaling
    ratio = size / of_set
    factor = {"none": 1.0, "linear": ratio, "sqrt": math.sqrt(ratio)}[str(scaling)]
    if factor != 1.0 and sources["learning_rate"] != "user":
        values["learning_rate"] *= factor
        sources["learning_rate"] = f"derived: {scaling} scaling of {sources['learning_rate']} from batch {of_set}"
    return size


def _targets(defaults: Defaults, options: dict[str, Any]) -> dict[str, float]:
    """The profile's targets, or the user's `workload.target` where there is one metric."""
    given = options.pop("target", None)
    if given is None or len(defaults.targets) != 1:
        return dict(defaults.targets)
    return {metric: float(given) for metric in defaults.targets}


def _labels(settings: Settings, facts: Facts) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """What stands beside every number of the run, and the cores that its devices share."""
    labels = [settings.profile] if settings.profile != "reference" else []
    cores: tuple[int, ...] = ()
    if settings.device == "cpu":
        labels.append("cpu")
        cores = devices.cpu_cores()
        if settings.devices * settings.cores_per_device > len(cores):
            labels.append("oversubscribed")
    return (*labels, *facts.notes), cores


def _deviations(settings: Settings, workload: type[Workload]) -> list[str]:
    """In what any run leaves the closed rules."""
    sources = settings.hyperparameter_sources.items()
    free = workload.free_hyperparameters
    found = [f"{name} set by the user" for name, source in sources if source == "user" and name not in free]
    if settings.profile != "reference":
        found.append(f"profile {settings.profile}")
    if settings.stop != "target":
        found.append(f"stop {settings.stop}")
    if settings.mode != "train":
        found.append(f"mode {settings.mode}")
    return found


def _identity(
    config: Config, settings: Settings, workload: type[Workload], framework_version: str, hardware: Config
) -> dict[str, str]:
    """Names that go into the log's first lines."""
    if settings.device == "cuda":
        device_name = str(hardware["gpus"][0]["name"])
    else:
        device_name = f"{settings.cores_per_device} core(s) of {hardware['cpu_model']}"
    platform = config["system"]["submission_platform"]
    return {
        "benchmark": workload.log_name,
        "sample_unit": workload.sample_unit,
        "submission_org": config["profile"]["submission_org"],
        "submission_status": config["profile"]["submission_status"],
        "submission_platform": f"{settings.devices}x {device_name}" if platform == "auto" else platform,
        "system": config["system"]["name"],
        "device_name": device_name,
        "framework_version": framework_version,
    }
