"""Jobs of a sweep, and their plans.

A job contains the settings of one combination of a sweep's values. A partial job needs no data set.
A plan contains the job and the partial job, or the errors that prevent the job.
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
    """The settings of one combination of a sweep's values, and the number of runs."""

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
        """Return the specification of a run with a new seed.

        A run of a closed-division job moves to the open division if the page caches were not
        cleared. All runs of an open-division job have the same deviations, so that they share a row
        in reports.

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
    """The fields of a job that can be determined without the data set."""

    workload: type[Workload]
    framework: Framework
    settings: Settings
    """Settings of the job. If the machine has fewer devices than requested, the settings use all
    available devices.
    """
    plugins: tuple[str, ...]
    """Distribution names of the installed plugins."""
    hosts: tuple[AvailableHost, ...]
    """The machines of the job's runs. An empty tuple means this machine, without an agent."""
    devices: int
    """Number of devices that the user requested."""
    seed_source: str
    """Source of the seed: `user` or `system`."""
    run_count: int = 1
    environment: Environment | None = None
    """Environment of the workers, or None if the environment is missing."""
    dataset_info: DatasetInfo | None = None
    """Numbers of samples and fingerprint of the data set, or None if the data set is missing."""
    versions: Mapping[str, str | None] = field(default_factory=dict)
    """Maps each distribution to its version in the environment, or to None if the distribution
    is not installed.
    """
    environment_variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the workers that are recorded with the runs."""

    def deviations(self, of_run: Workload | None = None) -> tuple[Deviation, ...]:
        """Return the reasons why the job's runs are in the open division.

        Page caches that were not cleared are not included, because `Job.run` adds this reason.

        Args:
            of_run: The workload with its data set. If given, settings that depend on the number of
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
    """The outcome of planning a configuration: a job, or the errors that prevent the job."""

    job: Job | None
    """The job, or None if the plan contains errors or a demo's data set must be generated first."""
    findings: tuple[ValueError, ...]
    """All errors, in the order in which the user should fix them.

    Each error message contains the rejected setting, the allowed values, and a remedy.
    """
    draft: PartialJob | None
    """The partial job, or None if its settings could not be determined."""
    notes: tuple[str, ...] = ()
    """Lines that are printed before the job runs."""


def division_of(deviations: Sequence[Deviation]) -> str:
    """Return `closed` for a run without deviations, and `open` for a run with deviations."""
    return "open" if deviations else "closed"
