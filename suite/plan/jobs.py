"""From what the user typed to what a run needs: every decision and every check that can be made before a clock starts."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from suite import __version__
from suite.common import registry
from suite.common.git_state import git_state
from suite.common.labels import Label, LabelKind, profile_label
from suite.common.registry import not_allowed
from suite.common.run_config import RunConfig, SystemConfig
from suite.common.runspec import RunSpec
from suite.common.source_code import expected_digest, files_unlike_commit
from suite.common.study import StudyCell
from suite.environments import environment
from suite.environments.environment import Descriptions, Environment
from suite.environments.plugins import Plugin, check_trainer, with_plugins
from suite.launch import private_network
from suite.launch.base import Framework, variables_set_by_run
from suite.launch.hosts import AvailableHost, spread
from suite.launch.recorded_env import environment_deviations, recorded_variables
from suite.machine import devices
from suite.machine.visible import NULL_DEVICE
from suite.plan.capacity import check_inputs, check_memory
from suite.plan.schedule import schedule_note
from suite.plan.settings import MissingResourceError, UnsupportedError, auto_environment, resolve_settings, visible_gpus
from suite.plan.validate_workload import check_workload
from workloads.api import Deviation, DeviationCode, Facts, Settings, Workload
from workloads.api.deviations import data_deviation


@dataclass(frozen=True)
class Job:
    """One setting of a sweep: one or several runs of it."""

    name: str
    workload: type[Workload]
    folder: Path
    run_count: int
    template: RunSpec
    """The runs' spec, but for index, folder, seed, `cache_cleared` and what follows from that."""
    fixed_seed: int | None
    framework: Framework
    environment: Environment
    system: SystemConfig

    def run(self, index: int, cache_cleared: bool) -> RunSpec:
        """The spec of run `index`, with a seed of its own.

        A run of a closed job is open where the caches were not cleared. An open job's runs stay alike: they share a row.
        """
        seed = secrets.randbits(31) if self.fixed_seed is None else self.fixed_seed + index
        folder = self.folder / f"run_{index}"
        run = replace(self.template, run_index=index, folder=str(folder), cache_cleared=cache_cleared)
        run = replace(run, settings=replace(run.settings, seed=seed))
        if run.deviations:
            return run
        deviations = tuple(self.workload.deviations(run.settings, cache_clear=cache_cleared))
        return replace(run, deviations=deviations, division=_division(deviations))


@dataclass(frozen=True)
class PartialJob:
    """A job as far as it is known without its data set."""

    workload: type[Workload]
    framework: Framework
    settings: Settings
    """Where the machine lacks devices: with those that it has."""
    plugins: tuple[str, ...]
    """Distributions from outside."""
    hosts: tuple[AvailableHost, ...]
    """The machines of its runs; empty: this one, without an agent."""
    devices: int
    """As many as were asked for."""
    seed_source: str
    """`user` or `system`."""
    run_count: int = 1
    environment: Environment | None = None
    """None: it is not there."""
    facts: Facts | None = None
    """Of its data set; None: that is not there."""
    versions: Mapping[str, str | None] = field(default_factory=dict)
    """Distribution to its version in the environment; None: not installed there."""
    environment_variables: Mapping[str, str] = field(default_factory=dict)
    """Variables of the workers that are recorded with its runs."""

    def deviations(self, of_run: Workload | None = None) -> tuple[Deviation, ...]:
        """Return the reasons why its runs are in the open division, as far as they are known.

        Args:
            of_run: The workload with its data set. With it, lengths are checked too; whether caches are cleared is checked
                before each run (`Job.run`).
        """
        circumstances = {"seed_source": self.seed_source, **(of_run.circumstances() if of_run is not None else {})}
        of_data = map(data_deviation, self.facts.notes if self.facts is not None else ())
        of_environment = environment_deviations(self.environment_variables)
        judge = self.workload.deviations
        return (*judge(self.settings), *judge(self.settings, **circumstances), *of_data, *of_environment)

    @property
    def generates(self) -> str:
        """The data set that is made when the command starts; empty: it is there, or is not made by the suite."""
        settings = self.settings
        if settings.profile != "demo" or not settings.data_dir:
            return ""
        recipe = registry.load_dataset(settings.dataset)
        return settings.dataset if recipe.generated and not recipe.is_prepared(Path(settings.data_dir)) else ""


