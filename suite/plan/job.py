"""A job is a point of a sweep.

A partial job needs no data set. A plan holds both, or the errors that prevent them.
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
    """A point of a sweep: settings, and the number of runs with them."""

    name: str
    workload: type[Workload]
    folder: Path
    run_count: int
    template: RunSpec
    """The spec of the runs, except for index, folder, seed, and `cache_cleared` with the deviations
    that depend on it.
    """
    fixed_seed: int | None
    framework: Framework
    environment: Environment
    system: SystemConfig

    def run(self, index: int, cache_cleared: bool) -> RunSpec:
        """Return the spec of a run, with a new seed.

        A run of a job in the closed division is in the open division if the caches were not
        cleared. The runs of a job in the open division keep the same deviations, so that they share
        a row in reports.

        Args:
            index: Index of the run, from 0.
            cache_cleared: The page caches were cleared before the run.
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
    """The parts of a job that do not need its data set."""

    workload: type[Workload]
    framework: Framework
    settings: Settings
    """If the machine has too few devices, these are the settings with the devices that it has."""
    plugins: tuple[str, ...]
    """Distributions of the plugins."""
    hosts: tuple[AvailableHost, ...]
    """The machines of its runs. Empty: this machine, without an agent."""
    devices: int
    """Number of devices that the user requested."""
    seed_source: str
    """`user` or `system`."""
    run_count: int = 1
    environment: Environment | None = None
    """None: the environment is missing."""
    dataset_info: DatasetInfo | None = None
    """Counts and fingerprint of its data set. None: the data set is missing."""
    versions: Mapping[str, str | None] = field(default_factory=dict)
    """Maps a distribution to its version in the environment. None: it is not installed there."""
    environment_variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the workers that are recorded with its runs."""

    def deviations(self, of_run: Workload | None = None) -> tuple[Deviation, ...]:
        """Return the reasons why its runs are in the open division.

        Caches that were not cleared are not included (see `Job.run`).

        Args:
            of_run: The workload with its data set. With it, lengths are checked too.
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
        """The data set that is generated when the command starts.

        Empty: it exists, or the suite does not generate it.
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
    """None: there are errors, or the data set of a demo must be generated first."""
    findings: tuple[ValueError, ...]
    """All errors, in the order in which to fix them.

    Each names the given value, the allowed values, and a remedy.
    """
    draft: PartialJob | None
    """None: the settings could not be determined."""
    notes: tuple[str, ...] = ()
    """Lines to print before the job runs."""


def division_of(deviations: Sequence[Deviation]) -> str:
    """Return `closed` for a run without deviations."""
    return "open" if deviations else "closed"
