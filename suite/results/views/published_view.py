"""`suite published list`: published results of MLPerf rounds and of the DGX-1 article.

Filters select the results.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from suite.results.columns import EPOCH_COLUMNS, Result, column, epoch_columns
from suite.results.data_table import DataTable
from suite.results.experiment_key import heading
from suite.results.names import accelerator_name, workload_name
from suite.results.predict.systems import bf16_peaks
from suite.results.price import Prices
from suite.results.published_results import ARTICLE
from suite.results.scores import published_results
from suite.results.targets import target_text
from suite.results.text import clean
from suite.results.views.published_overview import published_overview
from suite.results.views.section import Section, View

Cell = int | float | str | None
"""Value of a cell in a published file. None for an empty cell."""
OPTIONS: Mapping[str, Sequence[str]] = {
    "round": ("round",),
    "submitter": ("submitter",),
    "division": ("division",),
    "chips": ("chips",),
    "workload": ("benchmark",),
    "framework": ("framework", "printed_framework"),
    "system": ("system", "system_description"),
}
"""Fields of `PublishedRow` that each filter compares.

A user separates several values of a filter by commas.
"""
_MATCHES_PART = ("framework", "system")
"""Filters for which a part of the value is enough."""
_DISPENSABLE = (*EPOCH_COLUMNS.values(), "target", "batch", "framework", "failed", "runs")
"""Columns that are left out of a table that is too wide, in this order."""
_MAX_WIDTH = 115
"""Maximum number of characters of a table's width, without footnote marks."""
_MAX_CELL = 28
"""Maximum number of characters of a text cell. Longer texts are cut."""
_TIME_CHARACTERS = 10
"""Number of characters of a time or cost in a table."""


_FLOPS_OF_SAMPLE: Mapping[str, float] = {
    "llama31_8b": 8192 * 6 * (7_504_658_432 + 32 * 4096 * 8192),
}
"""Workload to the FLOPs of a sample, forward and backward.

Llama 3.1 8B: 8,192 tokens, 7,504,658,432 weights in matrix products (all except the embedding and
the norms), and the causal half of attention in 32 layers of width 4,096. Recomputation is not
counted.
"""


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """Published result as a row of the list.

    The fields that are declared as columns are the columns of files, in this order.
    """

    round: str = column("Round, or the article")
    submitter: str = column("Submitter")
    system: str = column("System")
    chips: Cell = column("Devices, as printed. 0: CPUs only")
    framework: str = column("Framework")
    benchmark: str = column("Workload")
    minutes: float | None = column("Time to target in minutes")
    runs: Cell = column("Runs of the result, failed runs included")
    epochs: float | None = column("Mean epochs to target of the runs in the score, in `epoch_unit`")
    batch: int | None = column("Global batch size")
    target: Cell = column("Target quality, as printed")
    throughput: Cell = column("Throughput, as printed")
    cost: float | None = column("Cost in the currency of the price")
    accelerator: str = column("Name of the devices")
    nodes: Cell = column("Nodes")
    runs_successful: Cell = column("Runs that reached the target")
    scaling_factor: float | None = column("Factor by which the rules multiply the time")
    batch_unit: Cell = column("Unit of the batch size")
    epoch_unit: str = column("Unit of `epochs`: `epochs`, `samples`, or `tokens`")
    target_mask: Cell = column(
        "Target of the second metric of Mask R-CNN and Stable Diffusion, as printed"
    )
    throughput_unit: Cell = column("Unit of the throughput")
    bf16_peak_share: float | None = column(
        "Model FLOP/s of training over the dense BF16 peak of the devices, for Llama 3.1 8B"
    )
    division: str = column("`closed` or `open`")
    availability: Cell = column("Availability of the system")
    note: str = column("Notes")
    source: Cell = column("Source of the figures")

    result: Result
    printed_framework: Cell = None
    """Framework with its version, as in the published results."""
    system_description: Cell = None
    notes: tuple[str, ...] = field(default=(), repr=False)

    @property
    def failed(self) -> int | None:
        """Return the number of failed runs, or None if it is 0 or unknown."""
        if (
            not isinstance(self.runs, int)
            or not isinstance(self.runs_successful, int)
            or not self.runs_successful
        ):
            return None
        return self.runs - self.runs_successful or None


_COLUMNS = tuple(item.name for item in fields(PublishedRow) if "column" in item.metadata)


