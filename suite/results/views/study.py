"""Studies among runs: for each a table with a line for each cell, and the reason where nothing was measured."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from suite.common.run_folder import STUDY_FILES
from suite.results.columns import Result, Run
from suite.results.combine import grouped
from suite.results.data_table import DataTable
from suite.results.logs.recorded_telemetry import json_object
from suite.results.predict.fits import StepFit, fit_steps
from suite.results.price import Prices
from suite.results.scores import results_of, shared_labels
from suite.results.settings_difference import settings_difference
from suite.results.text import clean, shortened
from suite.results.views.section import Section, SectionKind, own_labels, with_error
from suite.results.views.study_columns import COLUMNS, Context, Line, column_names, device_batch, value
from workloads.api import Json

_MOST_CELLS, _MOST_KEYS = 2_000, 40  # of a study, of a cell: so many are read
SMALL = "Small version of the study (study.size=ci): it shows that the study runs, not what the article measured."


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
    """Both as the study's file has them: `columns` and `fit`, `y` and `kind`."""
    folder: str = ""
    """In which its jobs lie."""

    @property
    def measured(self) -> list[Line]:
        return [line for line in self.lines if line.row is not None]

    @property
    def rows(self) -> list[Result]:
        return [line.row for line in self.lines if line.row is not None]


def studies(runs: Sequence[Run]) -> list[StudyResult]:
    """The studies that the runs belong to, by the folder they lie in; files of plans are not trusted."""
    by_folder: dict[Path, dict[str, list[Run]]] = {}
    for row in runs:
        if row.source is not None and not row.published and (row.profile or row.record is None):
            path = Path(row.path)
            job = (path if row.record is None and path.is_dir() else path.parent).absolute().parent
            by_folder.setdefault(job.parent, {}).setdefault(job.name, []).append(row)
    listed = []
    for folder, jobs in by_folder.items():
        plans = {str(plan.get("study", "")): plan for plan in map(json_object, sorted(folder.glob(STUDY_FILES)))}
        logged = {row.study for members in jobs.values() for row in members}
        listed += [_result(name, plans.get(name, {}), jobs, folder) for name in sorted({*plans, *logged} - {""})]
    return [result for result in listed if result.lines]


def _result(name: str, plan: Mapping[str, Json], jobs: Mapping[str, Sequence[Run]], folder: Path) -> StudyResult:
    cells = _cells(plan)
    for job, members in jobs.items():  # of a plan that is lost, or of an earlier command in the same folder
        texts = next((row.study_cell for row in members if row.study == name), None)
        if texts is not None and job not in cells:
            cells[job] = {"values": _clean_values([text.partition("=")[::2] for text in texts])}
    keys = tuple(dict.fromkeys(key for cell in cells.values() for key in cell["values"]))
    lines = [line for job, cell in cells.items() for line in _lines(keys, cell, jobs.get(job, ()))]
    table, figure = (plan[key] if isinstance(plan.get(key), dict) else {} for key in ("table", "figure"))
    sentence, size = (clean(str(plan.get(key, "")), 300) for key in ("sentence", "size"))
    measured = [line.row for line in lines if line.row is not None]
    own, words = own_labels(measured), settings_difference(measured, *keys).without_derived().labels(exceptions=True)
    notes = ((*(clean(one, 120) for one in ours), text) for ours, text in zip(own, words, strict=True))
    noted = tuple(line if line.row is None else replace(line, notes=next(notes)) for line in lines)
    return StudyResult(clean(name, 60), sentence, size, keys, noted, table, figure, str(folder))


def _cells(plan: Mapping[str, Json]) -> dict[str, dict[str, Any]]:
    """Job to its cell; what is not of the form is left out."""
    listed = plan.get("cells")
    return {
        cell["job"]: {**cell, "values": _clean_values(list(cell["values"].items()))}
        for cell in (listed[:_MOST_CELLS] if isinstance(listed, list) else [])
        if isinstance(cell, dict) and isinstance(cell.get("job"), str) and isinstance(cell.get("values"), dict)
    }


def _clean_values(pairs: Sequence[Sequence[object]]) -> dict[str, str]:
    """Key to value of a cell; a key called as a column would hide that."""
    cleaned = {clean(str(key), 80): clean(str(text), 80) for key, text in pairs[:_MOST_KEYS]}
    return {key: text for key, text in cleaned.items() if key not in (*COLUMNS, "status", "notes")}


