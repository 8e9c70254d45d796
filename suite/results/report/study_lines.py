"""The studies among runs: for each its cells, with what was measured in them or why nothing was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from suite.common.run_folder import STUDY_FILES
from suite.results.logs.collect import Run
from suite.results.logs.recorded_telemetry import json_object
from suite.results.score.condition import shared_labels
from suite.results.score.groups import Group, Row, rows
from suite.results.text import clean
from workloads.api import Json, LoggedSettings, field_names

DASH, OUT_OF_MEMORY = "–", "OOM"
_LIMIT = 2_000
"""Cells of one study that are read."""
_KEYS = 40
"""Keys of one cell that are read."""
_FOLLOWS: Mapping[str, tuple[str, ...]] = {
    "batch": ("batch_size_global",),
    "gpus": ("batch_size_global",),
    "device": ("device_name", "cores_per_device", "linear", "framework_version", "thread_waiting"),
    "cpu.cores_per_device": ("cores_per_device", "device_name", "thread_waiting"),
    "framework": ("framework_version", "linear", "thread_waiting"),
    "precision": ("linear",),
    "mode": ("targets",),
    "nodes": ("devices", "batch_size_global"),
    "workload.model": ("variant", "dataset", "hyperparameter_set", "data_fingerprint", "targets", "lr_scaling"),
    "workload.image_size": ("variant", "data_fingerprint"),
    "workload": (
        *("dataset", "hyperparameter_set", "data_fingerprint", "targets", "sample_unit", "rules", "clock", "linear"),
        *("variant", "batch_size_global", "lr_scaling", "thread_waiting"),
    ),
}
"""Key of an axis to the fields that differ with it, beside its own."""
_NEVER_SAID = ("hyperparameters", "labels", "deviations")
_OWN_FIELD = {item.metadata["typed"]: item.name for item in fields(LoggedSettings) if item.metadata["typed"]}


@dataclass(frozen=True)
class Line:
    """One line of a study's table."""

    values: Mapping[str, str]
    """Key to value, in order of the study's keys."""
    row: Row | None
    """None: nothing was measured."""
    shown: str = ""
    """What then stands in place of figures: `OOM`, `–`, `failed`, `not run`."""
    notes: tuple[str, ...] = ()
    """Why, or its own labels and in what else the line differs from the others."""


@dataclass(frozen=True)
class StudyResult:
    """A study as far as it has run."""

    name: str
    sentence: str
    size: str
    keys: tuple[str, ...]
    lines: tuple[Line, ...]
    table: Mapping[str, Json] = field(default_factory=dict)
    figure: Mapping[str, Json] = field(default_factory=dict)

    @property
    def measured(self) -> list[Line]:
        """The lines with figures."""
        return [line for line in self.lines if line.row is not None]

    @property
    def labels(self) -> list[str]:
        """The labels that all lines with figures share, to stand above them; those of single lines are in their notes."""
        return shared_labels(line.row.labels for line in self.lines if line.row is not None)


def study_results(runs: Sequence[Run]) -> list[StudyResult]:
    """The studies that the runs belong to, by the folder they lie in; files of plans are not trusted."""
    by_folder: dict[Path, dict[str, list[Run]]] = {}
    for run in runs:
        if run.settings is None or run.settings.profile:
            job = _job_folder(run)
            by_folder.setdefault(job.parent, {}).setdefault(job.name, []).append(run)
    found = []
    for folder, jobs in by_folder.items():
        plans = {
            str(plan.get("study")): plan for path in sorted(folder.glob(STUDY_FILES)) if (plan := json_object(path))
        }
        logged = {run.settings.study for members in jobs.values() for run in members if run.settings is not None}
        found += [_result(name, plans.get(name, {}), jobs) for name in sorted({*plans, *logged} - {""})]
    return [result for result in found if result.lines]


def _job_folder(run: Run) -> Path:
    folder = run.path if run.reading is None and run.path.is_dir() else run.path.parent
    return folder.absolute().parent


