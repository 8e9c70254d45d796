"""Converts the table of a view to text: headings, numbers with units, and footnotes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from suite.results.data_table import DataTable
from suite.results.experiment_key import heading
from suite.results.render.markdown import EMPTY
from suite.results.text import (
    bytes_text,
    clean,
    cost_text,
    energy_text,
    epochs_text,
    figure_text,
    percent_text,
    range_text,
    rate_text,
    time_text,
)

NOTES = "notes"
"""Name of the column whose texts become footnotes."""
_MAX_CELL = 400
"""Maximum number of characters of a cell."""
_UNITS_OF_MATRICES = ("seconds", "samples_per_second", "speedup", "cost")
_TWO_DECIMALS = "{:.2f}".format
_THREE_DECIMALS = "{:.3f}".format


@dataclass(frozen=True)
class _Format:
    """Format of the columns whose full name matches a pattern."""

    pattern: str
    heading: str = ""
    """Heading of the column. If empty, the heading is derived from the name."""
    to_text: Callable[[Any], str] | None = None
    """Function that converts a number to text.

    If None, the next format that matches the name is used, or else three significant digits.
    """


_FORMATS = (
    _Format("train_seconds", "one job"),
    _Format("epoch_range", "epoch range"),
    _Format("time_range", "time range"),
    _Format("device_hours_range", "hours range"),
    _Format("cost_range", "cost range"),
    _Format("jobs_per_hour", "jobs/h", rate_text),
    _Format("batch_size_per_device", "batch per device"),
    _Format("batch_per_device", "samples per device"),
    _Format("batch_size_global_from", "batch from"),
    _Format("batch_size_global_to", "batch to"),
    _Format("places", "devices"),
    _Format("device_hours(_per_job)?", "device-hours/job"),
    _Format("energy_joules_per_job", "energy/job", energy_text),
    _Format("cost_per_job", "cost/job", cost_text),
    _Format("epochs_source", "epochs from"),
    _Format("throughput", "= throughput", _TWO_DECIMALS),
    _Format("efficiency", "× efficiency", _TWO_DECIMALS),
    _Format("setup", "× setup", _TWO_DECIMALS),
    _Format("scaling_efficiency", "per device", _TWO_DECIMALS),
    _Format("interval_low", "95 % from", _TWO_DECIMALS),
    _Format("interval_high", "to", _TWO_DECIMALS),
    _Format("ratio_low", "95 % from", _THREE_DECIMALS),
    _Format("ratio_high", "to", _THREE_DECIMALS),
    _Format("p90_error", "90th percentile"),
    _Format("mean_signed_error", "signed mean"),
    _Format("signed_error", "error"),
    _Format("cost", to_text=cost_text),
    _Format("ratio", to_text=_THREE_DECIMALS),
    _Format("scaling_factor", to_text="{:.4f}".format),
    _Format("epochs|(samples|tokens)_to_target", to_text=epochs_text),
    _Format("speedup|per device|.* → .*", to_text=_TWO_DECIMALS),
    _Format("data wait|.*_share", to_text=percent_text),
    _Format(".*seconds(_per_epoch.*)?", to_text=time_text),
    _Format("seconds_(setup|training|data_wait|evaluation|other|over_epochs)", to_text=time_text),
    _Format(".*_per_(second|hour)", to_text=rate_text),
    _Format(".*_bytes", to_text=bytes_text),
    _Format(".*signed_error", to_text=lambda share: f"{100 * share:+.1f} %"),
    _Format(".*_error", to_text=lambda share: f"{100 * share:.1f} %"),
)
"""Formats by column name, the most specific first.

A column whose name ends with a unit needs no format.
"""


def cell_text(name: str, value: Any) -> str:
    """Return a value of a column as text with its unit, or a dash for None."""
    if value is None or value == "" or value == ():
        return EMPTY
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return clean(value, _MAX_CELL) or EMPTY
    if isinstance(value, (tuple, list)):
        return clean("; ".join(map(str, value)), _MAX_CELL)
    to_text = _number_format(name)
    if to_text is not None:
        return to_text(value)
    return f"{value:,}" if isinstance(value, int) else figure_text(float(value))


def _number_format(name: str) -> Callable[[Any], str] | None:
    quantity = _quantity(name)
    for form in _FORMATS:
        if form.to_text is not None and re.fullmatch(form.pattern, quantity):
            return form.to_text
    return None


def _quantity(name: str) -> str:
    """Return the quantity of a column.

    The quantity of the matrix column `8 devices, seconds` is `seconds`, for example.
    """
    return name.rpartition(", ")[2]


def heading_text(name: str) -> str:
    """Return the heading of a column.

    The heading of the matrix column `8 devices, seconds` is the text before the unit.
    """
    group, _, unit = name.rpartition(", ")
    if group and unit in _UNITS_OF_MATRICES:
        return clean(group)
    for form in _FORMATS:
        if form.heading and re.fullmatch(form.pattern, name):
            return form.heading
    return heading(name)


@dataclass(frozen=True)
class Table:
    """Table as plain text that is not yet escaped for Markdown or HTML."""

    header: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]
    right_aligned: tuple[bool, ...]
    """True for columns of numbers."""
    footnotes: tuple[str, ...] = ()
    numbers: tuple[tuple[float | None, ...], ...] = ()
    """Values by which numeric columns are sorted, for each row."""
    marks: tuple[int | None, ...] = ()
    """Index of each row's footnote."""


