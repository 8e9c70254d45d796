"""`suite published list`: results of published rounds and of the DGX-1 article, filtered."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from suite.results.columns import Result
from suite.results.data_table import DataTable
from suite.results.identity import label
from suite.results.names import workload_name
from suite.results.price import Prices
from suite.results.published import ARTICLE
from suite.results.scores import published_results
from suite.results.targets import targets_told
from suite.results.views.overview import published_overview
from suite.results.views.section import Section, View

Listed = dict[str, Any]
OPTIONS: Mapping[str, Sequence[str]] = {
    **{name: (name,) for name in ("round", "submitter", "division", "chips")},
    "workload": ("benchmark",),
    "framework": ("framework", "told"),
    "system": ("system", "system_description"),
}
"""Filters, and the columns that each looks at. Several values are separated by commas."""
_IN_FILES = (
    "round", "submitter", "system", "chips", "framework", "benchmark", "minutes", "runs", "epochs", "batch", "target",
    "throughput", "cost", "accelerator", "nodes", "runs_successful", "scaling_factor", "batch_unit", "target_mask",
    "throughput_unit", "division", "availability", "note", "source",
)  # fmt: skip
_IN_TABLES = (*_IN_FILES[:6], "seconds", "runs", "failed", "epochs", "batch", "targets", "cost")
_DISPENSABLE = ("epochs", "targets", "batch", "framework", "failed", "runs")
"""Columns that a table leaves out, in this order, as far as it is too wide."""
_WIDTH, _LONGEST = 118, 28  # of a table in characters; of a text in it, which is cut there


def published_list(filters: Mapping[str, str | None], prices: Prices | None = None) -> View:
    """The list, after an overview of the results; with `prices` what each costs.

    Raises ValueError (one line) for a value that matches nothing.
    """
    listed = _results()
    for option, requested in filters.items():
        if requested is not None and listed:
            by = _with_chips if option == "chips" else _named
            listed = by(listed, option, requested, OPTIONS[option])
    if not listed:
        raise ValueError("no published result matches all of these options; leave one of them out")
    rows = [row["row"] for row in listed]
    price_notes: tuple[str, ...] = ()
    if prices is not None:
        price_notes = prices.unused_notes(rows)
        listed = [{**row, "cost": prices.cost(row["row"])} for row in listed]
    data = DataTable.from_rows({name: row[name] for name in _IN_FILES if name in row} for row in listed)
    sections = (*published_overview(rows, prices), _section(listed))
    return View("Published results", sections, data, notes=price_notes)


def _results() -> list[Listed]:
    """In order of rounds, workloads and times: what the files have, and what was made of it."""
    return [*map(_result, sorted(published_results(), key=lambda row: (row.round, row.workload, row.seconds or 0.0)))]


def _result(row: Result) -> Listed:
    cells = {name: _number(text or "") for name, text in (row.attempts[0].printed or {}).items()}
    runs, successful = cells.get("runs"), cells.get("runs_successful")
    printed = f"batch as printed: {cells['batch']} ({cells['batch_basis']})" if row.round == ARTICLE else ""
    notes = (*row.labels, row.note or "", printed, "open division" if row.division == "open" else "")
    same = ("round", "submitter", "system", "framework", "division", "seconds", "epochs")
    listed: Listed = dict.fromkeys(name for name in _IN_FILES if name != "cost")
    listed |= cells | {"told": cells.get("framework")} | {name: getattr(row, name) for name in same}
    listed |= {"accelerator": row.device_name, "scaling_factor": row.scaling_factor}
    listed |= {"benchmark": row.workload, "batch": row.batch_size_global, "row": row, "notes": notes}
    return listed | {
        "minutes": None if row.seconds is None else round(row.seconds / 60, 6),
        "failed": runs - successful if isinstance(runs, int) and successful and runs != successful else None,
        "targets": targets_told(row.targets, row.workload),
        "note": "; ".join(note for note in notes if note),
    }


def _number(text: str) -> Any:
    """A cell as a number where it is one, else the text; None for an empty one."""
    match = re.fullmatch(r"\d{1,15}(\.\d+)?(e[+-]?\d{1,2})?", text)
    return (float(text) if match[1] or match[2] else int(text)) if match else text or None


def _section(listed: Sequence[Listed]) -> Section:
    """A table as narrow as can be: what all rows share stands above it, and what has no room is left to files."""
    shown = (*_IN_TABLES, "notes")
    table = DataTable.from_rows({name: row[name] for name in shown if name in row} for row in listed).without_empty()
    same = {}
    for name in table.columns:
        values = table.values(name)
        is_figure = any(isinstance(value, float) for value in values)
        if name != "notes" and not is_figure and len(values) > 1 and values.count(values[0]) == len(values):
            same[name] = values[0]
    table, left_out = table.without(*same), []
    for name in _DISPENSABLE:
        if (
            name in table
            and sum(3 + _width(one, table.values(one)) for one in table.columns if one != "notes") > _WIDTH
        ):
            left_out.append(name)
            table = table.without(name)
    common = f"All rows: {', '.join(f'{label(name)} {value}' for name, value in same.items())}." if same else ""
    fewer = f"Left out, as the table is wide: {', '.join(map(label, left_out))}; --format csv has them."
    below = (f"{len(table)} row{'' if len(table) == 1 else 's'}.", fewer if left_out else "")
    keys = sum(name in ("round", "submitter", "system", "benchmark") for name in table.columns[:3])
    of = tuple((row["row"],) for row in listed)
    said = "Times to target, from published logs (logs/published/README.md); no results of this suite."
    return Section("", (said, common), table, below=below, keys=max(1, keys), of=of)


def _width(name: str, values: Sequence[Any]) -> int:
    texts = (10 if isinstance(value, float) else len(str(value)) for value in values)
    return max(len(label(name)), min(_LONGEST, max(texts)))


def _named(listed: Sequence[Listed], option: str, requested: str, columns: Sequence[str]) -> list[Listed]:
    """The rows that a requested name fits, ignoring case; of frameworks and systems a part is enough."""
    part = option in ("framework", "system")
    wanted = [re.sub(r"^(?=\d)", "v", one) if option == "round" else one for one in requested.lower().split(",")]
    wanted = [workload_name(one) if option == "workload" else one.strip() for one in wanted]

    def texts(row: Listed) -> list[str]:
        return [str(row.get(column) or "none").lower() for column in columns]

    def matches(one: str, row: Listed) -> bool:
        return any(one in text or one in re.sub(r"\W", "", text) if part else one == text for text in texts(row))

    for one in wanted:
        if not any(matches(one, row) for row in listed):
            known = {text: str(row.get(columns[0]) or "none") for row in listed for text in texts(row)}
            near = difflib.get_close_matches(one, known, n=3, cutoff=0.4) or sorted(known)[:5]
            offered = ", ".join(dict.fromkeys(known[name] for name in near))
            raise ValueError(f"--{option} {one[:60]}: no listed result has it; nearest: {offered}")
    return [row for row in listed if any(matches(one, row) for one in wanted)]


def _with_chips(listed: Sequence[Listed], option: str, requested: str, columns: Sequence[str]) -> list[Listed]:
    """The rows with a number of chips such as `8`, `1,4,8` or `1-16`; 0: CPU only."""
    (column,) = columns
    spans = [re.fullmatch(r"\s*([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?\s*", part) for part in requested.split(",")]
    bounds = [(int(span[1]), int(span[2] or span[1])) for span in spans if span is not None]
    if None in spans or any(low > high for low, high in bounds):
        raise ValueError(f"--chips {requested[:60]}: give a number, a list such as 1,4,8 or a range such as 1-16")
    counted = [row for row in listed if isinstance(row[column], int)]
    matching = [row for row in counted if any(low <= row[column] <= high for low, high in bounds)]
    if not matching:
        existing = ", ".join(map(str, sorted({row[column] for row in counted})[:30]))
        raise ValueError(f"--chips {requested[:60]}: no listed result has it; existing: {existing}")
    return matching
