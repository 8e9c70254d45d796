"""Report section with a table of results and the sentences about the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from suite.results.columns import EPOCH_COLUMNS, REPORTED, Result
from suite.results.data_table import DataTable
from suite.results.names import data_text
from suite.results.price import Prices
from suite.results.scores import shared_labels
from suite.results.series import speedups
from suite.results.settings_difference import settings_difference
from suite.results.text import clean
from suite.results.views.result_sentences import (
    disagreement_sentences,
    open_division_sentence,
    result_notes,
    share_sentences,
    speedup_sentences,
)
from suite.results.views.result_settings import setting_columns, setting_facts
from suite.results.views.section import Section, SectionKind

NOTICES: Mapping[str, str] = {
    "demo": "DEMO: {data} and a small model. Not an MLPerf result.",
    "synthetic": "SYNTHETIC DATA: this measures throughput only. Not an MLPerf result.",
    "": "Foreign logs.",
}
"""Maps each profile to the notice above its tables."""


def results_section(
    table: Sequence[Result],
    prices: Prices | None = None,
    title: str = "",
    tables: Sequence[Sequence[Result]] = (),
    verbose: bool = False,
) -> Section:
    """Return the report section with a table of results.

    Args:
        table: Results of one table from `group_into_tables`.
        prices: Prices of devices, for a column with the cost of each result.
        title: Heading of the section.
        tables: All tables of the document. The section also shows hyperparameters that differ
            between tables of the same workload.
        verbose: True to include settings that have their default value.
    """
    first = table[0]
    difference = settings_difference(table)
    over = speedups(table, intervals=True)
    shared = shared_labels(table)
    deviations = [
        text for text in first.deviations if all(text in result.deviations for result in table)
    ]
    columns = setting_columns(table, difference)
    notes = [result_notes(result, deviations, shared) for result in table]
    of_all = [text for text in notes[0] if len(table) > 1 and all(text in texts for texts in notes)]
    rows = []
    for position, result in enumerate(table):
        speedup = over.get(result.key)
        value = None if speedup is None else speedup.value
        if any(result.key == ratio.before.key for ratio in over.values()):
            value = 1.0
        row = {name: values[position] for name, values in columns.items()} | _figures(result, value)
        row["cost"] = None if prices is None else prices.cost(result)
        row["notes"] = tuple(text for text in notes[position] if text not in of_all)
        rows.append(row)
    shown = _without_small_parts(DataTable.from_rows(rows)).without_empty(keep=("devices",))
    below = [
        *of_all,
        *speedup_sentences(table, over),
        *disagreement_sentences(table),
        *share_sentences(table),
    ]
    if "cost" in shown:
        below.append(
            "Cost of one result: devices × hours to target × price of one device for one hour."
        )
    if deviations:
        facts = [deviation for deviation in first.parsed_deviations if deviation.text in deviations]
        below.append(open_division_sentence(facts, verbose))
    notice = NOTICES.get(first.profile, "").format(data=_data_words(first.dataset))
    return Section(
        title,
        (notice,) if notice else (),
        shown,
        facts=tuple(setting_facts(table, difference, tables, shared, verbose)),
        kind=SectionKind.RESULTS,
        below=tuple(below),
        keys=shown.columns.index("runs"),
        of=tuple((result,) for result in table),
    )


def _data_words(dataset: str) -> str:
    text = data_text(dataset)
    return text if text.startswith("generated") else f"the {text}"


def _figures(result: Result, speedup: float | None) -> dict[str, Any]:
    """Return the columns of a result that were measured.

    The speedup is one of the first columns, so that a table that is split into several tables shows
    it first.
    """
    required = result.runs_required
    several = result.to_target and result.runs_successful > 1
    row: dict[str, Any] = {
        "runs": result.runs_successful,
        "of": required if required and result.runs_successful < required else None,
        "failed": result.runs_failed or None,
        "seconds": result.seconds,
        "seconds_minimum": result.seconds_minimum if several else None,
        "seconds_maximum": result.seconds_maximum if several else None,
        "speedup": speedup,
    }
    row |= {
        f"seconds_{name}": value
        for name, value in (result.parts._asdict() if result.parts else {}).items()
    }
    row |= {
        EPOCH_COLUMNS[result.epoch_unit] if name == "epochs" else name: getattr(result, name)
        for name in REPORTED
    }
    row |= {
        f"{clean(unit, 30)}_per_second": rate for unit, rate in (result.further_rates or {}).items()
    }
    if not result.to_target:
        row["data_wait_share"] = result.data_wait_share
    return row


_SMALL_PART = 0.02
"""Fraction of the time to target below which a component of the time is negligible. The column of a
component is removed if the component is negligible in all results.
"""


def _without_small_parts(table: DataTable) -> DataTable:
    """Return the table without columns for negligible components of the time.

    If the time spent waiting for data is negligible, it is added to training.
    """
    for name in ("seconds_data_wait", "seconds_other"):
        if name not in table:
            continue
        pairs = zip(table.values(name), table.values("seconds"), strict=True)
        if any(part is not None and whole and part >= _SMALL_PART * whole for part, whole in pairs):
            continue
        if name == "seconds_data_wait":
            parts = zip(table.values("seconds_training"), table.values(name), strict=True)
            training = [
                None if trained is None else trained + (waited or 0.0) for trained, waited in parts
            ]
            table = table.with_column("seconds_training", training)
        table = table.without(name)
    return table
