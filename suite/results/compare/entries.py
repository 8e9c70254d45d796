"""The two sides of a comparison: sets of runs of our own, logs of other programs, or published results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.common.registry import nearest
from suite.results.logs.collect import Run, collect
from suite.results.names import workload_name
from suite.results.published.csv_files import PublishedResult, find_published_results
from suite.results.published.other_logs import with_system_details
from suite.results.score.groups import Row, rows
from suite.results.score.measurement import Measurement, measurements
from suite.results.text import clean, devices_text


@dataclass(frozen=True)
class Entry:
    """One measurement with what a comparison must know beyond it. Empty text: not known."""

    measurement: Measurement
    name: str
    """`ROUND/SUBMITTER/SYSTEM` of a published result; what was run on what for others."""
    division: str = ""
    stop: str = "target"
    mode: str = "train"
    dataset: str = ""
    data_fingerprint: str = ""
    lr_scaling: str = ""
    cores_per_device: int | None = None
    """Of devices that are cores of a CPU."""
    framework_version: str = ""
    hyperparameter_set: str = ""
    deviations: tuple[str, ...] = ()
    """In what the runs leave the closed rules."""

    @property
    def what(self) -> str:
        """`ncf on 2 devices (pytorch on dgx1)`."""
        item = self.measurement
        return f"{item.workload} on {devices_text(item.devices)} ({self.name})"


@dataclass(frozen=True)
class Side:
    """All that stands on one side."""

    name: str
    """What the side is called in sentences: `ours`, `A`, `v0.5/NVIDIA/dgx1`."""
    title: str
    """Where it is from."""
    entries: tuple[Entry, ...]
    left_out: tuple[str, ...] = ()
    """What is not among the entries, and why."""
    published: bool = False
    """False: a set of runs."""


def published_side(name: str) -> Side:
    """The published results that `name` says (results.published.figures.find). Raises ValueError with the nearest names."""
    found = find_published_results(name)
    title = f"{len(found)} published result{'' if len(found) == 1 else 's'}"
    return Side(name.strip("/"), title, tuple(published_entry(item) for item in found), published=True)


def published_entry(item: PublishedResult) -> Entry:
    """A published result as an entry."""
    return Entry(item.measurement, item.name, division=item.row.get("division", ""))


def logs_side(
    paths: Sequence[Path], name: str, profile: str | None = None, workloads: Sequence[str] = (), of: str = "LOGS"
) -> Side:
    """The successful runs below `paths`, grouped and scored. `of` is the argument that errors speak of.

    Raises ValueError (one line) for a path without logs, no run of a workload or profile, several profiles, no success.
    """
    title = ", ".join(map(str, paths))
    runs = with_system_details(collect(paths))
    runs = _only(runs, "workload", [workload_name(one) for one in workloads], of, title)
    runs = _only(runs, "profile", [profile] if profile else [], of, title)
    profiles = sorted({_kind(run, "profile") for run in runs if run.succeeded})
    if len(profiles) > 1:
        raise ValueError(
            f"{of} {title}: runs of several profiles ({', '.join(profiles)}), which have no relation to each other; "
            f"give --profile {profiles[0]}, or folders of one profile"
        )
    found = rows(runs)
    entries = [_entry(row, item) for row in found for item in measurements([row])]
    if not any(run.succeeded for run in runs):
        reasons = sorted({clean(run.reason or run.status, 60) for run in runs})
        raise ValueError(
            f"{of} {title}: none of {len(runs)} runs succeeded ({'; '.join(reasons[:2])}); "
            "there is nothing to compare (suite report lists them)"
        )
    uncounted = [
        f"{workload_name(clean(row.group.workload or 'unknown workload', 40))} of {clean(row.group.system, 60) or title}: "
        "the logs do not say on how many devices; put the system description (system.json) into the folder above them"
        for row in found
        if row.group.devices is None and row.score.runs_successful
    ]
    failed = sum(not run.succeeded for run in runs)
    if failed:
        uncounted.append(f"{failed} of {len(runs)} runs did not succeed (suite report lists them)")
    return Side(name, title, tuple(entries), tuple(uncounted))


def _kind(run: Run, name: str) -> str:
    settings = run.settings
    if settings is None:
        return ""
    return workload_name(settings.workload) if name == "workload" else settings.profile or "published"


def _only(runs: list[Run], name: str, wanted: Sequence[str], of: str, title: str) -> list[Run]:
    """Runs of the wanted workloads or profiles. Raises ValueError with what there is."""
    if not wanted:
        return runs
    there = sorted({kind for kind in (_kind(run, name) for run in runs) if kind})
    for one in wanted:
        if one not in there:
            names = ", ".join(clean(text, 40) for text in there) or "none that can be read"
            raise ValueError(f"{of} {title}: no run of {name} {one}; there are: {names}{nearest(one, there)}")
    return [run for run in runs if _kind(run, name) in wanted]


def _entry(row: Row, item: Measurement) -> Entry:
    group = row.group
    divisions = {run.reading.record.division for run in row.attempts if run.reading is not None}
    return Entry(
        measurement=item,
        name=clean(item.series or item.system or "unknown system", 100),
        division=" and ".join(sorted(divisions - {""})),
        stop=group.stop,
        mode=group.mode,
        dataset=group.dataset,
        data_fingerprint=group.data_fingerprint,
        lr_scaling=group.lr_scaling,
        cores_per_device=group.cores_per_device if group.device == "cpu" else None,
        framework_version=group.framework_version,
        hyperparameter_set=group.hyperparameter_set,
        deviations=group.deviations,
    )
