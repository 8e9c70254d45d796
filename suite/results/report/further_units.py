"""Throughput in further units of a workload: tokens/s beside sentences/s."""

from __future__ import annotations

from collections.abc import Sequence

from suite.results.score.groups import Row
from suite.results.text import clean, devices_text


def row_rates(row: Row) -> dict[str, float]:
    """Unit to units per second of training, over all blocks of the successful runs of a row."""
    sums: dict[str, float] = {}
    seconds: dict[str, float] = {}
    for run in row.attempts:
        if not run.succeeded or run.reading is None:
            continue
        for block in run.reading.record.throughput:
            for unit, rate in block.rates.items():
                sums[unit] = sums.get(unit, 0.0) + rate * (block.train_seconds or 0.0)
                seconds[unit] = seconds.get(unit, 0.0) + (block.train_seconds or 0.0)
    return {unit: total / seconds[unit] for unit, total in sums.items() if seconds[unit] > 0}


def further_units_line(table: Sequence[Row]) -> str:
    """One line with the rates of every row; empty where no log has a further unit."""
    rows = [(row.group, row_rates(row)) for row in table]
    units = list(dict.fromkeys(unit for _, rates in rows for unit in rates))
    texts = []
    for unit in units:
        rates = ", ".join(
            f"{rates[unit]:,.0f} ({clean(group.framework, 30)} on {devices_text(group.devices or 0, group.nodes)})"
            for group, rates in rows
            if unit in rates
        )
        texts.append(f"In {clean(unit, 30)}/s: {rates}.")
    return " ".join(texts)
