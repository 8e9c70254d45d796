"""Filters for lists of results. A value that matches nothing raises ValueError with the nearest existing values."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


def filter_by_name(
    rows: Sequence[T], option: str, requested: str | None, names: Callable[[T], Sequence[str]]
) -> list[T]:
    """The rows with one of their `names` among the requested ones (separated by commas), ignoring case."""
    if requested is None:
        return list(rows)
    requested_names = [name.strip().lower() for name in requested.split(",")]
    known = {name.lower(): names(row)[0] for row in rows for name in names(row)}
    for name in requested_names:
        if name not in known:
            raise _unknown(option, name, known)
    return [row for row in rows if any(name.lower() in requested_names for name in names(row))]


def filter_by_text(
    rows: Sequence[T], option: str, requested: str | None, texts: Callable[[T], Sequence[str]]
) -> list[T]:
    """The rows with the requested text in one of their `texts`, ignoring case."""
    if requested is None:
        return list(rows)
    matching = [row for row in rows if any(requested.lower() in text.lower() for text in texts(row))]
    if not matching and rows:
        raise _unknown(option, requested, {texts(row)[0].lower(): texts(row)[0] for row in rows})
    return matching


def _unknown(option: str, name: str, known: Mapping[str, str]) -> ValueError:
    near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.4) or sorted(known)[:5]
    offered = ", ".join(dict.fromkeys(known[key] for key in near if key))
    return ValueError(f"--{option} {name[:60]}: no listed result has it; nearest: {offered}")


def filter_by_chips(rows: Sequence[T], requested: str | None, count: Callable[[T], int | None]) -> list[T]:
    """The rows whose number of chips is requested as `8`, `1,4,8` or `1-16`."""
    if requested is None:
        return list(rows)
    spans: list[tuple[int, int]] = []
    for part in requested.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?\s*", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(f"--chips {requested[:60]}: give a number, a list such as 1,4,8 or a range such as 1-16")
        spans.append((int(match[1]), int(match[2] or match[1])))
    counts = [(row, count(row)) for row in rows]
    matching = [row for row, chips in counts if chips is not None and any(low <= chips <= high for low, high in spans)]
    if not matching and rows:
        existing = sorted({chips for _, chips in counts if chips is not None})
        raise ValueError(
            f"--chips {requested[:60]}: no listed result has it; existing: {', '.join(map(str, existing[:30]))}"
        )
    return matching
