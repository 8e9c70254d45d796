"""The two sides of a comparison: sets of runs of our own, logs of other programs, or published results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from suite.registry import nearest
from suite.results.bootstrap import count_text
from suite.results.collect import Run, collect
from suite.results.groups import Row, rows
from suite.results.measurement import Measurement, measurements
from suite.results.names import framework_name, workload_name
from suite.results.published import PublishedResult, find, load
from suite.results.text import clean
from workloads.api import Json

_DESCRIPTION_BYTES = 1 << 20
"""A system description longer than this is none."""
_MOST_DEVICES = 1_000_000


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
        return f"{item.workload} on {count_text(item.devices)} ({self.name})"


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
    """The published results that `name` says (suite.results.published.find). Raises ValueError with the nearest names."""
    found = find(name)
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
    runs = _described(collect(paths))
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


# --- logs of other programs: the log itself says neither devices nor framework ------------------------------------------


def _described(runs: Sequence[Run]) -> list[Run]:
    """Runs of other programs with devices, hardware and framework from what is known of them.

    A log that is one of the published runs has what is published of it; any other what its system description says.
    """
    folders = {run.path.parent for run in runs if _is_foreign(run)}
    known = _published_runs() if folders else {}
    described = {folder: _description(folder, runs, known) for folder in folders}
    return [_with(run, described[run.path.parent]) if _is_foreign(run) else run for run in runs]


def _is_foreign(run: Run) -> bool:
    return run.settings is not None and not run.settings.profile and run.settings.devices is None


def _with(run: Run, values: Mapping[str, object]) -> Run:
    assert run.settings is not None
    kept = {name: value for name, value in values.items() if name == "rules" or not getattr(run.settings, name)}
    return replace(run, settings=replace(run.settings, **kept))  # type: ignore[arg-type]


def _description(
    folder: Path, runs: Iterable[Run], known: Mapping[tuple[str, int, int], Measurement]
) -> dict[str, object]:
    for run in runs:
        if run.path.parent == folder and run.reading is not None and run.settings is not None:
            record = run.reading.record
            item = known.get(_identity(workload_name(run.settings.workload), record.start_ms, record.seconds))
            if item is not None:
                return {
                    "devices": item.devices,
                    "device_name": item.hardware,
                    "framework": item.framework,
                    "batch_size_global": item.batch_size_global,
                    "sample_unit": item.batch_unit,
                    "rules": item.rules,
                }
    system = folder.absolute().parent
    for path in (
        system / "system.json",
        system / "entry.json",
        system.parent.parent / "systems" / f"{system.name}.json",
    ):
        found = _system_description(path)
        if found:
            return found
    return {}


def _identity(workload: str, start_ms: float | None, seconds: float | None) -> tuple[str, int, int]:
    """What no two runs share: the workload, the second it began, and its length in hundredths of a second."""
    return workload, round((start_ms or 0.0) / 1e3), round((seconds or 0.0) * 100)


def _published_runs() -> dict[tuple[str, int, int], Measurement]:
    return {
        _identity(item.benchmark, run.start_ms, run.seconds): item.measurement
        for item in load()
        for run in item.measurement.runs
        if run.start_ms
    }


def _system_description(path: Path) -> dict[str, object]:
    """Devices, hardware and framework from `system.json` (v0.6 on) or `entry.json` (v0.5); empty if there is none."""
    try:
        if not path.is_file() or path.stat().st_size > _DESCRIPTION_BYTES:
            return {}
        value = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    nodes = value.get("nodes")
    listed = [node for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else []
    if listed:
        devices = sum(_count(node.get("num_nodes")) * _count(node.get("num_accelerators")) for node in listed)
        hardware = listed[0].get("accelerator")
    else:
        devices = _count(value.get("number_of_nodes")) * _count(value.get("accelerators_per_node"))
        hardware = value.get("accelerator_model_name")
    if not 0 < devices <= _MOST_DEVICES:
        return {}
    framework = value.get("framework")
    return {
        "devices": devices,
        "device_name": clean(hardware) if isinstance(hardware, str) else "",
        "framework": framework_name(clean(framework)) if isinstance(framework, str) else "",
    }


def _count(value: Json) -> int:
    """A count, also one written as text; 0 for anything else."""
    text = str(value).strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0
