"""Tables of studies: a line for each cell, with `OOM` or a dash where it could not run and the reason below."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from suite.results.logs.collect import Run
from suite.results.report.markdown import markdown_table
from suite.results.report.study_columns import (
    COLUMNS,
    Context,
    column_names,
    device_batch,
    records,
    step_seconds,
)
from suite.results.report.study_lines import DASH, Line, StudyResult, study_results
from suite.results.report.tables import Footnotes, Table
from suite.results.score.price import Prices
from suite.results.score.step_fit import StepFit, fit_steps
from suite.results.text import clean, figure_text, markdown_escape

_SMALL_NOTICE = (
    "Small version of the study (study.size=ci): it shows that the study runs, not what the article measured."
)


def studies_markdown(runs: Sequence[Run], prices: Prices | None = None) -> list[str]:
    """A section for each study that the runs belong to."""
    parts = []
    for result in study_results(runs):
        table = study_table(result, prices)
        body = [[markdown_escape(cell) for cell in cells] for cells in table.body]
        parts += [f"## {markdown_escape(study_title(result))}", *map(markdown_escape, study_texts(result))]
        header = [markdown_escape(name) for name in table.header]  # a study's keys, of which a log may have any
        parts.append(markdown_table(header, body, table.right_aligned, len(result.keys)))
        parts += ["\n".join(f"- {markdown_escape(line)}" for line in table.footer)] if table.footer else []
    return parts


def study_title(result: StudyResult) -> str:
    """`Study batch_size: zoo on laptop (synthetic)`."""
    groups = [line.row.group for line in result.measured if line.row is not None]
    names = [
        ", ".join(sorted({clean(getattr(one, name), 40) for one in groups}))
        for name in ("workload", "system", "profile")
    ]
    where = " on ".join(name for name in names[:2] if name)
    return f"Study {result.name}" + (f": {where}" if where else "") + (f" ({names[2]})" if names[2] else "")


def study_texts(result: StudyResult) -> list[str]:
    """What stands above the table."""
    marked = f"Labels: {clean(', '.join(result.labels), 300)}." if result.labels else ""
    return [
        text
        for text in (result.sentence, _SMALL_NOTICE if result.size == "ci" else "", marked, *_constants(result))
        if text
    ]


def _constants(result: StudyResult) -> list[str]:
    """The devices that were measured."""
    devices = sorted({line.row.group.device_name for line in result.measured if line.row is not None})
    return [f"Devices: {clean('; '.join(devices), 300)}."] if any(devices) else []


def study_table(result: StudyResult, prices: Prices | None = None) -> Table:
    """The table of a study as plain text: its keys, then the columns of which anything was measured."""
    footnotes, context = Footnotes(), Context(result.measured, prices)
    found = {
        name: [_value(name, line, context) for line in result.lines]
        for name in column_names(result.table.get("columns"))
    }
    names = [name for name, values in found.items() if any(value is not None for value in values)]
    names = names or column_names(result.table.get("columns"))[:1]
    body = []
    for place, line in enumerate(result.lines):
        marks = "".join(f" {footnotes.mark(note)}" for note in line.notes)
        keys = [line.values[key] or DASH for key in result.keys]
        cells = [number_text(found[name][place]) if line.row is not None else DASH for name in names]
        if line.row is None:
            cells[0] = line.shown
        cells[0] += marks
        body.append((*keys, *cells))
    right = (*(False for _ in result.keys), *(True for _ in names))
    footer = (*step_fits(result), *_timed_by(result), *footnotes.lines())
    return Table((*result.keys, *names), tuple(body), right, footer)


def _value(name: str, line: Line, context: Context) -> float | None:
    return None if line.row is None else COLUMNS[name](line.row, line, context)


def number_text(value: float | None) -> str:
    """A number with three significant digits, whole from 100 on; a dash for None."""
    if value is None:
        return DASH
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def fits(result: StudyResult) -> list[tuple[str, StepFit]]:
    """The line step = t0 + c·b of each series over the batch of a device, where the study asks for it."""
    if not result.table.get("fit"):
        return []

    def series(line: Line) -> str:
        return ", ".join(value for key, value in line.values.items() if key not in ("batch", "gpus"))

    found = []
    for name, members in groupby(sorted(result.measured, key=series), key=series):
        rows = [line.row for line in members if line.row is not None]
        pairs = [(device_batch(row), step_seconds(row)) for row in rows]
        fit = fit_steps([(batch, seconds) for batch, seconds in pairs if batch and seconds])
        found += [(name, fit)] if fit is not None else []
    return found


def step_fits(result: StudyResult) -> list[str]:
    """The fitted lines in words."""
    return [f"{clean(name, 60)}{': ' if name else ''}{fit_text(fit)}" for name, fit in fits(result)]


def fit_text(fit: StepFit) -> str:
    """`step = 3.2 ± 0.4 ms + 0.051 ± 0.001 ms × samples of a device; no point is further off than 4 %`."""
    t0, c = (
        figure_text(value * 1e3) + ("" if error is None else f" ± {figure_text(error * 1e3, 2)}")
        for value, error in ((fit.t0, fit.t0_error), (fit.c, fit.c_error))
    )
    text = f"step = {t0} ms + {c} ms × samples of a device"
    return (
        f"{text} (two points: no error)"
        if fit.t0_error is None
        else f"{text}; no point is further off than {fit.largest_deviation:.1%}"
    )


def _timed_by(result: StudyResult) -> list[str]:
    """How steps were timed one by one, where they were."""
    how = sorted({record.step_times_by for line in result.measured if line.row for record in records(line.row)} - {""})
    return [f"Each step was timed by itself, by {clean(' or by '.join(how), 120)}."] if how else []
