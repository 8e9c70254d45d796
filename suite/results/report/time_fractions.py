"""Fractions of a run's time spent waiting for data and evaluating."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from suite.results.logs.record import RunRecord, Throughput
from suite.results.score.groups import Row


@dataclass(frozen=True)
class TimeFractions:
    """Fractions of time, 0 to 1; None if the logs do not have the times."""

    data_wait: float | None
    """Time spent waiting for data over the time of training steps."""
    evaluation: float | None
    """Time of evaluations over the time of training steps and evaluations."""


def time_fractions(blocks: Iterable[Throughput]) -> TimeFractions:
    """Fractions over the blocks of one or several runs; blocks without all times are left out."""
    known = [block for block in blocks if block.train_seconds and block.data_wait_seconds is not None]
    training = sum(block.train_seconds or 0.0 for block in known)
    waiting = sum(block.data_wait_seconds or 0.0 for block in known)
    evaluating = sum(block.evaluation_seconds or 0.0 for block in known)
    return TimeFractions(
        waiting / training if training > 0 else None,
        evaluating / (training + evaluating) if evaluating > 0 else None,
    )


def row_time_fractions(row: Row) -> TimeFractions:
    """Fractions over all blocks of the successful runs of a row."""
    return time_fractions(block for record in _successful_records(row) for block in record.throughput)


def time_fractions_line(table: Sequence[Row]) -> str:
    """One line with the ranges over the rows of a table; empty if no log has the times."""
    rows = [row_time_fractions(row) for row in table]
    evaluation, data_wait = (
        _percent_range(row.evaluation for row in rows),
        _percent_range(row.data_wait for row in rows),
    )
    parts = [f"evaluations took {evaluation} of the time of training and evaluating"] if evaluation else []
    parts += [f"waiting for data took {data_wait} of the time of training"] if data_wait else []
    line = ", ".join(parts)
    return line[:1].upper() + line[1:] + "." if line else ""


def _percent_range(values: Iterable[float | None]) -> str:
    known = [100 * value for value in values if value is not None]
    if not known:
        return ""
    low, high = (f"{value:.2g}" for value in (min(known), max(known)))
    return f"{low} %" if low == high else f"{low} to {high} %"


def _successful_records(row: Row) -> list[RunRecord]:
    return [run.reading.record for run in row.attempts if run.succeeded and run.reading is not None]