def published_list(filters: Mapping[str, str | None], prices: Prices | None = None) -> View:
    """Return the list of published results, preceded by an overview.

    Args:
        filters: Value of each filter in `OPTIONS`, as entered by the user. None disables a filter.
        prices: Prices of devices, for a column with the cost of each result.

    Raises:
        ValueError: No result matches a filter, or no result matches all filters.
    """
    rows = _published_rows()
    for option, value in filters.items():
        if value is not None and rows:
            rows = (
                _with_chips(rows, value) if option == "chips" else _with_name(rows, option, value)
            )
    if not rows:
        raise ValueError("no published result matches all of these options. Leave out an option")
    results = [row.result for row in rows]
    price_notes: tuple[str, ...] = ()
    columns: Sequence[str] = [name for name in _COLUMNS if name != "cost"]
    if prices is not None:
        price_notes = prices.unused_notes(results)
        rows = [replace(row, cost=prices.cost(row.result)) for row in rows]
        columns = _COLUMNS
    data = DataTable.from_rows({name: getattr(row, name) for name in columns} for row in rows)
    sections = (*published_overview(results, prices), _section(rows))
    return View("Published results", sections, data, notes=price_notes)


def _published_rows() -> list[PublishedRow]:
    """Return all published results, sorted by round, workload, and time to target."""
    order = sorted(
        published_results(),
        key=lambda result: (result.round, result.workload, result.seconds or 0.0),
    )
    return [_published_row(result) for result in order]


def _published_row(result: Result) -> PublishedRow:
    cells = {
        name: _parse_cell(text or "") for name, text in (result.attempts[0].printed or {}).items()
    }
    printed_batch = (
        f"batch as printed: {cells['batch']} ({cells['batch_basis']})"
        if result.round == ARTICLE
        else ""
    )
    open_division = "open division" if result.division == "open" else ""
    notes = tuple(
        note for note in (*result.labels, result.note or "", printed_batch, open_division) if note
    )
    return PublishedRow(
        result=result,
        round=result.round,
        submitter=result.submitter,
        system=result.system,
        chips=cells.get("chips"),
        framework=result.framework,
        benchmark=result.workload,
        minutes=None if result.seconds is None else round(result.seconds / 60, 6),
        runs=cells.get("runs"),
        epochs=result.epochs,
        batch=result.global_batch_size,
        target=cells.get("target"),
        throughput=cells.get("throughput"),
        accelerator=result.device_name,
        nodes=cells.get("nodes"),
        runs_successful=cells.get("runs_successful"),
        scaling_factor=result.scaling_factor,
        batch_unit=cells.get("batch_unit"),
        epoch_unit=result.epoch_unit,
        target_mask=cells.get("target_mask"),
        throughput_unit=cells.get("throughput_unit"),
        bf16_peak_share=_bf16_peak_share(result),
        division=result.division,
        availability=cells.get("availability"),
        note="; ".join(notes),
        source=cells.get("source"),
        printed_framework=cells.get("framework"),
        system_description=cells.get("system_description"),
        notes=notes,
    )


def _bf16_peak_share(result: Result) -> float | None:
    """Return the model FLOP/s of a result over the dense BF16 peak of its devices.

    The share may exceed what BF16 allows, because FP8 and FP4 have higher peaks. None if the FLOPs
    of a sample, the throughput, or the peak are unknown.
    """
    flops = _FLOPS_OF_SAMPLE.get(result.workload)
    peak = bf16_peaks().get(accelerator_name(result.device_name))
    if flops is None or peak is None or not result.samples_per_second or not result.devices:
        return None
    return round(result.samples_per_second * flops / (result.devices * peak), 4)


def _parse_cell(text: str) -> Cell:
    """Return a cell as a number if possible, otherwise as text. Empty cells return None."""
    match = re.fullmatch(r"\d{1,15}(\.\d+)?(e[+-]?\d{1,2})?", text)
    if match is None:
        return text or None
    return float(text) if match[1] or match[2] else int(text)


def _section(rows: Sequence[PublishedRow]) -> Section:
    """Return the section with the table.

    Values that all rows have in common become labeled lines above the table. Columns that do not
    fit are omitted.
    """
    table = DataTable.from_rows(map(_table_row, rows)).without_empty()
    common = {}
    for name in table.columns:
        values = table.values(name)
        is_figure = any(isinstance(value, float) for value in values)
        if (
            name != "notes"
            and not is_figure
            and len(values) > 1
            and values.count(values[0]) == len(values)
        ):
            common[name] = values[0]
    table = table.without(*common)
    omitted = []
    for name in _DISPENSABLE:
        if name in table and _table_width(table) > _MAX_WIDTH:
            omitted.append(name)
            table = table.without(name)
    facts = tuple(
        (_capitalized(heading(name)), clean(str(value), 300)) for name, value in common.items()
    )
    below = [f"{len(table)} result{'' if len(table) == 1 else 's'}."]
    if omitted:
        columns = ", ".join(heading(name) for name in omitted)
        below.append(f"Columns that did not fit: {columns}. --format csv writes all columns.")
    above = (
        "These are published results, not results of this suite (sources:"
        " logs/published/README.md)."
    )
    keys = sum(name in ("round", "submitter", "system", "benchmark") for name in table.columns[:3])
    of = tuple((row.result,) for row in rows)
    return Section("", (above,), table, below=tuple(below), keys=max(1, keys), of=of, facts=facts)


