"""The two sides of a comparison.

A side consists of logs of this suite or of published results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.common.labels import LabelKind
from suite.common.registry import invalid_choice
from suite.common.relative_path import relative_path
from suite.launch.registered_frameworks import title_of
from suite.results.columns import Result
from suite.results.names import short_title, workload_name
from suite.results.scores import find_published, results_of
from suite.results.settings_difference import distinct_labels
from suite.results.table import read_runs
from suite.results.text import clean, devices_text


@dataclass(frozen=True)
class Side:
    """A set of results that `suite compare` compares with a second set."""

    name: str
    """Name of the set in sentences and columns: `A`, `ours`, or `published`."""
    title: str
    """Folders of the logs, or the name of the published results."""
    results: tuple[Result, ...]
    left_out: tuple[str, ...] = ()
    published: bool = False

    def name_of(self, result: Result) -> str:
        """Return a name that distinguishes a result from all other results in this set.

        Example: `PyTorch on dgx1, learning rate 0.002`.
        """
        name = result_name(result)
        if self.published:
            return name
        hardware = hardware_text(result)
        alike = [
            member
            for member in self.results
            if result_name(member) == name and hardware_text(member) == hardware
        ]
        settings = dict(zip((member.key for member in alike), distinct_labels(alike), strict=True))
        return ", ".join(filter(None, (name, settings.get(result.key))))

    def describe(self, result: Result) -> str:
        """Describe a result by workload, devices, and name.

        Example: `NCF on 2 devices (PyTorch on dgx1, learning rate 0.002)`.
        """
        return f"{hardware_text(result)} ({self.name_of(result)})"


def result_name(result: Result) -> str:
    """Return the name of a result: `v0.5/NVIDIA/dgx1_…` or `PyTorch on dgx1`."""
    if result.published:
        return clean(result.run, 100)
    return clean(
        f"{title_of(result.framework)} on {result.system}" if result.framework else result.system,
        100,
    )


def hardware_text(result: Result) -> str:
    """Describe the workload and the devices of a result: `NCF on 8 devices`."""
    return (
        f"{short_title(clean(result.workload, 40))} on"
        f" {devices_text(result.devices or 0, result.nodes)}"
    )


def published_side(name: str, side: str = "published", workloads: Sequence[str] = ()) -> Side:
    """Return the published results with a name as a side of a comparison.

    Args:
        name: ROUND, ROUND/SUBMITTER, or ROUND/SUBMITTER/SYSTEM.
        side: Name of the side in sentences and columns.
        workloads: Include only these workloads. If empty, all workloads are included.

    Raises:
        ValueError: No published results have the name.
    """
    wanted = [workload_name(workload) for workload in workloads]
    published = tuple(
        result for result in find_published(name) if not wanted or result.workload in wanted
    )
    count = f"{len(published)} published result{'' if len(published) == 1 else 's'}"
    return Side(side, f"{name.strip('/')} ({count})", published, published=True)


def logs_side(
    paths: Sequence[Path],
    name: str,
    profile: str | None = None,
    workloads: Sequence[str] = (),
    argument: str = "LOGS",
) -> Side:
    """Return the results of the runs below `paths` as a side of a comparison.

    Args:
        paths: Logs, or folders with logs.
        name: Name of the side in sentences and columns.
        profile: Include only runs with this profile.
        workloads: Include only these workloads. If empty, all workloads are included.
        argument: Name of the command-line argument in error messages.

    Raises:
        ValueError: A path has no logs, no run has the workload or profile, the runs have several
            profiles, or no run succeeded.
    """
    title = ", ".join(relative_path(path) for path in paths)
    runs = read_runs(list(paths))
    filters = {
        "workload": [workload_name(workload) for workload in workloads],
        "profile": [profile] if profile else [],
    }
    for setting, values in filters.items():
        existing = {clean(getattr(run, setting), 40) for run in runs} - {""}
        for value in values:
            if value not in existing:
                raise invalid_choice(f"{argument} {title}: --{setting}", value, existing)
        if values:
            runs = [run for run in runs if getattr(run, setting) in values]
    if any(run.has_label(LabelKind.NULL_DEVICE) for run in runs):
        raise ValueError(
            f"{argument} {title}: these are runs of the {LabelKind.NULL_DEVICE.value}, which does"
            " not compute, so they cannot be compared"
        )
    with_runs = [result for result in results_of(runs) if result.runs]
    profiles = sorted({clean(result.profile, 40) or "published" for result in with_runs})
    if len(profiles) > 1:
        raise ValueError(
            f"{argument} {title}: the runs have several profiles ({', '.join(profiles)}), and"
            f" results of different profiles cannot be compared. Set --profile {profiles[0]}, or"
            " give folders of a single profile"
        )
    originals = [run for run in runs if not run.copy_of]
    counts = {
        "have not ended": sum(run.running for run in originals),
        "did not succeed": sum(not (run.succeeded or run.running) for run in originals),
        "are copies of other logs": len(runs) - len(originals),
    }
    left_out = []
    for text, count in counts.items():
        if count:
            left_out.append(
                f"{title}: {count} of {len(runs)} runs {text} (suite report lists them)"
            )
    if not with_runs:
        raise ValueError(
            f"{argument} {'; '.join(left_out)}: no run succeeded, so no result can be compared"
        )
    remedy = "put a system description (system.json) into the folder above them"
    for result in with_runs:
        if not result.devices:
            left_out.append(
                f"{result_name(result)}: the logs do not contain the number of devices; {remedy}"
            )
    return Side(
        name, title, tuple(result for result in with_runs if result.devices), tuple(left_out)
    )
