"""Studies: a table with a line for each cell.

For a cell without a result, the table shows the reason.
"""

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
from suite.results.views.section import Section, SectionKind, result_labels, with_error
from suite.results.views.study_columns import (
    STUDY_COLUMNS,
    StudyContext,
    StudyLine,
    batch_per_device,
    column_names,
    column_value,
)
from workloads.api import Json

_MAX_CELLS = 2_000
"""Maximum number of cells of a study."""
_MAX_KEYS = 40
"""Maximum number of keys of a cell."""
SMALL = (
    "This is the small version of the study (study.size=ci). It shows that the study runs. Its"
    " numbers cannot be compared with those of the full study."
)
_OUTCOME_TEXTS = {"–": "not possible"}


@dataclass(frozen=True)
class StudyResult:
    """A study with the results that have been measured."""

    name: str
    sentence: str
    """Question that the study answers."""
    size: str
    """`full`, or `ci` for the small variant of the study."""
    keys: tuple[str, ...]
    lines: tuple[StudyLine, ...]
    table: Mapping[str, Json] = field(default_factory=dict)
    """`columns` and `fit` of the study's table, as written in the study file."""
    figure: Mapping[str, Json] = field(default_factory=dict)
    """`y` and `kind` of the study's figure, as written in the study file."""
    folder: str = ""
    """Output folder of the study's jobs."""

    @property
    def measured(self) -> list[StudyLine]:
        """Return the lines that have a result."""
        return [line for line in self.lines if line.result is not None]

    @property
    def results(self) -> list[Result]:
        """Return the results of the measured lines."""
        return [line.result for line in self.lines if line.result is not None]


def studies(runs: Sequence[Run]) -> list[StudyResult]:
    """Return the studies to which the runs belong.

    The output folder of a job contains a plan file, which identifies the study of the job's runs.
    """
    jobs_of_folders: dict[Path, dict[str, list[Run]]] = {}
    for run in runs:
        is_run_of_suite = (
            run.source is not None and not run.published and (run.profile or run.record is None)
        )
        if is_run_of_suite:
            job = _job_folder(run)
            jobs_of_folders.setdefault(job.parent, {}).setdefault(job.name, []).append(run)
    found = []
    for folder, jobs in jobs_of_folders.items():
        plans = {
            str(plan.get("study", "")): plan
            for plan in map(json_object, sorted(folder.glob(STUDY_FILES)))
        }
        logged_names = {run.study for members in jobs.values() for run in members}
        for name in sorted({*plans, *logged_names} - {""}):
            found.append(_study_result(name, plans.get(name, {}), jobs, folder))
    return [result for result in found if result.lines]


def _job_folder(run: Run) -> Path:
    path = Path(run.path)
    run_folder = path if run.record is None and path.is_dir() else path.parent
    return run_folder.absolute().parent


def _study_result(
    name: str, plan: Mapping[str, Json], jobs: Mapping[str, Sequence[Run]], folder: Path
) -> StudyResult:
    cells = _cells(plan)
    for (
        job,
        members,
    ) in jobs.items():  # the plan file is missing, or belongs to a later command
        logged_values = next((run.study_cell for run in members if run.study == name), None)
        if logged_values is not None and job not in cells:
            pairs = [text.partition("=")[::2] for text in logged_values]
            cells[job] = {"values": _clean_values(pairs)}
    keys = tuple(dict.fromkeys(key for cell in cells.values() for key in cell["values"]))
    lines = [line for job, cell in cells.items() for line in _lines(keys, cell, jobs.get(job, ()))]
    return StudyResult(
        name=clean(name, 60),
        sentence=clean(str(plan.get("sentence", "")), 300),
        size=clean(str(plan.get("size", "")), 300),
        keys=keys,
        lines=_with_notes(lines, keys),
        table=_mapping(plan, "table"),
        figure=_mapping(plan, "figure"),
        folder=str(folder),
    )


def _mapping(plan: Mapping[str, Json], key: str) -> Mapping[str, Json]:
    value = plan.get(key)
    return value if isinstance(value, dict) else {}


def _with_notes(lines: Sequence[StudyLine], keys: Sequence[str]) -> tuple[StudyLine, ...]:
    """Add notes to the lines of a study.

    A note names labels and settings that only some results have. Keys of the study are not
    mentioned in notes.
    """
    results = [line.result for line in lines if line.result is not None]
    labels = result_labels(results)
    settings = settings_difference(results, *keys).without_derived().labels(exceptions=True)
    notes = {
        result.key: (*(clean(label, 120) for label in labels_of_result), text)
        for result, labels_of_result, text in zip(results, labels, settings, strict=True)
    }
    return tuple(
        line if line.result is None else replace(line, notes=notes[line.result.key])
        for line in lines
    )


def _cells(plan: Mapping[str, Json]) -> dict[str, dict[str, Any]]:
    """Map each job in a plan file to its study cell.

    Plan files are untrusted, so malformed cells are skipped.
    """
    listed = plan.get("cells")
    cells: dict[str, dict[str, Any]] = {}
    for cell in listed[:_MAX_CELLS] if isinstance(listed, list) else ():
        if (
            isinstance(cell, dict)
            and isinstance(cell.get("job"), str)
            and isinstance(cell.get("values"), dict)
        ):
            cells[cell["job"]] = {**cell, "values": _clean_values(list(cell["values"].items()))}
    return cells


