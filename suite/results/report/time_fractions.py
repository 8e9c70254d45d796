"""What a run's time went into beside training steps: waiting for data, evaluating."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from suite.results.logs.record import RunRecord, Throughput
from suite.results.score.groups import Row


@dataclass(frozen=True)
class TimeFractions:
    """Shares of time, 0 to 1; None where the logs do not tell."""

    data_wait: float | None
    """Of the time of training steps, that in which they waited for data."""
    evaluation: float | None
    """Of the time of training steps and evaluations, that of evaluations."""


def time_fractions(blocks: Iterable[Throughput]) -> TimeFractions:
    """Shares over blocks of one or several runs; those that do not give all times are left out."""
    known = [block for block in blocks if block.train_seconds and block.data_wait_seconds is not None]
    training = sum(block.train_seconds or 0.0 for block in known)
    waiting = sum(block.data_wait_seconds or 0.0 for block in known)
    evaluating = sum(block.evaluation_seconds or 0.0 for block in known)
    return TimeFractions(
        waiting / training if training > 0 else None,
        evaluating / (training + evaluating) if evaluating > 0 else None,
    )


def row_time_fractions(row: Row) -> TimeFractions:
    """Over the successful runs of a row."""
    return time_fractions(block for record in _records(row) for block in record.throughput)


def time_fractions_line(table: Sequence[Row]) -> str:
    """One line on the rows of a table; empty where no log tells."""
    found = [row_time_fractions(row) for row in table]
    evaluation, data_wait = _range(share.evaluation for share in found), _range(share.data_wait for share in found)
    parts = [f"evaluations took {evaluation} of the time of training and evaluating"] if evaluation else []
    parts += [f"waiting for data took {data_wait} of the time of training"] if data_wait else []
    line = ", ".join(parts)
    return line[:1].upper() + line[1:] + "." if line else ""


def _range(values: Iterable[float | None]) -> str:
    known = [100 * value for value in values if value is not None]
    if not known:
        return ""
    low, high = (f"{value:.2g}" for value in (min(known), max(known)))
    return f"{low} %" if low == high else f"{low} to {high} %"


def _records(row: Row) -> list[RunRecord]:
    return [run.reading.record for run in row.attempts if run.succeeded and run.reading is not None]
