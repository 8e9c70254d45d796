"""Plan a job.

Planning makes every decision and check that is possible before the clock of a run starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from suite.common.run_config import RunConfig
from suite.common.study_file import StudyCell
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
    """Collects the ValueError that each `with` block raises."""

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
    overrides: Sequence[str] = (),
) -> Plan:
    """Plan a job, and collect all errors that would prevent the job from running.

    No process of the run is started.

    Args:
        config: The composed configuration of the job.
        name: Name of the job and of its folder.
        output: Folder in which job folders are created. If None, no job is built, and only errors
            are collected.
        plugins: The plugins of the command.
        hosts: The machines of the command. The job uses the first `config.nodes` machines. If
            empty, the job uses this machine.
        cell: The study cell to which the job belongs.
        descriptions: Descriptions of environments, shared by all jobs of the command.
        overrides: Command-line overrides that repeat the job.

    Returns:
        The plan. Errors are collected in `findings` instead of being raised.
    """
    findings, notes, draft, job = _Findings(), list[str](), None, None
    with findings:
        workload, framework = load_workload_and_framework(config)
        job_hosts = tuple(hosts[: config.nodes])
        settings = resolve_settings(config, workload, framework, job_hosts, findings.append)
        names = tuple(plugin.name for plugin in plugins)
        seed_source = "system" if config.seed is None else "user"
        draft = PartialJob(
            workload, framework, settings, names, job_hosts, config.gpus, seed_source
        )
        with findings:
            _check_checkpoint(config.checkpoint.when, settings)
        with findings:
            draft = replace(draft, run_count=_run_count(config, workload))
        with findings:
            auto = auto_environment(framework, settings.device, job_hosts, settings.devices)
            env = environment.resolve(config.environment, auto, settings.device, notes.append)
            draft = replace(draft, environment=with_plugins(env, plugins))
        with findings:
            draft = replace(draft, settings=workload.resolve(settings))
        with findings:
            check_open_ports(config, draft, notes.append)
        with findings:
            if draft.environment is not None:
                draft = describe_environment(
                    draft, draft.environment, descriptions or Descriptions()
                )
        with findings:
            draft = replace(
                draft,
                dataset_info=(
                    None if draft.generates else workload.load_dataset_info(draft.settings)
                ),
            )
        with findings:
            check_memory(workload, draft.settings, draft.hosts)
            if draft.dataset_info is not None and output is not None and not findings:
                job = make_job(draft, config, name, output, cell, overrides)
    if draft is not None and draft.dataset_info is not None:
        notes += schedule_notes(draft.workload, draft.settings, draft.dataset_info)
    return Plan(job, tuple(findings), draft, tuple(notes))


def check_trainers(drafts: Sequence[PartialJob], plugins: Sequence[Plugin]) -> None:
    """Import each trainer of a plugin once, in the environment in which it will run."""
    used = {
        (env.name, draft.workload.name, draft.framework.name): env
        for draft in drafts
        if (env := draft.environment)
    }
    for (_, workload, framework), env in used.items():
        check_trainer(env, workload, framework, plugins)


def _check_checkpoint(when: str, settings: Settings) -> None:
    """Raise ValueError if this run could not be resumed bit for bit from a checkpoint."""
    not_resumable = {
        f"mode={settings.mode}": settings.mode != "train",
        "update=async": settings.asynchronous,
        "timing=steps": settings.timing_each == "steps",
        f"timing.warmup_steps={settings.timing_warmup_steps}": settings.timing_warmup_steps > 0,
    }
    for override in (
        override for override, is_set in not_resumable.items() if is_set and when != "off"
    ):
        raise ValueError(
            f"checkpoint={when}: a run with {override} cannot be resumed. Leave either of them out"
        )


def _run_count(config: RunConfig, workload: type[Workload]) -> int:
    """Return the number of runs of a job.

    Raises ValueError for `official` if the rules do not specify a number of runs.
    """
    if config.runs != "official":
        return int(config.runs)
    if not workload.runs_required:
        raise ValueError(
            f"runs=official: the rules do not specify a number of runs for {workload.name}. Set"
            " runs=N"
        )
    return workload.runs_required
