"""The results that a comparison takes: from our runs, logs of other programs, or published results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.common.registry import nearest
from suite.results.logs.collect import Run, collect, not_ended_text
from suite.results.names import workload_name
from suite.results.published.csv_files import PublishedResult, find_published_results
from suite.results.published.other_logs import with_system_details
from suite.results.score.groups import Group, Row, rows
from suite.results.score.measurement import Measurement, measurements
from suite.results.text import clean, devices_text


@dataclass(frozen=True)
class Entry:
    """A measurement with the further settings that a comparison looks at. Empty text: not known."""

    measurement: Measurement
    name: str
    """`ROUND/SUBMITTER/SYSTEM` of a published result; framework and system of others."""
    division: str = ""
    stop: str = "target"
    mode: str = "train"
    dataset: str = ""
    data_fingerprint: str = ""
    lr_scaling: str = ""
    cores_per_device: int | None = None
    """Set where the devices are CPU cores."""
    framework_version: str = ""
    hyperparameter_set: str = ""
    deviations: tuple[str, ...] = ()
    """How the runs deviate from the rules of the closed division."""
    machine: str = ""
    """`suite.results.score.condition.machine_condition`: busy or not."""
    group: Group | None = None
    """All settings of our own runs; None for results of others."""

    @property
    def description(self) -> str:
        """Workload, devices and name: `ncf on 2 devices (pytorch on dgx1)`."""
        item = self.measurement
        return f"{item.workload} on {devices_text(item.devices, item.nodes)} ({self.name})"


@dataclass(frozen=True)
class ResultSet:
    """One of the two sets of results to compare."""

    name: str
    """Name in sentences: `ours`, `A`, `v0.5/NVIDIA/dgx1`."""
    title: str
    """Where the results come from."""
    entries: tuple[Entry, ...]
    left_out: tuple[str, ...] = ()
    """Results that are not among the entries, and why."""
    published: bool = False
    """True for published results, False for a set of runs."""


def published_result_set(name: str, workloads: Sequence[str] = ()) -> ResultSet:
    """The published results called `name` (`find_published_results`), of these workloads alone if any are named.

    Raises ValueError with the nearest names.
    """
    wanted = [workload_name(workload) for workload in workloads]
    results = [item for item in find_published_results(name) if not wanted or item.benchmark in wanted]
    title = f"{len(results)} published result{'' if len(results) == 1 else 's'}"
    return ResultSet(name.strip("/"), title, tuple(published_entry(item) for item in results), published=True)


def published_entry(item: PublishedResult) -> Entry:
    """A published result as an entry."""
    return Entry(item.measurement, item.name, division=item.measurement.division)


def result_set_from_logs(
    paths: Sequence[Path], name: str, profile: str | None = None, workloads: Sequence[str] = (), argument: str = "LOGS"
) -> ResultSet:
    """The successful runs below `paths`, grouped and scored. `argument` is its name in error messages.

    Raises ValueError (one line) for a path without logs, no run of a workload or profile, several profiles, no success.
    """
    title = ", ".join(map(str, paths))
    runs = with_system_details(collect(paths))
    runs = _select_runs(runs, "workload", [workload_name(workload) for workload in workloads], argument, title)
    runs = _select_runs(runs, "profile", [profile] if profile else [], argument, title)
    profiles = sorted({_run_property(run, "profile") for run in runs if run.succeeded})
    if len(profiles) > 1:
        raise ValueError(
            f"{argument} {title}: runs of several profiles ({', '.join(profiles)}), which have no relation to each other; "
            f"give --profile {profiles[0]}, or folders of one profile"
        )
    scored = rows(runs)
    entries = [_entry_of_row(row, item) for row in scored for item in measurements([row])]
    if not any(run.succeeded for run in runs):
        reasons = sorted({clean(run.reason or run.status, 60) for run in runs})
        raise ValueError(
            f"{argument} {title}: none of {len(runs)} runs succeeded ({'; '.join(reasons[:2])}); "
            "there is nothing to compare (suite report lists them)"
        )
    left_out = [
        f"{workload_name(clean(row.group.workload or 'unknown workload', 40))} of {clean(row.group.system, 60) or title}: "
        "the logs do not say on how many devices; put the system description (system.json) into the folder above them"
        for row in scored
        if row.group.devices is None and row.score.runs_successful
    ]
    failed = sum(not run.succeeded and not run.running for run in runs)
    left_out += [f"{text} (suite report lists them)" for text in [not_ended_text(runs)] if text]
    if failed:
        left_out.append(f"{failed} of {len(runs)} runs did not succeed (suite report lists them)")
    return ResultSet(name, title, tuple(entries), tuple(left_out))


def _run_property(run: Run, name: str) -> str:
    settings = run.settings
    if settings is None:
        return ""
    return workload_name(settings.workload) if name == "workload" else settings.profile or "published"


def _select_runs(runs: list[Run], name: str, requested: Sequence[str], argument: str, title: str) -> list[Run]:
    """Runs of the requested workloads or profiles. Raises ValueError with the existing ones."""
    if not requested:
        return runs
    existing = sorted({kind for kind in (_run_property(run, name) for run in runs) if kind})
    for value in requested:
        if value not in existing:
            names = ", ".join(clean(text, 40) for text in existing) or "none that can be read"
            raise ValueError(
                f"{argument} {title}: no run of {name} {value}; there are: {names}{nearest(value, existing)}"
            )
    return [run for run in runs if _run_property(run, name) in requested]


def _entry_of_row(row: Row, item: Measurement) -> Entry:
    group = row.group
    return Entry(
        measurement=item,
        name=clean(item.series or item.system or "unknown system", 100),
        division=item.division,
        stop=group.stop,
        mode=group.mode,
        dataset=group.dataset,
        data_fingerprint=group.data_fingerprint,
        lr_scaling=group.lr_scaling,
        cores_per_device=group.cores_per_device if group.device == "cpu" else None,
        framework_version=group.framework_version,
        hyperparameter_set=group.hyperparameter_set,
        deviations=group.deviations,
        machine=row.condition,
        group=group if group.profile else None,
    )