def _clean_values(pairs: Sequence[Sequence[object]]) -> dict[str, str]:
    """Return the values of a cell by key.

    Keys that have the same name as a column are skipped, because they would replace the column.
    """
    cleaned = {clean(str(key), 80): clean(str(text), 80) for key, text in pairs[:_MAX_KEYS]}
    return {
        key: text for key, text in cleaned.items() if key not in (*STUDY_COLUMNS, "status", "notes")
    }


def _lines(keys: Sequence[str], cell: Mapping[str, Any], runs: Sequence[Run]) -> list[StudyLine]:
    """Return the lines of the study table for a cell.

    A cell has several lines if its runs belong to several results. Runs on two machines, for
    example, belong to two results.
    """
    values = {key: cell["values"].get(key, "") for key in keys}
    results = [result for result in results_of(runs) if result.runs_successful]
    if results:
        return [StudyLine(values, result) for result in results]
    ended = [run for run in runs if not run.running]
    if not ended:
        outcome, reason = (
            clean(str(cell.get("shown", "not run")), 12),
            clean(str(cell.get("reason", "")), 300),
        )
        return [StudyLine(values, None, outcome, (reason,))]
    shown = next((run for run in ended if run.status == "oom"), ended[-1])
    outcome = "OOM" if shown.status == "oom" else clean(shown.status, 15)
    return [StudyLine(values, None, outcome, (clean(shown.reason, 300),))]


def sections(runs: Sequence[Run], prices: Prices | None = None) -> list[Section]:
    """Return a section for each study.

    If two studies have the same title, their folders are added to the titles.
    """
    results = studies(runs)
    sections_of_studies = [study_section(result, prices) for result in results]
    if len({section.title for section in sections_of_studies}) == len(sections_of_studies):
        return sections_of_studies
    base = os.path.commonpath([result.folder for result in results])
    folders = shortened(
        [clean(os.path.relpath(result.folder, base), 300) for result in results], 60
    )
    return [
        replace(section, title=f"{section.title}, in {folder}")
        for section, folder in zip(sections_of_studies, folders, strict=True)
    ]


def study_section(study: StudyResult, prices: Prices | None = None) -> Section:
    """Return the section of a study.

    The section contains the question, and a table with the keys and all columns that are not empty.
    """
    context, columns = (
        StudyContext(study.measured, prices),
        column_names(study.table.get("columns")),
    )
    table = DataTable.from_rows(
        {
            **line.values,
            "status": _OUTCOME_TEXTS.get(line.outcome, line.outcome),
            **{name: column_value(name, line, context) for name in columns},
            "notes": line.notes,
        }
        for line in study.lines
    )
    if len(study.measured) == len(study.lines):
        table = table.without("status")
    above = [study.sentence, SMALL if study.size == "ci" else ""]
    facts = {
        "Labels": ", ".join(shared_labels(study.results)),
        "Devices": ", ".join(sorted({result.device_name for result in study.results} - {""})),
    }
    return Section(
        _title(study),
        tuple(filter(None, above)),
        table.without_empty((*study.keys, "notes")),
        below=tuple(_sentences_below(study)),
        keys=max(1, len(study.keys)),
        facts=tuple((name, clean(text, 300)) for name, text in facts.items() if text),
        kind=SectionKind.STUDY,
    )


def _sentences_below(study: StudyResult) -> list[str]:
    sentences = [_fit_text(name, fit) for name, fit in fits(study)]
    records = [
        run.record for result in study.results for run in result.runs if run.record is not None
    ]
    instruments = sorted({record.step_times_by for record in records} - {""})
    if instruments:
        sentences.append(
            f"Each step was timed separately with {clean(' or '.join(instruments), 120)}."
        )
    return sentences


def _title(study: StudyResult) -> str:
    """Return the title of a study: `Study batch_size: zoo on laptop (synthetic)`."""

    def names(field: str) -> str:
        return ", ".join(
            sorted({clean(getattr(result, field), 40) for result in study.results} - {""})
        )

    if not study.results:
        return f"Study {study.name}"
    return f"Study {study.name}: {names('workload')} on {names('system')} ({names('profile')})"


def fits(study: StudyResult) -> list[tuple[str, StepFit]]:
    """Fit step = t0 + c·b for each combination of the other keys.

    b is the batch size per device. The list is empty unless the study file requests the fit.
    """
    if not study.table.get("fit"):
        return []

    def remaining_values(line: StudyLine) -> str:
        return ", ".join(text for key, text in line.values.items() if key not in ("batch", "gpus"))

    fitted = []
    for name, members in sorted(grouped(study.measured, remaining_values).items()):
        steps = [
            (batch_per_device(line.result), line.result.step_ms)
            for line in members
            if line.result is not None
        ]
        fit = fit_steps(
            [(batch, milliseconds / 1e3) for batch, milliseconds in steps if batch and milliseconds]
        )
        if fit is not None:
            fitted.append((name, fit))
    return fitted


def _fit_text(name: str, fit: StepFit) -> str:
    """Format a fit of step times.

    Example: `step = 3.2 ± 0.4 ms + 0.051 ± 0.001 ms × samples per device. Largest deviation: 4.0
    %.`
    """
    constant, slope = with_error(fit.t0, fit.t0_error, 1e3), with_error(fit.c, fit.c_error, 1e3)
    label = f"{clean(name, 60)}: " if name else ""
    text = f"{label}step = {constant} ms + {slope} ms × samples per device"
    if fit.t0_error is None:
        return f"{text}. Two points give no standard error."
    return f"{text}. Largest deviation: {100 * fit.largest_deviation:.1f} %."
