"""`suite published list`: published results, filtered, as a Markdown table with notes or as CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from suite.results.names import workload_name
from suite.results.published.csv_files import (
    ARTICLE,
    PublishedResult,
    load_published_results,
    speedup_rows,
    throughput_rows,
)
from suite.results.report.filters import filter_by_chips, filter_by_name, filter_by_text
from suite.results.report.markdown import fits, markdown_table, wrapped
from suite.results.report.overview import published_glance
from suite.results.report.overview_text import matrix_markdown
from suite.results.report.tables import DASH, Footnotes, Table, two_decimals
from suite.results.score.price import OPTION, Prices
from suite.results.text import clean, csv_cell, markdown_cell

KINDS = ("results", "throughput", "speedups")
_DISAGREES = 0.01
"""A printed speedup that differs from tables 1-6 by more than this (relative) gets a note."""
_FOOTER = (
    "Minutes to target, computed from published logs (logs/published/README.md); no results of this suite.\n"
    "Not verified by MLCommons Association."
)


@dataclass(frozen=True)
class Filters:
    """Values to list by; None: all. Several values are separated by commas."""

    round: str | None = None
    submitter: str | None = None
    workload: str | None = None
    framework: str | None = None
    chips: str | None = None
    """`8`, `1,4,8` or `1-16`."""
    system: str | None = None
    """Any part of the system's name or description."""
    division: str | None = None


@dataclass(frozen=True)
class Column:
    """One column of a list."""

    name: str
    right: bool
    cell: Callable[[Mapping[str, str]], str]


def _column(name: str, right: bool = False) -> Column:
    return Column(name, right, lambda row: row.get(name, ""))


_RESULTS = (
    *(
        _column("round"),
        _column("submitter"),
        _column("system"),
        _column("chips", True),
        _column("framework"),
    ),
    *(
        _column("benchmark"),
        _column("minutes", True),
        Column("runs", True, lambda row: _runs(row)),
        _column("epochs", True),
    ),
    *(Column("batch", True, lambda row: _batch(row)), Column("target", True, lambda row: _target(row))),
    Column("throughput", True, lambda row: _rate(row)),
)
_DISPENSABLE = ("throughput", "epochs", "target", "batch", "framework", "runs", "qualifier", "kind", "metric")
"""Columns that a list in a terminal leaves out, in this order, as far as it is too wide."""
_THROUGHPUT = (
    *(
        _column("source"),
        _column("system"),
        _column("framework"),
        _column("model"),
        _column("batch"),
        _column("chips", True),
    ),
    *(
        _column("metric"),
        _column("value", True),
        _column("unit"),
        _column("qualifier"),
        _column("kind"),
    ),
)
_SPEEDUPS = (
    *(
        _column("benchmark"),
        _column("chips_from", True),
        _column("chips_to", True),
        _column("speedup_printed", True),
    ),
    *(_column("speedup_from_tables", True), _column("text_claim", True)),
)


def listing(kind: str, filters: Filters, form: str, prices: Prices | None = None) -> str:
    """The list as text, with an overview of the results first; with `prices` what each costs.

    Raises ValueError (one line) for a value that matches nothing or a filter that does not apply.
    """
    if kind == "results":
        chosen = filtered_results(filters, prices)
        rows, columns = _result_rows(chosen, prices)
    else:
        if prices is not None:
            raise ValueError(f"{OPTION} means nothing for --kind {kind}; leave it out")
        chosen = []
        rows, columns = {"throughput": _throughputs, "speedups": _speedups}[kind](filters)
        _refuse_none(rows)
    if form == "csv":
        return _csv(rows, columns)
    glance = published_glance([item.measurement for item in chosen], prices)
    return "\n\n".join([*map(matrix_markdown, glance), _markdown(rows, columns, kind)])


def _refuse_none(found: Sequence[object]) -> None:
    if not found:
        raise ValueError("no published result matches all of these options; leave one of them out")


def published_table(results: Sequence[PublishedResult], prices: Prices | None = None) -> Table:
    """The list with all its columns, as plain text."""
    rows, columns = _result_rows(results, prices)
    footnotes = Footnotes()
    body = tuple(
        (
            *(clean(_shown(column, row), 120) or DASH for column in columns),
            footnotes.mark(clean(row["note"], 400)) if row.get("note") else "",
        )
        for row in rows
    )
    header = (*(column.name.replace("_", " ") for column in columns), "notes")
    return Table(header, body, (*(column.right for column in columns), False), tuple(footnotes.lines()))


