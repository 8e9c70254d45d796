"""From what the user typed to what a run needs: every decision and every check that can be made before a clock starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from suite.common.run_config import RunConfig
from suite.common.study import StudyCell
from suite.environments import environment
from suite.environments.environment import Descriptions
from suite.environments.plugins import Plugin, check_trainer, with_plugins
from suite.launch.hosts import AvailableHost
from suite.plan.capacity import check_memory
from suite.plan.device_choice import auto_environment
from suite.plan.environment_checks import check_open_ports, describe_environment
from suite.plan.job import PartialJob, Plan
from suite.plan.load import load_workload_and_framework
from suite.plan.run_template import make_job
from suite.plan.schedule_notes import schedule_notes
from suite.plan.settings import resolve_settings
from workloads.api import Settings, Workload


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
            check_open_ports(config, draft, notes.append)
        with findings:
            if draft.environment is not None:
                draft = describe_environment(draft, draft.environment, descriptions or Descriptions())
        with findings:
            draft = replace(draft, facts=None if draft.generates else workload.read_facts(draft.settings))
        with findings:
            check_memory(workload, draft.settings, draft.hosts)
            if draft.facts is not None and output is not None and not findings:
                job = make_job(draft, config, name, output, cell, typed)
    if draft is not None and draft.facts is not None:
        notes += schedule_notes(draft.workload, draft.settings, draft.facts)
    return Plan(job, tuple(findings), draft, tuple(notes))


def check_trainers(drafts: Sequence[PartialJob], plugins: Sequence[Plugin]) -> None:
    """Import the plugins' trainers that a sweep uses, each once, where they are going to run."""
    used = {(env.name, one.workload.name, one.framework.name): env for one in drafts if (env := one.environment)}
    for (_, workload, framework), env in used.items():
        check_trainer(env, workload, framework, plugins)


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
