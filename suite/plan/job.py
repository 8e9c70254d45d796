"""Jobs of a sweep and their plans.

A job contains the settings of a sweep point. A partial job needs no data set. A plan contains the
job and the partial job, or the errors that prevent them.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from suite.catalog.deviations import Deviation, data_deviation
from suite.catalog.division import find_deviations, schedule_inputs
from suite.common import registry
from suite.common.run_config import SystemConfig
from suite.common.runspec import RunSpec
from suite.environments.environment import Environment
from suite.launch.base import Framework
from suite.launch.hosts import AvailableHost
from suite.launch.recorded_env import environment_deviations
from workloads.api import DatasetInfo, Settings, Workload


@dataclass(frozen=True)
class Job:
    """A point of a sweep: settings, and the number of runs with these settings."""

    name: str
    workload: type[Workload]
    folder: Path
    run_count: int
    template: RunSpec
    """Specification of the runs. The index, folder, seed, `cache_cleared`, and deviations that
    depend on `cache_cleared` are set for each run.
    """
    fixed_seed: int | None
    framework: Framework
    environment: Environment
    system: SystemConfig

    def run(self, index: int, cache_cleared: bool) -> RunSpec:
        """Return the specification of a run, with a new seed.

        If the caches were not cleared, a run of a closed-division job is in the open division. The
        runs of an open-division job keep the same deviations, so that they share a row in reports.

        Args:
            index: Index of the run, starting at 0.
            cache_cleared: True if the page caches were cleared before the run.
        """
        seed = secrets.randbits(31) if self.fixed_seed is None else self.fixed_seed + index
        folder = self.folder / f"run_{index}"
        run = replace(
            self.template, run_index=index, folder=str(folder), cache_cleared=cache_cleared
        )
        run = replace(run, settings=replace(run.settings, seed=seed))
        if run.deviations:
            return run
        deviations = tuple(find_deviations(self.workload, run.settings, cache_clear=cache_cleared))
        return replace(run, deviations=deviations, division=division_of(deviations))


@dataclass(frozen=True)
class PartialJob:
    """The attributes of a job that do not depend on its data set."""

    workload: type[Workload]
    framework: Framework
    settings: Settings
    """Settings of the job. If the machine has too few devices, the settings use all available
    devices.
    """
    plugins: tuple[str, ...]
    """Names of the plugins' distributions."""
    hosts: tuple[AvailableHost, ...]
    """The machines of the job's runs. An empty tuple means this machine, without an agent."""
    devices: int
    """Number of devices that the user requested."""
    seed_source: str
    """Origin of the seed: `user` or `system`."""
    run_count: int = 1
    environment: Environment | None = None
    """Environment of the workers, or None if the environment is missing."""
    dataset_info: DatasetInfo | None = None
    """Counts and fingerprint of the data set, or None if the data set is missing."""
    versions: Mapping[str, str | None] = field(default_factory=dict)
    """Maps a distribution to its version in the environment, or to None if it is not installed."""
    environment_variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the workers that are recorded with the runs."""

    def deviations(self, of_run: Workload | None = None) -> tuple[Deviation, ...]:
        """Return the reasons why the job's runs are in the open division.

        The result does not include caches that were not cleared (see `Job.run`).

        Args:
            of_run: The workload with its data set. If given, values that depend on the number of
                samples are also checked.
        """
        rule_inputs = {
            "seed_source": self.seed_source,
            **(schedule_inputs(of_run) if of_run is not None else {}),
        }
        of_data = map(
            data_deviation, self.dataset_info.notes if self.dataset_info is not None else ()
        )
        of_environment = environment_deviations(self.environment_variables)
        of_settings = find_deviations(self.workload, self.settings)
        of_inputs = find_deviations(self.workload, self.settings, **rule_inputs)
        return (*of_settings, *of_inputs, *of_data, *of_environment)

    @property
    def generates(self) -> str:
        """Return the name of the data set that is generated when the command starts.

        The string is empty if the data set exists, or if the suite cannot generate it.
        """
        settings = self.settings
        if settings.profile != "demo" or not settings.data_dir:
            return ""
        recipe = registry.load_dataset(settings.dataset)
        return (
            settings.dataset
            if recipe.generated and not recipe.is_prepared(Path(settings.data_dir))
            else ""
        )


class Plan(NamedTuple):
    """The result of planning a configuration: a job, or the errors that prevent it."""

    job: Job | None
    """The job. None if the plan contains errors, or if a demo's data set must be generated
    first.
    """
    findings: tuple[ValueError, ...]
    """All errors, in the order in which the user should fix them.

    Each error message contains the given value, the allowed values, and a remedy.
    """
    draft: PartialJob | None
    """The partial job, or None if its settings could not be determined."""
    notes: tuple[str, ...] = ()
    """Lines that are printed before the job runs."""


def division_of(deviations: Sequence[Deviation]) -> str:
    """Return `closed` if a run has no deviations, otherwise `open`."""
    return "open" if deviations else "closed"