_SAME_UNIT_SPAN = 100
"""Maximum ratio of the numbers in a column that have the same unit and number of decimals."""


def text_table(table: DataTable, keys: int = 1, same_units: bool = False) -> Table:
    """Return the table of a view as text. Rows with the same notes share a footnote.

    Args:
        table: The table.
        keys: Number of leading columns that identify a row. The mark of a footnote is in the last
            non-empty key column.
        same_units: True to format the numbers of a column with the same unit and number of
            decimals.
    """
    table = _with_ranges(table, same_units)
    names = [name for name in table.columns if name != NOTES]
    rows = list(table)
    columns = {name: _column_texts(name, table.values(name), same_units) for name in names}
    body: list[tuple[str, ...]] = []
    footnotes: list[str] = []
    marks: list[int | None] = []
    for position, row in enumerate(rows):
        cells = [columns[name][position] for name in names]
        texts = dict.fromkeys(row.get(NOTES) or ())
        note = "; ".join(clean(text, _MAX_CELL) for text in texts if text)
        mark = None
        if note:
            if note not in footnotes:
                footnotes.append(note)
            mark = footnotes.index(note)
            marked = max(
                (column for column in range(keys) if cells[column] != EMPTY), default=keys - 1
            )
            cells[marked] += f" ({_letter(mark)})"
        marks.append(mark)
        body.append(tuple(cells))
    is_number = tuple(_is_column_of_numbers(table.values(name)) for name in names)
    numbers = [
        tuple(row[name] if number else None for name, number in zip(names, is_number, strict=True))
        for row in rows
    ]
    return Table(
        header=tuple(map(heading_text, names)),
        body=tuple(body),
        right_aligned=is_number,
        footnotes=tuple(f"({_letter(index)}) {text}" for index, text in enumerate(footnotes)),
        numbers=tuple(numbers),
        marks=tuple(marks),
    )


def _is_column_of_numbers(values: Sequence[Any]) -> bool:
    types = {type(value) for value in values if value is not None}
    return bool(types) and all(issubclass(kind, int | float) for kind in types)


def _column_texts(name: str, values: Sequence[Any], same_units: bool) -> list[str]:
    """Return the cells of a column.

    With `same_units`, numbers of similar size have the same unit and as few decimals as possible.
    """
    texts = [cell_text(name, value) for value in values]
    numbers = [value for value in values if isinstance(value, float) and value > 0]
    if not same_units or len(numbers) < 2 or max(numbers) >= _SAME_UNIT_SPAN * min(numbers):
        return texts
    is_time = _number_format(name) is time_text
    if is_time:
        return [
            text if value is None else time_text(value, max(numbers))
            for value, text in zip(values, texts, strict=True)
        ]
    forms = [re.fullmatch(r"[\d,]+(?:\.(\d+))?", text) for text in texts]
    if any(form is None and value is not None for form, value in zip(forms, values, strict=True)):
        return texts
    decimals = min(len(form[1] or "") for form in forms if form)
    return [
        text if value is None else f"{value:,.{decimals}f}"
        for value, text in zip(values, texts, strict=True)
    ]


def _with_ranges(table: DataTable, same_units: bool) -> DataTable:
    """Return the table with the times of the fastest and slowest run in one column.

    The ranges have the same unit as the times.
    """
    if "seconds_minimum" not in table or "seconds_maximum" not in table:
        return table
    times = [seconds for seconds in table.values("seconds") if seconds is not None and seconds > 0]
    unit_from = None
    if same_units and times and max(times) < _SAME_UNIT_SPAN * min(times):
        unit_from = max(times)
    texts = []
    for row in table:
        low, high, size = (
            row["seconds_minimum"],
            row["seconds_maximum"],
            unit_from or row["seconds"],
        )
        texts.append(
            EMPTY if low is None or high is None or size is None else range_text(low, high, size)
        )
    return (
        table.with_column("seconds_minimum", texts)
        .renamed({"seconds_minimum": "spread"})
        .without("seconds_maximum")
    )


def _letter(index: int) -> str:
    """Return the mark of a footnote: a, b, …, z, a1, and so on."""
    return chr(ord("a") + index % 26) + (str(index // 26) if index >= 26 else "")