class Plan(NamedTuple):
    """What one configuration comes to."""

    job: Job | None
    """None where something is in the way, or a demo's data set has to be generated first."""
    findings: tuple[ValueError, ...]
    """All that is in the way, in the order in which it is to be removed: what was given, what is allowed, what to type."""
    draft: PartialJob | None
    """None where not even the settings are known."""
    notes: tuple[str, ...] = ()
    """What is to be said before it runs, a line each."""


class _Findings(list[ValueError]):
    """Collects the ValueErrors of `with` blocks."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, ValueError):
            self.append(error)
        return isinstance(error, ValueError)


def plan(
    config: RunConfig,
    name: str = "",
    output: Path | None = None,
    plugins: Sequence[Plugin] = (),
    hosts: Sequence[AvailableHost] = (),
    cell: StudyCell | None = None,
    descriptions: Descriptions | None = None,
    typed: Sequence[str] = (),
) -> Plan:
    """Everything about one job that can be known before a process starts, and everything that is in its way.

    `output`: where its runs would go; None: no job is wanted, only what is in the way of one. `hosts`: the machines of the
    command, of which a job takes the first ones. `cell`: of a study. `descriptions`: of environments, for the whole command.
    `typed`: what repeats the job.
    """
    findings, notes, draft, job = _Findings(), list[str](), None, None
    with findings:
        workload, framework = load_workload_and_framework(config)
        taken = tuple(hosts[: config.nodes])
        settings = resolve_settings(config, workload, framework, taken, findings.append)
        names = tuple(plugin.name for plugin in plugins)
        seed_source = "system" if config.seed is None else "user"
        draft = PartialJob(workload, framework, settings, names, taken, config.gpus, seed_source)
        with findings:
            _check_checkpoint(config.checkpoint.when, settings)
        with findings:
            draft = replace(draft, run_count=_run_count(config, workload))
        with findings:
            auto = auto_environment(framework, settings.device, taken, settings.devices)
            env = environment.resolve(config.environment, auto, settings.device, notes.append)
            draft = replace(draft, environment=with_plugins(env, plugins))
        with findings:
            draft = replace(draft, settings=workload.resolve(settings))
        with findings:
            _check_open_ports(config, draft, notes.append)
        with findings:
            if draft.environment is not None:
                draft = _described(draft, draft.environment, descriptions or Descriptions())
        with findings:
            draft = replace(draft, facts=None if draft.generates else workload.read_facts(draft.settings))
        with findings:
            check_memory(workload, draft.settings, draft.hosts)
            if draft.facts is not None and output is not None and not findings:
                job = make_job(draft, config, name, output, cell, typed)
    if draft is not None and draft.facts is not None:
        notes += _schedule_notes(draft.workload, draft.settings, draft.facts)
    return Plan(job, tuple(findings), draft, tuple(notes))


def _schedule_notes(workload: type[Workload], settings: Settings, facts: Facts) -> list[str]:
    """Return the note on a run beyond its schedule's end, if there is one; a run that is refused has none."""
    try:
        of_run = workload(settings, facts)
        check_workload(of_run)
    except ValueError:
        return []
    note = schedule_note(of_run)
    return [note] if note else []


def load_workload_and_framework(config: RunConfig) -> tuple[type[Workload], Framework]:
    """Return the workload and the framework of a configuration. Raises ValueError; `UnsupportedError` without a trainer."""
    workload = registry.load_workload(config.workload_name)
    framework: Framework = registry.load_framework(config.framework.name)
    offered = registry.frameworks_of(workload.name)
    if framework.name not in offered:
        raise UnsupportedError(str(not_allowed(f"framework (for workload={workload.name})", framework.name, offered)))
    return workload, framework


def check_trainers(drafts: Sequence[PartialJob], plugins: Sequence[Plugin]) -> None:
    """Import the plugins' trainers that a sweep uses, each once, where they are going to run."""
    used = {(env.name, one.workload.name, one.framework.name): env for one in drafts if (env := one.environment)}
    for (_, workload, framework), env in used.items():
        check_trainer(env, workload, framework, plugins)


