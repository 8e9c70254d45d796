"""A table of a view as text: what a column is called, and how its numbers look, follows from its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from suite.results.columns import rows
from suite.results.identity import label
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

EMPTY = "–"
"""A cell without content."""
NOTES = "notes"
_LONGEST_CELL = 400


def epochs_text(value: float) -> str:
    """Epochs with one decimal."""
    return f"{value:,.1f}"


HEADINGS: Mapping[str, str] = {
    "seconds": "time",
    "seconds_per_epoch": "time per epoch",
    "samples_per_second": "samples/s",
    "seconds_minimum": "fastest",
    "seconds_maximum": "slowest",
    "seconds_standard_deviation": "deviation",
    "jobs_per_hour": "jobs/h",
    "train_seconds": "one job",
    "batch_size_per_device": "a device",
    "batch_size_global_from": "batch",
    "batch_size_global_to": "→ batch",
    "places": "devices",
    "interval_low": "95 % from",
    "interval_high": "to",
    "runs_successful": "runs",
    "runs_failed": "failed",
    "runs_required": "required",
    "device_hours": "device-hours/job",
    "device_hours_per_job": "device-hours/job",
    "energy_joules_per_job": "energy/job",
    "cost_per_job": "cost/job",
    "energy_joules": "energy/job",
    "data_wait_share": "waiting for data",
    "evaluation_share": "evaluating",
    "seconds_per_epoch_low": "at least",
    "seconds_per_epoch_high": "at most",
    "training_samples_per_second": "training samples/s",
    "epochs_source": "epochs from",
    "scaling_efficiency": "per device",
    "batch_per_device": "samples a device",
    "p90_error": "90th percentile",
    "within_10_share": "within 10 %",
    "within_25_share": "within 25 %",
    "mean_signed_error": "signed mean",
    "signed_error": "error",
    "throughput": "= throughput",
    "efficiency": "× efficiency",
    "of_linear_share": "of linear",
}
"""Column to its heading; any other is called by its words (suite.results.identity.label)."""
_OF_A_MATRIX = ("seconds", "samples_per_second", "speedup", "cost")
_BY_NAME: Mapping[str, Callable[[Any], str]] = {
    "cost": cost_text,
    "epochs": epochs_text,
    "speedup": lambda value: f"{value:.2f}",
    "per device": lambda value: f"{value:.2f}",
    "data wait": percent_text,
    "throughput": lambda value: f"{value:.2f}",
    "efficiency": lambda value: f"{value:.2f}",
    "interval_low": lambda value: f"{value:.2f}",
    "interval_high": lambda value: f"{value:.2f}",
    "scaling_efficiency": lambda value: f"{value:.2f}",
    "ratio": lambda value: f"{value:.3f}",
    "energy_joules": energy_text,
    "cost_per_job": cost_text,
    "energy_joules_per_job": energy_text,
}
_BY_ENDING: Mapping[str, Callable[[Any], str]] = {
    "seconds": time_text,
    "seconds_per_epoch": time_text,
    "seconds_per_epoch_low": time_text,
    "seconds_per_epoch_high": time_text,
    "seconds_minimum": time_text,
    "seconds_maximum": time_text,
    "seconds_standard_deviation": time_text,
    "_per_second": rate_text,
    "_per_hour": rate_text,
    "_bytes": bytes_text,
    "_share": percent_text,
    "signed_error": lambda value: f"{100 * value:+.1f} %",
    "_error": lambda value: f"{100 * value:.1f} %",
}


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
    name = name.rpartition(", ")[2]
    if name in _BY_NAME:
        return _BY_NAME[name](value)
    for ending, text in _BY_ENDING.items():
        if name.endswith(ending):
            return text(value)
    if " → " in name:  # a speedup from one number of devices to another
        return f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else figure_text(float(value))


def heading(name: str) -> str:
    """What a column is called; of `8 devices, seconds`, a column of a matrix, what stands before its unit."""
    place, _, unit = name.rpartition(", ")
    if place and unit in _OF_A_MATRIX:
        return clean(place)
    if name.endswith("_per_second") and name not in HEADINGS:
        return f"{label(name.removesuffix('_per_second'))}/s"
    return HEADINGS.get(name, label(name))


@dataclass(frozen=True)
class Table:
    """A table as plain text: nothing in it is escaped for Markdown or HTML yet."""

    header: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]
    right_aligned: tuple[bool, ...]
    """True for columns of numbers."""
    footnotes: tuple[str, ...] = ()


def text_table(table: pd.DataFrame, keys: int = 1) -> Table:
    """A view's table as text. Rows with the same `notes` share one mark, in the last key column that says something."""
    table = _with_spread(table)
    names = [str(name) for name in table.columns if name != NOTES]
    footnotes: list[str] = []
    body = []
    for row in rows(table):
        cells = [cell_text(name, getattr(row, name)) for name in names]
        notes = "; ".join(clean(text, _LONGEST_CELL) for text in dict.fromkeys(getattr(row, NOTES, None) or ()) if text)
        if notes:
            footnotes += [] if notes in footnotes else [notes]
            place = max((at for at in range(keys) if cells[at] != EMPTY), default=keys - 1)
            cells[place] += f" ({_letter(footnotes.index(notes))})"
        body.append(tuple(cells))
    right = tuple(
        all(isinstance(value, (int, float)) or value is None for value in _told(table, name)) for name in names
    )
    marked = tuple(f"({_letter(place)}) {text}" for place, text in enumerate(footnotes))
    return Table(tuple(map(heading, names)), tuple(body), right, marked)


def _with_spread(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the fastest and the slowest run in one column, as one range."""
    ends = ["seconds_minimum", "seconds_maximum"]
    if not set(ends) <= set(table.columns):
        return table
    found = [getattr(row, end) for row in rows(table) for end in ends]
    pairs = zip(found[::2], found[1::2], strict=True)
    texts = [EMPTY if low is None or high is None else range_text(low, high) for low, high in pairs]
    table = table.assign(seconds_minimum=texts).rename(columns={"seconds_minimum": "spread"})
    return table.drop(columns="seconds_maximum")


def _told(table: pd.DataFrame, name: str) -> list[Any]:
    values = [getattr(row, name) for row in rows(table[[name]])]
    return values if any(value is not None for value in values) else [""]


def _letter(place: int) -> str:
    return chr(ord("a") + place % 26) + (str(place // 26) if place >= 26 else "")