def filtered_results(filters: Filters, prices: Prices | None = None) -> list[PublishedResult]:
    """The results that match, in order of rounds, workloads and times. Raises ValueError as `listing`."""
    rows = load_published_results()
    rows = filter_by_name(rows, "round", filters.round, lambda item: (item.round, item.round.removeprefix("v")))
    rows = filter_by_name(rows, "submitter", filters.submitter, lambda item: (item.submitter,))
    workload = None if filters.workload is None else ",".join(map(workload_name, filters.workload.split(",")))
    rows = filter_by_name(rows, "workload", workload, lambda item: (item.benchmark,))
    rows = filter_by_name(rows, "division", filters.division, lambda item: (item.row.get("division") or "none",))
    rows = filter_by_text(rows, "framework", filters.framework, _frameworks)
    rows = filter_by_text(
        rows, "system", filters.system, lambda item: (item.system, item.row.get("system_description", ""))
    )
    rows = filter_by_chips(rows, filters.chips, lambda item: item.measurement.devices)
    _refuse_none(rows)
    if prices is not None:
        prices.refuse_unknown_names([item.measurement for item in rows])
    return sorted(rows, key=_order)


def _result_rows(
    results: Sequence[PublishedResult], prices: Prices | None
) -> tuple[list[Mapping[str, str]], Sequence[Column]]:
    if prices is None:
        return [_result_row(item) for item in results], _RESULTS
    costs = [prices.cost(item.measurement) for item in results]
    rows: list[Mapping[str, str]] = [
        {**_result_row(item), "cost": "" if cost is None else f"{cost:.6g}"}
        for item, cost in zip(results, costs, strict=True)
    ]
    return rows, (*_RESULTS, _column("cost", True))


def _order(item: PublishedResult) -> tuple[str, str, float]:
    return item.round, item.benchmark, item.measurement.score.seconds or 0.0


def _frameworks(item: PublishedResult) -> tuple[str, ...]:
    return item.measurement.framework, item.row.get("framework", "")


def _result_row(item: PublishedResult) -> Mapping[str, str]:
    """The columns as text; the article's columns get the names that the file of the rounds uses."""
    row = {**item.row, "round": item.round, "submitter": item.submitter, "system": item.system}
    row |= {"framework": item.measurement.framework, "benchmark": item.benchmark}
    notes = [*item.measurement.labels, row.get("note", "")]
    if item.round == ARTICLE:
        batch = item.measurement.batch_size_global
        row["batch"] = "" if batch is None else str(batch)
        notes += [
            *item.measurement.score.notes,
            f"batch as printed: {item.row['batch']} ({item.row.get('batch_basis', '')})",
        ]
    if row.get("division") == "open":
        notes.append("open division")
    return {**row, "note": "; ".join(note for note in notes if note)}


def _runs(row: Mapping[str, str]) -> str:
    runs, good = row.get("runs", ""), row.get("runs_successful", "")
    return runs if not good or good == runs else f"{good} of {runs}"


def _batch(row: Mapping[str, str]) -> str:
    unit = row.get("batch_unit", "").split(" ")[0]
    return f"{row['batch']} {unit}" if unit == "tokens" and row.get("batch") else row.get("batch", "")


def _rate(row: Mapping[str, str]) -> str:
    return f"{row['throughput']} {row.get('throughput_unit', '')}".strip() if row.get("throughput") else ""


def _target(row: Mapping[str, str]) -> str:
    return " / ".join(text for text in (row.get("target", ""), row.get("target_mask", "")) if text)


def _throughputs(filters: Filters) -> tuple[list[Mapping[str, str]], Sequence[Column]]:
    _refuse_options("throughput", filters, ("round", "submitter", "division"))
    rows = throughput_rows()
    rows = filter_by_text(
        rows, "workload", filters.workload, lambda row: (row["model"], re.sub(r"\W", "", row["model"]))
    )
    rows = filter_by_text(rows, "framework", filters.framework, lambda row: (row["framework"],))
    rows = filter_by_text(rows, "system", filters.system, lambda row: (row["system"],))
    return filter_by_chips(
        rows, filters.chips, lambda row: int(row["chips"]) if row["chips"].isdecimal() else None
    ), _THROUGHPUT


