"""How the figures of several rows become one, and rows by kind; what is not known counts in none."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

_Thing = TypeVar("_Thing")
Combine = Callable[[Sequence[Any], str], Any]
"""What a result has of a column, from the rows of its runs and the column's name."""


def having(rows: Iterable[_Thing], *names: str) -> list[_Thing]:
    """Those of which all these values are known."""
    return [row for row in rows if all(getattr(row, name) is not None for name in names)]


def known(rows: Iterable[Any], name: str) -> list[Any]:
    """The values of a column that are known."""
    return [getattr(row, name) for row in having(rows, name)]


def grouped(things: Iterable[_Thing], kind: Callable[[_Thing], Hashable]) -> dict[Any, list[_Thing]]:
    """The things of each kind, in the order in which they are met."""
    by_kind: dict[Any, list[_Thing]] = {}
    for thing in things:
        by_kind.setdefault(kind(thing), []).append(thing)
    return by_kind


def mean(rows: Iterable[Any], name: str) -> float | None:
    """Mean of what is known."""
    values = known(rows, name)
    return statistics.fmean(values) if values else None


def total(rows: Iterable[Any], name: str) -> float | None:
    """Sum of what is known; None also of numbers in a log whose sum no number holds."""
    values = known(rows, name)
    try:
        return math.fsum(values) if values else None
    except OverflowError:
        return None


def over_steps(rows: Sequence[Any], name: str) -> float | None:
    """Mean over the steps of all runs."""
    weighted = [(getattr(row, name), row.steps or 1) for row in having(rows, name)]
    return math.fsum(one * steps for one, steps in weighted) / sum(steps for _, steps in weighted) if weighted else None


def largest(rows: Iterable[Any], name: str) -> float | None:
    """The largest value."""
    return max(known(rows, name), default=None)


def first(rows: Iterable[Any], name: str) -> Any:
    """The first known value."""
    return next(iter(known(rows, name)), None)


def common_value(rows: Iterable[Any], name: str) -> Any:
    """Return the value that all rows have, or None if they differ."""
    values = list(dict.fromkeys(getattr(row, name) for row in rows))
    return values[0] if len(values) == 1 else None


def share_of(above: str, below: Sequence[str]) -> Combine:
    """Sum of a column over the sum of others, of the runs that have them all."""

    def combined(rows: Sequence[Any], _: str) -> float | None:
        whole = having(rows, above, *below)
        base = math.fsum(getattr(row, name) for row in whole for name in below)
        return math.fsum(getattr(row, above) for row in whole) / base if base > 0 else None

    return combined
