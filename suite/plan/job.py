"""A job: one setting of a sweep. A partial job is known without its data set. A plan holds both, or what prevents them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from suite.common import registry
from suite.common.run_config import SystemConfig
from suite.common.runspec import RunSpec
from suite.environments.environment import Environment
from suite.launch.base import Framework
from suite.launch.hosts import AvailableHost
from suite.launch.recorded_env import environment_deviations
from workloads.api import Deviation, Facts, Settings, Workload
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
        return replace(run, deviations=deviations, division=division_of(deviations))


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


def division_of(deviations: Sequence[Deviation]) -> str:
    """Return `closed` for a run without deviations."""
    return "open" if deviations else "closed"