def _speedups(filters: Filters) -> tuple[list[Mapping[str, str]], Sequence[Column]]:
    _refuse_options("speedups", filters, ("round", "submitter", "framework", "system", "division"))
    seconds = {
        (item.benchmark, item.measurement.devices): item.measurement.score.seconds
        for item in load_published_results()
        if item.round == ARTICLE
    }
    rows = []
    for row in speedup_rows():
        few, many = (seconds.get((row["benchmark"], int(row[name]))) for name in ("chips_from", "chips_to"))
        computed = few / many if few and many else None
        note = ""
        if computed is not None and abs(float(row["speedup_printed"]) / computed - 1) > _DISAGREES:
            note = f"printed {row['speedup_printed']}, {two_decimals(computed)} by its own tables 1-6"
        rows.append({**row, "speedup_from_tables": "" if computed is None else f"{computed:.4f}", "note": note})
    workload = None if filters.workload is None else ",".join(map(workload_name, filters.workload.split(",")))
    rows = filter_by_name(rows, "workload", workload, lambda row: (row["benchmark"],))
    return list(filter_by_chips(rows, filters.chips, lambda row: int(row["chips_to"]))), _SPEEDUPS


def _refuse_options(kind: str, filters: Filters, names: Iterable[str]) -> None:
    for name in names:
        if getattr(filters, name) is not None:
            raise ValueError(f"--{name} means nothing for --kind {kind}; leave it out")


def _markdown(rows: Sequence[Mapping[str, str]], columns: Sequence[Column], kind: str) -> str:
    footnotes = Footnotes()
    marks = [footnotes.mark(markdown_cell(row["note"], 400)) if row.get("note") else "" for row in rows]
    notes = ["notes"] if any(marks) else []
    shown = [column for column in columns if any(column.cell(row) for row in rows)]
    same = [column for column in shown if len(rows) > 1 and len({column.cell(row) for row in rows}) == 1]
    shown = [column for column in shown if column not in same]

    def cells(kept: Sequence[Column]) -> tuple[list[str], list[list[str]], list[bool]]:
        header = [*(column.name.replace("_", " ") for column in kept), *notes]
        body = [
            [*(markdown_cell(_shown(column, row)) or DASH for column in kept), *([mark] if notes else [])]
            for row, mark in zip(rows, marks, strict=True)
        ]
        return header, body, [*(column.right for column in kept), *(False for _ in notes)]

    kept, left_out = list(shown), list[str]()
    for name in _DISPENSABLE:
        if fits(*cells(kept)):
            break
        left_out += [column.name for column in kept if column.name == name]
        kept = [column for column in kept if column.name != name]
    table = markdown_table(*cells(kept), keys=3)
    above = [" · ".join(f"{column.name} {markdown_cell(_shown(column, rows[0]))}" for column in same)]
    below = [*footnotes.lines(), *([_FOOTER] if kind == "results" else ["As the articles print them."])]
    all_columns = "--html FILE or --format csv" if kind == "results" else "--format csv"
    below += [f"Not shown for want of width: {', '.join(left_out)} ({all_columns} has them)."] if left_out else []
    counted = f"{len(rows)} row{'' if len(rows) == 1 else 's'}."
    return wrapped("\n".join([*(f"{text}\n" for text in above if text), table, "", *below, counted, ""]))


def _shown(column: Column, row: Mapping[str, str]) -> str:
    """A cell for reading: times with two decimals, counts without trailing zeros."""
    text = column.cell(row)
    if column.name == "minutes" and text:
        value = float(text)
        return f"{value:.3f}" if value < 1 else f"{value:.2f}"
    return text.removesuffix(".0") if column.right else text


def _csv(rows: Sequence[Mapping[str, str]], columns: Sequence[Column]) -> str:
    """Every column as in the files, then division, unit of the batch, notes and source where the files have them."""
    names = [column.name for column in columns]
    more = [
        name
        for name in ("runs_successful", "batch_unit", "target_mask", "throughput_unit", "division", "note", "source")
        if name in rows[0]
    ]
    names += [name for name in more if name not in names]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([csv_cell(row.get(name, "")) for name in names] for row in rows)
    return stream.getvalue()
