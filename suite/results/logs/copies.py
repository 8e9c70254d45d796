"""Which logs are of one run: whole copies, and copies taken while it was written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from suite.results.logs.record import RunRecord


def mark_copies(table_rows: Iterable[dict[str, Any]]) -> None:
    """Of several logs of one run the longest counts; the others are copies of it, whole or taken while it was written."""
    logged = [row for row in table_rows if row["record"] is not None and row["record"].digest]
    kept: dict[Any, list[dict[str, Any]]] = {}
    for row in sorted(logged, key=lambda row: (*_length(row["record"]), row["running"]), reverse=True):
        alike = kept.setdefault((row["workload"], row["start_ms"], row["seed"]), [])
        whole = next((one for one in alike if _is_same_run(one, row)), None)
        if whole is None:
            alike.append(row)
        else:
            row["copy_of"] = whole["path"]


def _length(log: RunRecord) -> tuple[int, ...]:
    return log.status != "truncated", len(log.evaluations), len(log.throughput), len(log.logged)


def _is_same_run(whole: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Whether two logs of equal start and seed hold one run: their records are equal, or what the shorter says of itself is.

    A start in whole seconds without a seed may be that of several runs which were started together.
    """
    if whole["record"].digest == row["record"].digest:
        return True
    if not row["start_ms"] or (row["seed"] is None and row["start_ms"] % 1000 == 0):
        return False
    one, other = whole["record"], row["record"]
    logged = all(one.logged.get(name) == value for name, value in other.logged.items())
    return logged and (one.settings, one.platform) == (other.settings, other.platform)