def _lines(keys: Sequence[str], cell: Mapping[str, Any], runs: Sequence[Run]) -> list[Line]:
    """The lines of a cell: one, but where its runs differ in a setting (another machine, another version)."""
    values = {key: cell["values"].get(key, "") for key in keys}
    measured = [row for row in results_of(runs) if row.runs_successful]
    if measured:
        return [Line(values, row) for row in measured]
    ended = [row for row in runs if not row.running]
    if not ended:
        shown, reason = clean(str(cell.get("shown", "not run")), 12), clean(str(cell.get("reason", "")), 300)
        return [Line(values, None, shown, (reason,))]
    row = next((row for row in ended if row.status == "oom"), ended[-1])
    return [Line(values, None, "OOM" if row.status == "oom" else clean(row.status, 15), (clean(row.reason, 300),))]


def sections(runs: Sequence[Run], prices: Prices | None = None) -> list[Section]:
    """A section for each study; studies of one title with the folder that tells them apart."""
    results = studies(runs)
    sections = [study_section(result, prices) for result in results]
    if len({section.title for section in sections}) == len(sections):
        return sections
    base = os.path.commonpath([result.folder for result in results])
    folders = shortened([clean(os.path.relpath(result.folder, base), 300) for result in results], 60)
    return [replace(one, title=f"{one.title}, in {folder}") for one, folder in zip(sections, folders, strict=True)]


def study_section(result: StudyResult, prices: Prices | None = None) -> Section:
    """A study's sentences and table: its keys, then the columns of which anything was measured."""
    context, columns = Context(result.measured, prices), column_names(result.table.get("columns"))
    table = DataTable.from_rows(
        {
            **line.values,
            "status": "not possible" if line.shown == "–" else line.shown,
            **{name: value(name, line, context) for name in columns},
            "notes": line.notes,
        }
        for line in result.lines
    )
    if len(result.measured) == len(result.lines):
        table = table.without("status")
    devices = "; ".join(sorted({row.device_name for row in result.rows} - {""}))
    listed = (("Labels", ", ".join(shared_labels(result.rows))), ("Devices", devices))
    above = [result.sentence, SMALL if result.size == "ci" else ""]
    above += [f"{name}: {clean(text, 300)}." for name, text in listed if text]
    how = sorted({run.record.step_times_by for row in result.rows for run in row.runs if run.record} - {""})
    below = [_fit_text(name, fit) for name, fit in fits(result)]
    below += [f"Each step was timed by itself, by {clean(' or by '.join(how), 120)}."] if how else []
    shown, keys = table.without_empty((*result.keys, "notes")), max(1, len(result.keys))
    return Section(
        _title(result), tuple(filter(None, above)), shown, below=tuple(below), keys=keys, kind=SectionKind.STUDY
    )


def _title(result: StudyResult) -> str:
    """`Study batch_size: zoo on laptop (synthetic)`."""
    workload, system, profile = (
        ", ".join(sorted({clean(getattr(row, name), 40) for row in result.rows} - {""}))
        for name in ("workload", "system", "profile")
    )
    return f"Study {result.name}" + (f": {workload} on {system} ({profile})" if result.rows else "")


def fits(result: StudyResult) -> list[tuple[str, StepFit]]:
    """The line step = t0 + c·b of each series over the batch of a device, where the study asks for it."""
    if not result.table.get("fit"):
        return []

    def series(line: Line) -> str:
        return ", ".join(text for key, text in line.values.items() if key not in ("batch", "gpus"))

    fitted = []
    for name, members in sorted(grouped(result.measured, series).items()):
        pairs = [(device_batch(line.row), line.row.step_ms) for line in members if line.row is not None]
        fit = fit_steps([(batch, ms / 1e3) for batch, ms in pairs if batch and ms])
        fitted += [(name, fit)] if fit is not None else []
    return fitted


def _fit_text(name: str, fit: StepFit) -> str:
    """`step = 3.2 ± 0.4 ms + 0.051 ± 0.001 ms × samples of a device; no point is further off than 4.0%`."""
    t0, c = with_error(fit.t0, fit.t0_error, 1e3), with_error(fit.c, fit.c_error, 1e3)
    text = f"{clean(name, 60)}{': ' if name else ''}step = {t0} ms + {c} ms × samples of a device"
    if fit.t0_error is None:
        return f"{text} (two points: no error)"
    return f"{text}; no point is further off than {100 * fit.largest_deviation:.1f} %"