def _table_row(row: PublishedRow) -> dict[str, Any]:
    return {
        "round": row.round,
        "submitter": row.submitter,
        "system": row.system,
        "chips": row.chips,
        "framework": row.framework,
        "benchmark": row.benchmark,
        "seconds": row.result.seconds,
        "runs": row.runs,
        "failed": row.failed,
        **epoch_columns(row.result),
        "batch": row.batch,
        "target": target_text(row.result.targets, row.result.workload, row.result.falling_metrics),
        "cost": row.cost,
        "notes": row.notes,
    }


def _capitalized(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _table_width(table: DataTable) -> int:
    """Return the width of a table in characters, without footnote marks."""
    return 1 + sum(
        3 + _column_width(name, table.values(name)) for name in table.columns if name != "notes"
    )


def _column_width(name: str, values: Sequence[Any]) -> int:
    widths = [_TIME_CHARACTERS if isinstance(value, float) else len(str(value)) for value in values]
    return max(len(heading(name)), min(_MAX_CELL, max(widths)))


def _with_name(rows: Sequence[PublishedRow], option: str, text: str) -> list[PublishedRow]:
    """Return the rows that match a filter, ignoring case.

    Args:
        rows: The rows.
        option: Name of the filter.
        text: Names, separated by commas. A substring is sufficient for a framework or a system.

    Raises:
        ValueError: No row has a given name.
    """
    names = [_normalized_name(option, name) for name in text.lower().split(",")]
    values = [(row, _values(row, option)) for row in rows]
    for name in names:
        if not any(_fits(option, name, texts) for _, texts in values):
            existing = {
                text: str(getattr(row, OPTIONS[option][0]) or "none")
                for row, texts in values
                for text in texts
            }
            close = (
                difflib.get_close_matches(name, existing, n=3, cutoff=0.4) or sorted(existing)[:5]
            )
            offered = ", ".join(dict.fromkeys(existing[text] for text in close))
            raise ValueError(f"--{option} {name[:60]}: no listed result has it. Nearest: {offered}")
    return [row for row, texts in values if any(_fits(option, name, texts) for name in names)]


def _normalized_name(option: str, name: str) -> str:
    if option == "round":
        return re.sub(r"^(?=\d)", "v", name.strip())
    return workload_name(name) if option == "workload" else name.strip()


def _values(row: PublishedRow, option: str) -> list[str]:
    return [str(getattr(row, name) or "none").lower() for name in OPTIONS[option]]


def _fits(option: str, name: str, values: Sequence[str]) -> bool:
    """Check whether a name matches the values of a row.

    A name matches if it is equal to a value. For some filters, a substring of a value is
    sufficient.
    """
    if option not in _MATCHES_PART:
        return name in values
    return any(name in value or name in re.sub(r"\W", "", value) for value in values)


def _with_chips(rows: Sequence[PublishedRow], text: str) -> list[PublishedRow]:
    """Return the rows with a given number of chips.

    Args:
        rows: The rows.
        text: A number, several numbers, or ranges: `8`, `1,4,8`, `1-16`. 0 selects systems without
            chips (CPUs only).

    Raises:
        ValueError: The text is invalid, or no row has the number of chips.
    """
    ranges = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?\s*", part)
        if match is None or int(match[1]) > int(match[2] or match[1]):
            raise ValueError(
                f"--chips {text[:60]}: expected a number, a list such as 1,4,8, or a range such as"
                " 1-16"
            )
        ranges.append((int(match[1]), int(match[2] or match[1])))
    counted = [(row, row.chips) for row in rows if isinstance(row.chips, int)]
    fitting = [row for row, chips in counted if any(low <= chips <= high for low, high in ranges)]
    if not fitting:
        existing = ", ".join(map(str, sorted({chips for _, chips in counted})[:30]))
        raise ValueError(f"--chips {text[:60]}: no listed result has it. Allowed: {existing}")
    return fitting