def make_job(
    draft: PartialJob,
    config: RunConfig,
    name: str,
    output: Path,
    cell: StudyCell | None,
    typed: Sequence[str],
) -> Job:
    """The job of a draft whose environment and data are there. Raises ValueError for what cannot be meant with these data."""
    workload, framework, settings, env = draft.workload, draft.framework, draft.settings, draft.environment
    facts = draft.facts
    assert env is not None
    assert facts is not None
    of_run = workload(settings, facts)
    check_workload(of_run)
    check_inputs(of_run, draft.hosts)
    fixed_labels, cores = _labels(settings, facts, draft.hosts)
    deviations = draft.deviations(of_run) or _code_deviations(workload.name, framework.name)
    installed = {name: version for name, version in draft.versions.items() if version is not None}
    versions = {"suite": __version__, **installed}
    framework_version = next((versions[name] for name in framework.packages if name in versions), "unknown")
    hardware = _hardware(draft.hosts)
    template = RunSpec(
        run_index=0,
        runs_required=workload.official_runs,
        folder="",
        settings=settings,
        facts=facts,
        labels=fixed_labels,
        division=_division(deviations),
        deviations=deviations,
        cores=cores,
        cache_cleared=False,
        watchdog_seconds=float(config.watchdog_seconds),
        setup_watchdog_seconds=float(config.setup_watchdog_seconds),
        identity=_identity(config, settings, workload, framework_version, hardware),
        environment=asdict(env),
        versions=versions,
        git=git_state(),
        code_digest=expected_digest(workload.name, framework.name),
        hardware=hardware,
        hosts=spread(draft.hosts, settings.devices, settings.device == "cpu") if draft.hosts else (),
        study=cell.study.name if cell is not None else "",
        study_cell=cell.texts if cell is not None else (),
        typed=tuple(typed),
        checkpoint=config.checkpoint.when,
        checkpoint_final=config.checkpoint.final,
        environment_variables=draft.environment_variables,
        open_network=bool(config.framework.allow_open_grpc),
    )
    return Job(
        name=name,
        workload=workload,
        folder=output / name,
        run_count=draft.run_count,
        template=template,
        fixed_seed=config.seed,
        framework=framework,
        environment=env,
        system=config.system,
    )


def _check_open_ports(config: RunConfig, draft: PartialJob, log: Callable[[str], object]) -> None:
    """Warn of servers that strangers can reach. Raise ValueError if that is not allowed and they cannot be shut off.

    On one machine, processes that listen everywhere are started in a private network. That is not possible where the kernel
    forbids it, and in a container, whose network is the machine's.
    """
    framework, settings, env = draft.framework, draft.settings, draft.environment
    if env is None or not framework.listens_everywhere(settings):
        return
    risk = (
        f"the servers of {framework.title or framework.name} have no authentication and listen on all interfaces: "
        f"whoever reaches their ports can read and write files and run code as you"
    )
    if settings.nodes > 1 or config.framework.allow_open_grpc:
        log(f"warning: {risk}; let a firewall keep strangers out (docs/several_machines.md)")
        return
    if env.container is not None:
        reason = f"environment={env.name} gives them the network of the machine"
    else:
        fault = draft.hosts[0].private_network_fault if draft.hosts else private_network.unavailable_reason()
        reason = f"this machine cannot make a private network for them ({fault})" if fault else ""
    if reason:
        raise MissingResourceError(
            f"gpus={settings.devices} framework={framework.name}: {risk}, and {reason}; allowed: gpus=1, another framework, "
            f"or, if only you can reach this machine's ports, set framework.allow_open_grpc=true"
        )


def _described(draft: PartialJob, env: Environment, descriptions: Descriptions) -> PartialJob:
    """Return the draft with what its environment's Python finds there. Raises ValueError if that Python does not answer."""
    packages = (*draft.framework.packages, *draft.plugins, "numpy", "mlperf-logging")
    description = descriptions.of(env, packages)
    set_by_run = variables_set_by_run(draft.framework, _launched(draft))
    recorded = recorded_variables(description.variables, set_by_run)
    return replace(draft, versions=description.versions, environment_variables=recorded)


def _launched(draft: PartialJob) -> RunSpec:
    """Return a run of the draft as far as commands of its processes depend on it."""
    settings = draft.settings
    on_cpu = settings.device == "cpu"
    return RunSpec(
        run_index=0,
        runs_required=0,
        folder="",
        settings=settings,
        facts=Facts(0, 0, {}, ""),
        labels=(),
        division="",
        deviations=(),
        cores=(draft.hosts[0].cores if draft.hosts else devices.cpu_cores()) if on_cpu else (),
        cache_cleared=False,
        watchdog_seconds=0.0,
        setup_watchdog_seconds=0.0,
        identity={},
        environment={},
        versions={},
        git={},
        hardware={},
        hosts=spread(draft.hosts, settings.devices, on_cpu) if draft.hosts else (),
    )