def _result(name: str, plan: Mapping[str, Json], jobs: Mapping[str, Sequence[Run]]) -> StudyResult:
    cells = _cells(plan)
    for job, members in jobs.items():  # of a plan that is lost, or of an earlier command in the same folder
        texts = next((run.settings.study_cell for run in members if run.settings and run.settings.study == name), None)
        if texts is not None and job not in cells:
            cells[job] = {"values": _clean_values([_pair(text) for text in texts])}
    keys = tuple(dict.fromkeys(key for cell in cells.values() for key in cell["values"]))
    lines = [line for job, cell in cells.items() for line in _lines(keys, cell, jobs.get(job, ()))]
    return StudyResult(
        clean(name, 60),
        clean(_text(plan.get("sentence")), 300),
        clean(_text(plan.get("size")), 20),
        keys,
        tuple(_with_differences(lines, keys)),
        _mapping(plan.get("table")),
        _mapping(plan.get("figure")),
    )


def _cells(plan: Mapping[str, Json]) -> dict[str, dict[str, Json]]:
    """Job to its cell; what is not of the form is left out."""
    listed = plan.get("cells")
    cells = {}
    for cell in listed[:_LIMIT] if isinstance(listed, list) else []:
        if isinstance(cell, dict) and isinstance(cell.get("job"), str) and isinstance(cell.get("values"), dict):
            cells[cell["job"]] = {**cell, "values": _clean_values(list(cell["values"].items()))}
    return cells


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key, value


def _clean_values(pairs: Sequence[tuple[object, object]]) -> dict[str, str]:
    """Key to value of a cell; neither plans nor logs are trusted."""
    return {clean(str(key), 80): clean(str(value), 80) for key, value in pairs[:_KEYS]}


def _lines(keys: Sequence[str], cell: Mapping[str, Json], runs: Sequence[Run]) -> list[Line]:
    """The lines of a cell: one, but where its runs differ in a setting (another machine, another version)."""
    values = {key: cell["values"].get(key, "") for key in keys}
    measured = [row for row in rows(runs) if row.score.runs_successful]
    if measured:
        return [Line(values, row) for row in measured]
    ended = [run for run in runs if not run.running]
    if not ended:
        shown, reason = clean(_text(cell.get("shown")), 12) or "not run", clean(_text(cell.get("reason")), 300)
        return [Line(values, None, shown, (reason,) if reason else ())]
    of_memory = next((run for run in ended if run.status == "oom"), None)
    run = of_memory or ended[-1]
    return [Line(values, None, OUT_OF_MEMORY if of_memory else clean(run.status, 15), (clean(run.reason, 300),))]


def _with_differences(lines: Sequence[Line], keys: Iterable[str]) -> list[Line]:
    """Each line with its own labels, and with what tells it from most others and follows from no key of the study."""
    explained = {name for key in keys for name in (_OWN_FIELD.get(key, ""), *_FOLLOWS.get(key, ()))}
    names = [name for name in field_names(Group, row=True) if name not in explained and name not in _NEVER_SAID]
    groups = [line.row.group for line in lines if line.row is not None]
    usual = {
        name: Counter(str(getattr(group, name)) for group in groups).most_common(1)[0][0] for name in names if groups
    }
    shared = shared_labels(line.row.labels for line in lines if line.row is not None)
    return [
        line
        if line.row is None
        else replace(line, notes=(*_own_labels(line.row, shared), *_differences(line.row.group, usual)))
        for line in lines
    ]


def _own_labels(row: Row, shared: Sequence[str]) -> list[str]:
    return [clean(label, 120) for label in row.labels if label not in shared]


def _differences(group: Group, usual: Mapping[str, str]) -> tuple[str, ...]:
    """What of a line's settings is not what most lines have."""
    found = ((name, str(getattr(group, name)), value) for name, value in usual.items())
    return tuple(
        f"{name.replace('_', ' ')} {clean(own, 80) or DASH}, most others {clean(others, 80) or DASH}"
        for name, own, others in found
        if own != others
    )


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}
