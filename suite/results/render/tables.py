"""A table of a view as text: what a column is called, and how its numbers look, follows from its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from suite.results.columns import records
from suite.results.identity import label
from suite.results.render.markdown import EMPTY
from suite.results.text import (
    bytes_text,
    clean,
    cost_text,
    energy_text,
    figure_text,
    percent_text,
    range_text,
    rate_text,
    time_text,
)

if TYPE_CHECKING:
    import pandas as pd

NOTES = "notes"
_LONGEST_CELL = 400
_HEADINGS: Mapping[str, str] = {
    "seconds": "time",
    "seconds_per_epoch": "time per epoch",
    "jobs_per_hour": "jobs/h",
    "train_seconds": "one job",
    "batch_size_per_device": "a device",
    "batch_size_global_from": "batch",
    "batch_size_global_to": "→ batch",
    "places": "devices",
    **dict.fromkeys(("interval_low", "ratio_low"), "95 % from"),
    **dict.fromkeys(("interval_high", "ratio_high"), "to"),
    "runs_successful": "runs",
    "runs_failed": "failed",
    "runs_required": "required",
    "device_hours": "device-hours/job",
    "device_hours_per_job": "device-hours/job",
    "energy_joules_per_job": "energy/job",
    "cost_per_job": "cost/job",
    "data_wait_share": "waiting for data",
    "seconds_per_epoch_low": "at least",
    "seconds_per_epoch_high": "at most",
    "epochs_source": "epochs from",
    "scaling_efficiency": "per device",
    "batch_per_device": "samples a device",
    "p90_error": "90th percentile",
    "mean_signed_error": "signed mean",
    "signed_error": "error",
    "throughput": "= throughput",
    "efficiency": "× efficiency",
}
"""Column to its heading; any other is called by its words (suite.results.identity.label)."""
_OF_A_MATRIX = ("seconds", "samples_per_second", "speedup", "cost")
_FORMATS: tuple[tuple[str, Callable[[Any], str]], ...] = (
    (r"cost(_per_job)?", cost_text),
    (r"energy_joules_per_job", energy_text),
    (r"data wait|.*_share", percent_text),
    (r".*seconds(_per_epoch(_low|_high)?)?", time_text),
    (r".*_per_(second|hour)", rate_text),
    (r".*_bytes", bytes_text),
    (r"epochs", "{:,.1f}".format),
    (r"ratio(_low|_high)?", "{:.3f}".format),
    (r"speedup|per device|throughput|(scaling_)?efficiency|interval_(low|high)|.* → .*", "{:.2f}".format),
    (r".*signed_error", lambda share: f"{100 * share:+.1f} %"),
    (r".*_error", lambda share: f"{100 * share:.1f} %"),
)
"""Whole name of a column (`1 → 2`: a speedup) to how its numbers look; others have three digits."""


def cell_text(name: str, value: Any) -> str:
    """A value of a column as text; a dash where nothing is known."""
    if value is None or value == "" or value == ():
        return EMPTY
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return clean(value, _LONGEST_CELL) or EMPTY
    if isinstance(value, (tuple, list)):
        return clean("; ".join(map(str, value)), _LONGEST_CELL)
    for pattern, text in _FORMATS:
        if re.fullmatch(pattern, name.rpartition(", ")[2]):
            return text(value)
    return f"{value:,}" if isinstance(value, int) else figure_text(float(value))


def heading(name: str) -> str:
    """What a column is called; of `8 devices, seconds`, a column of a matrix, what stands before its unit."""
    place, _, unit = name.rpartition(", ")
    if place and unit in _OF_A_MATRIX:
        return clean(place)
    if name.endswith("_per_second") and name not in _HEADINGS:
        return f"{label(name.removesuffix('_per_second'))}/s"
    return _HEADINGS.get(name, label(name))


@dataclass(frozen=True)
class Table:
    """A table as plain text: nothing in it is escaped for Markdown or HTML yet."""

    header: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]
    right_aligned: tuple[bool, ...]  # True for columns of numbers
    footnotes: tuple[str, ...] = ()
    numbers: tuple[tuple[float | None, ...], ...] = ()  # What columns of numbers are sorted by


def text_table(table: pd.DataFrame, keys: int = 1) -> Table:
    """A view's table as text. Rows with the same `notes` share one mark, in the last key column that says something."""
    table = _with_spread(table)
    names, listed = [str(name) for name in table.columns if name != NOTES], records(table)
    body, footnotes = [], list[str]()
    for row in listed:
        cells = [cell_text(name, row[name]) for name in names]
        notes = "; ".join(clean(text, _LONGEST_CELL) for text in dict.fromkeys(row.get(NOTES) or ()) if text)
        if notes:
            footnotes += [] if notes in footnotes else [notes]
            place = max((at for at in range(keys) if cells[at] != EMPTY), default=keys - 1)
            cells[place] += f" ({_letter(footnotes.index(notes))})"
        body.append(tuple(cells))
    kinds = ({type(row[name]) for row in listed} - {type(None)} for name in names)
    right = tuple(bool(kind) and all(issubclass(one, int | float) for one in kind) for kind in kinds)
    marked = tuple(f"({_letter(place)}) {text}" for place, text in enumerate(footnotes))
    numbers = tuple(
        tuple(row[name] if is_number else None for name, is_number in zip(names, right, strict=True)) for row in listed
    )
    return Table(tuple(map(heading, names)), tuple(body), right, marked, numbers)


def _with_spread(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the fastest and the slowest run in one column, as one range."""
    if not {"seconds_minimum", "seconds_maximum"} <= {*table.columns}:
        return table
    ends = ((row["seconds_minimum"], row["seconds_maximum"], row["seconds"]) for row in records(table))
    texts = [EMPTY if None in pair else range_text(*pair) for pair in ends]
    table = table.assign(seconds_minimum=texts).rename(columns={"seconds_minimum": "spread"})
    return table.drop(columns="seconds_maximum")


def _letter(place: int) -> str:
    return chr(ord("a") + place % 26) + (str(place // 26) if place >= 26 else "")