def _check_checkpoint(when: str, settings: Settings) -> None:
    """Raise ValueError for a run that could not go on from one as if nothing had been."""
    without = {
        f"mode={settings.mode}": settings.mode != "train",
        "update=async": settings.asynchronous,
        "timing=steps": settings.timing_each == "steps",
        f"timing.warmup_steps={settings.timing_warmup_steps}": settings.timing_warmup_steps > 0,
    }
    for words in (words for words, given in without.items() if given and when != "off"):
        raise ValueError(f"checkpoint={when}: {words} has none to go on from; leave one of them out")


def _run_count(config: RunConfig, workload: type[Workload]) -> int:
    """Raises ValueError for `official` where the rules name no number."""
    if config.runs != "official":
        return int(config.runs)
    if not workload.official_runs:
        raise ValueError(f"runs=official: no rules name a number of runs for {workload.name}; type runs=N")
    return workload.official_runs


def _hardware(hosts: Sequence[AvailableHost]) -> Mapping[str, Any]:
    """Of this machine, or of the first of several, with all of them below it."""
    if not hosts:
        return devices.hardware()
    listed = [{"address": host.address, "interface": host.interface, **host.hardware} for host in hosts]
    return {**hosts[0].hardware, **({"nodes": listed} if len(hosts) > 1 else {})}


def _labels(
    settings: Settings, facts: Facts, hosts: Sequence[AvailableHost] = ()
) -> tuple[tuple[Label, ...], tuple[int, ...]]:
    """Return the labels of the run, and the cores that its devices share (those of the first machine)."""
    labels = [profile_label(settings.profile)] if settings.profile != "reference" else []
    cores: tuple[int, ...] = ()
    if settings.device == "cpu":
        labels.append(Label(LabelKind.CPU))
        cores = hosts[0].cores if hosts else devices.cpu_cores()
        least = min((len(host.cores) for host in hosts), default=len(cores))
        if settings.devices * settings.cores_per_device > least * max(1, len(hosts)):
            labels.append(Label(LabelKind.OVERSUBSCRIBED))
    if settings.device == "cuda" and any(NULL_DEVICE in gpu["name"] for gpus in visible_gpus(hosts) for gpu in gpus):
        labels.append(Label(LabelKind.NULL_DEVICE))
    if settings.asynchronous:
        labels.append(Label(LabelKind.ASYNC))
    if settings.straggler_ms:
        labels.append(Label(LabelKind.STRAGGLER, f"{settings.straggler_ms} ms"))
    return (*labels, *(Label(LabelKind.DATA, note) for note in facts.notes)), cores


def _code_deviations(workload: str, framework: str) -> tuple[Deviation, ...]:
    """Return why a run is open if the code of this checkout is not that of the commit that the log names."""
    changed = files_unlike_commit(workload, framework)
    if not changed:
        return ()
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    return (Deviation(DeviationCode.CHANGED_CODE, detail=f"code unlike its commit: {changed[0]}{more}"),)


def _division(deviations: Sequence[Deviation]) -> str:
    """Return `closed` for a run without deviations."""
    return "open" if deviations else "closed"


def _identity(
    config: RunConfig, settings: Settings, workload: type[Workload], framework_version: str, hardware: Mapping[str, Any]
) -> dict[str, str]:
    """Names that go into the log's first lines."""
    if settings.device == "cuda":
        device_name = str(hardware["gpus"][0]["name"])
    else:
        device_name = f"{settings.cores_per_device} core(s) of {hardware['cpu_model']}"
    platform, price = config.system.submission_platform, config.system.price_per_device_hour
    return {
        "benchmark": workload.log_name,
        "sample_unit": workload.sample_unit,
        "batch_unit": workload.batch_unit,
        "submission_org": config.profile.submission_org,
        "submission_status": config.profile.submission_status,
        "submission_platform": f"{settings.devices}x {device_name}" if platform == "auto" else platform,
        "system": config.system.name,
        "device_name": device_name,
        "framework_version": framework_version,
        "price_per_device_hour": "" if price is None else f"{float(price):g}",
    }
