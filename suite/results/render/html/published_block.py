"""Page block that compares results with published results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from suite.results.columns import Columns, Result, epoch_columns
from suite.results.data_table import DataTable
from suite.results.experiment_key import label
from suite.results.names import short_title
from suite.results.price import Prices
from suite.results.render.html import charts
from suite.results.render.html.page_blocks import Block, make_part, section_blocks
from suite.results.render.html.page_rows import PageRows
from suite.results.scores import figure, labels
from suite.results.settings_difference import settings_difference
from suite.results.targets import same_targets, target_text
from suite.results.views.published_overview import published_overview
from suite.results.views.section import Section

_COMPARED_SETTINGS = (
    "profile",
    "targets",
    "clock",
    "precision",
    "device_name",
    "framework",
    "stop",
    "mode",
    "round",
)
"""Settings that are listed in a footnote if they differ from the published result."""


def published_block(
    rows: PageRows, ours: Sequence[Result], published: Sequence[Result], looks: charts.Looks
) -> Block:
    """Return a block with suite results and published results of the same workloads."""
    title = "Comparison with published results"
    if not published:
        missing = (
            (
                "No requested published result is of a workload of these logs, so there is nothing"
                " to compare."
            ),
            "Run suite published list to see the available results.",
        )
        return Block(title, "published", missing)
    explanation = (
        (
            "A footnote lists the settings in which a result differs from the published result on"
            " the nearest number of devices."
        ),
        "Run suite compare for ratios with confidence intervals.",
    )
    return Block(
        title,
        "published",
        explanation,
        [make_part(rows, _published_section(ours, published, looks))],
    )


def _published_section(
    ours: Sequence[Result], published: Sequence[Result], looks: charts.Looks
) -> Section:
    """Return a table of published and suite results, with their differences as notes."""
    columns = (
        "devices",
        "nodes",
        "seconds",
        "global_batch_size",
        "samples_per_second",
        "clock",
        "device_name",
    )
    lines: list[dict[str, Any]] = []
    members: list[tuple[Columns, ...]] = []

    def add(result: Result, name: str, notes: tuple[str, ...]) -> None:
        target = target_text(result.targets, result.workload)
        first, rest = columns[:3], columns[3:]
        figures = {column: getattr(result, column) for column in first}
        figures |= epoch_columns(result)
        figures |= {column: getattr(result, column) for column in rest}
        lines.append(
            {"workload": short_title(result.workload), "result": name}
            | figures
            | {"target": target, "notes": notes}
        )
        members.append((result,))

    for workload in sorted({result.workload for result in published}):
        of_workload = [result for result in published if result.workload == workload]
        for result in of_workload:
            add(result, f"{result.round} {result.submitter} {result.system}", ())
        for result in ours:
            if result.workload == workload and figure(result) is not None:
                marks = f" ({', '.join(labels(result))})" if labels(result) else ""
                nearest = _nearest_in_size(result, of_workload)
                add(
                    result,
                    f"this suite{marks}: {looks[result.key].of_result.label}",
                    _differences(result, nearest),
                )
    return Section(
        table=DataTable.from_rows(lines).without_empty(("notes",)), keys=2, of=tuple(members)
    )


def _nearest_in_size(result: Result, published: Sequence[Result]) -> Result:
    """Return the published result with the nearest number of devices.

    The ratio of the numbers of devices measures the distance.
    """
    devices = result.devices or 1
    return min(published, key=lambda candidate: abs(math.log((candidate.devices or 1) / devices)))


def _differences(result: Result, published: Result) -> tuple[str, ...]:
    """Return the settings that differ between two results, with both values."""
    pair = (result, published)
    difference = settings_difference(pair).with_known_values().only(_COMPARED_SETTINGS)
    if same_targets(result.targets, published.targets, result.workload):
        difference = difference.without(("targets",))
    notes = []
    for name in difference.columns:
        local_value, published_value = difference.texts(name)
        notes.append(f"{label(name)} {local_value}, published: {published_value}")
    return tuple(notes)


def published_overview_blocks(
    rows: PageRows, published: Sequence[Result], prices: Prices | None
) -> list[Block]:
    """Return the overview of published results as blocks."""
    return section_blocks(rows, published_overview(published, prices))
