"""Filters for lists of figures: a value that nothing has is one line with the nearest that exist."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


def filter_by_name(rows: Sequence[T], option: str, given: str | None, names: Callable[[T], Sequence[str]]) -> list[T]:
    """The rows one of whose `names` is among the values given, without regard to case."""
    if given is None:
        return list(rows)
    wanted = [name.strip().lower() for name in given.split(",")]
    known = {name.lower(): names(row)[0] for row in rows for name in names(row)}
    for name in wanted:
        if name not in known:
            raise _unknown(option, name, known)
    return [row for row in rows if any(name.lower() in wanted for name in names(row))]


def filter_by_text(rows: Sequence[T], option: str, given: str | None, texts: Callable[[T], Sequence[str]]) -> list[T]:
    """The rows in one of whose `texts` the text given stands, without regard to case."""
    if given is None:
        return list(rows)
    found = [row for row in rows if any(given.lower() in text.lower() for text in texts(row))]
    if not found and rows:
        raise _unknown(option, given, {texts(row)[0].lower(): texts(row)[0] for row in rows})
    return found


def _unknown(option: str, name: str, known: Mapping[str, str]) -> ValueError:
    near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.4) or sorted(known)[:5]
    offered = ", ".join(dict.fromkeys(known[one] for one in near if one))
    return ValueError(f"--{option} {name[:60]}: nothing of what is asked for has it; nearest: {offered}")


def filter_by_chips(rows: Sequence[T], given: str | None, count: Callable[[T], int | None]) -> list[T]:
    """The rows whose number of chips is one of `8`, `1,4,8` or `1-16`."""
    if given is None:
        return list(rows)
    spans: list[tuple[int, int]] = []
    for part in given.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?\s*", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(f"--chips {given[:60]}: give a number, a list such as 1,4,8 or a range such as 1-16")
        spans.append((int(match[1]), int(match[2] or match[1])))
    counts = [(row, count(row)) for row in rows]
    found = [row for row, chips in counts if chips is not None and any(low <= chips <= high for low, high in spans)]
    if not found and rows:
        have = sorted({chips for _, chips in counts if chips is not None})
        raise ValueError(
            f"--chips {given[:60]}: nothing of what is asked for has it; there is {', '.join(map(str, have[:30]))}"
        )
    return found
