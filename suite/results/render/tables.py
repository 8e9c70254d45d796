"""A table of a view as text: what a column is called, and how its numbers look, follows from its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from suite.results.data_table import DataTable
from suite.results.identity import heading
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

NOTES = "notes"
_LONGEST_CELL = 400
_OF_A_MATRIX = ("seconds", "samples_per_second", "speedup", "cost")
_TWO, _THREE = "{:.2f}".format, "{:.3f}".format
_LOOKS: tuple[tuple[str, str, Callable[[Any], str] | None], ...] = (
    ("train_seconds", "one job", None),
    ("epoch_range", "epoch range", None),
    ("time_range", "time range", None),
    ("device_hours_range", "hours range", None),
    ("cost_range", "cost range", None),
    ("jobs_per_hour", "jobs/h", rate_text),
    ("batch_size_per_device", "a device", None),
    ("batch_per_device", "samples a device", None),
    ("batch_size_global_from", "batch", None),
    ("batch_size_global_to", "→ batch", None),
    ("places", "devices", None),
    ("device_hours(_per_job)?", "device-hours/job", None),
    ("energy_joules_per_job", "energy/job", energy_text),
    ("cost_per_job", "cost/job", cost_text),
    ("epochs_source", "epochs from", None),
    ("throughput", "= throughput", _TWO),
    ("efficiency", "× efficiency", _TWO),
    ("setup", "× setup", _TWO),
    ("scaling_efficiency", "per device", _TWO),
    ("interval_low", "95 % from", _TWO),
    ("interval_high", "to", _TWO),
    ("ratio_low", "95 % from", _THREE),
    ("ratio_high", "to", _THREE),
    ("p90_error", "90th percentile", None),
    ("mean_signed_error", "signed mean", None),
    ("signed_error", "error", None),
    ("cost", "", cost_text),
    ("ratio", "", _THREE),
    ("scaling_factor", "", "{:.4f}".format),
    ("epochs", "", "{:,.1f}".format),
    ("speedup|per device|.* → .*", "", _TWO),
    ("data wait|.*_share", "", percent_text),
    (".*seconds(_per_epoch.*)?", "", time_text),
    ("seconds_(setup|training|data_wait|evaluation|other|over_epochs)", "", time_text),
    (".*_per_(second|hour)", "", rate_text),
    (".*_bytes", "", bytes_text),
    (".*signed_error", "", lambda share: f"{100 * share:+.1f} %"),
    (".*_error", "", lambda share: f"{100 * share:.1f} %"),
)
"""Name of a view's own column, its heading (empty: its own or its words, suite.results.identity.heading), and how its numbers
look (None: as the next row that fits says, else with three digits). A column whose name ends in a unit needs no row."""


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
    for pattern, _, text in _LOOKS:
        if text is not None and re.fullmatch(pattern, name.rpartition(", ")[2]):
            return text(value)
    return f"{value:,}" if isinstance(value, int) else figure_text(float(value))


def shown_heading(name: str) -> str:
    """What a column is called; of `8 devices, seconds`, a column of a matrix, what stands before its unit."""
    place, _, unit = name.rpartition(", ")
    if place and unit in _OF_A_MATRIX:
        return clean(place)
    named = (text for pattern, text, _ in _LOOKS if text and re.fullmatch(pattern, name))
    return next(named, heading(name))


@dataclass(frozen=True)
class Table:
    """A table as plain text: nothing in it is escaped for Markdown or HTML yet."""

    header: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]
    right_aligned: tuple[bool, ...]  # True for columns of numbers
    footnotes: tuple[str, ...] = ()
    numbers: tuple[tuple[float | None, ...], ...] = ()  # What columns of numbers are sorted by
    marks: tuple[int | None, ...] = ()  # Place of each row's footnote


_ALIKE = 100  # Numbers of a column that span less than this factor have one unit and as many decimals


def _alike(name: str, values: Sequence[Any]) -> list[str]:
    """The cells of a column; numbers of one size in one unit, with as many decimals as the fewest have."""
    numbers = [value for value in values if isinstance(value, float) and value > 0]
    texts = [cell_text(name, value) for value in values]
    if len(numbers) < 2 or max(numbers) >= _ALIKE * min(numbers):
        return texts
    if re.fullmatch(
        r".*seconds(_per_epoch.*)?|seconds_(setup|training|data_wait|evaluation|other)", name.rpartition(", ")[2]
    ):
        return [
            text if value is None else time_text(value, max(numbers)) for value, text in zip(values, texts, strict=True)
        ]
    forms = [re.fullmatch(r"[\d,]+(?:\.(\d+))?", text) for text in texts]
    if any(form is None and value is not None for form, value in zip(forms, values, strict=True)):
        return texts
    decimals = min(len(form[1] or "") for form in forms if form)
    return [text if value is None else f"{value:,.{decimals}f}" for value, text in zip(values, texts, strict=True)]


def text_table(table: DataTable, keys: int = 1, alike: bool = False) -> Table:
    """A view's table as text. Rows with the same `notes` share one mark, in the last key column that says something. `alike`:
    the numbers of a column in one unit, with as many decimals."""
    table = _with_spread(table, alike)
    names, listed = [name for name in table.columns if name != NOTES], list(table)
    body, footnotes, marks = [], list[str](), list[int | None]()
    of = _alike if alike else lambda name, values: [cell_text(name, value) for value in values]
    columns = [of(name, [row[name] for row in listed]) for name in names]
    for row, *cells in zip(listed, *columns, strict=True):
        notes = "; ".join(clean(text, _LONGEST_CELL) for text in dict.fromkeys(row.get(NOTES) or ()) if text)
        if notes:
            footnotes += [] if notes in footnotes else [notes]
            place = max((at for at in range(keys) if cells[at] != EMPTY), default=keys - 1)
            cells[place] += f" ({_letter(footnotes.index(notes))})"
        marks.append(footnotes.index(notes) if notes else None)
        body.append(tuple(cells))
    kinds = ({type(row[name]) for row in listed} - {type(None)} for name in names)
    right = tuple(bool(kind) and all(issubclass(one, int | float) for one in kind) for kind in kinds)
    marked = tuple(f"({_letter(place)}) {text}" for place, text in enumerate(footnotes))
    numbers = tuple(
        tuple(row[name] if is_number else None for name, is_number in zip(names, right, strict=True)) for row in listed
    )
    return Table(tuple(map(shown_heading, names)), tuple(body), right, marked, numbers, tuple(marks))


def _with_spread(table: DataTable, alike: bool) -> DataTable:
    """The table with the fastest and the slowest run in one column, as one range; `alike`: in the unit of all times."""
    if not {"seconds_minimum", "seconds_maximum"} <= {*table.columns}:
        return table
    times = [seconds for seconds in table.values("seconds") if seconds is not None and seconds > 0]
    size = max(times) if alike and times and max(times) < _ALIKE * min(times) else None
    ends = ((row["seconds_minimum"], row["seconds_maximum"], size or row["seconds"]) for row in table)
    texts = [EMPTY if None in pair else range_text(*pair) for pair in ends]
    return table.with_column("seconds_minimum", texts).renamed({"seconds_minimum": "spread"}).without("seconds_maximum")


def _letter(place: int) -> str:
    return chr(ord("a") + place % 26) + (str(place // 26) if place >= 26 else "")
