"""Combines the values of several runs. Means and sums skip unknown values."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

_Thing = TypeVar("_Thing")
Combine = Callable[[Sequence[Any], str], Any]
"""Function that computes a column of a result. Its arguments are the runs and the column name."""


def where_all_known(rows: Iterable[_Thing], *names: str) -> list[_Thing]:
    """Return the runs in which no column of `names` is None."""
    return [row for row in rows if all(getattr(row, name) is not None for name in names)]


def non_null(rows: Iterable[Any], name: str) -> list[Any]:
    """Return the values of a column that are not None."""
    return [getattr(row, name) for row in where_all_known(rows, name)]


def grouped(
    things: Iterable[_Thing], kind: Callable[[_Thing], Hashable]
) -> dict[Any, list[_Thing]]:
    """Group objects by the return value of `kind`, in order of first occurrence."""
    by_kind: dict[Any, list[_Thing]] = {}
    for thing in things:
        by_kind.setdefault(kind(thing), []).append(thing)
    return by_kind


def mean(rows: Iterable[Any], name: str) -> float | None:
    """Return the mean of the values in a column, without None.

    Returns None if the column has no values.
    """
    values = non_null(rows, name)
    return statistics.fmean(values) if values else None


def total(rows: Iterable[Any], name: str) -> float | None:
    """Return the sum of the values in a column, without None.

    Returns None if the column has no values or if the sum overflows.
    """
    values = non_null(rows, name)
    try:
        return math.fsum(values) if values else None
    except OverflowError:
        return None


def over_steps(rows: Sequence[Any], name: str) -> float | None:
    """Return the mean of a column, weighted by the number of steps of each run."""
    weighted = [(getattr(row, name), row.steps or 1) for row in where_all_known(rows, name)]
    if not weighted:
        return None
    return math.fsum(value * steps for value, steps in weighted) / sum(
        steps for _, steps in weighted
    )


def largest(rows: Iterable[Any], name: str) -> float | None:
    """Return the largest value in a column."""
    return max(non_null(rows, name), default=None)


def first(rows: Iterable[Any], name: str) -> Any:
    """Return the first value in a column that is not None."""
    return next(iter(non_null(rows, name)), None)


def common_value(rows: Iterable[Any], name: str) -> Any:
    """Return the value that all runs share, or None if the values differ."""
    values = list(dict.fromkeys(getattr(row, name) for row in rows))
    return values[0] if len(values) == 1 else None


def share_of(above: str, below: Sequence[str]) -> Combine:
    """Return a function that divides the sum of one column by the sum of several columns.

    Only runs with values in all of these columns are included.
    """

    def combined(rows: Sequence[Any], _: str) -> float | None:
        whole = where_all_known(rows, above, *below)
        base = math.fsum(getattr(row, name) for row in whole for name in below)
        return math.fsum(getattr(row, above) for row in whole) / base if base > 0 else None

    return combined
