"""Events (the records of a log, in one form for all line formats), and problems and remarks with line numbers."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from workloads.api import Json


class Event(NamedTuple):
    """One record of a log."""

    line: int
    """Line in the file, from 1."""
    format: str
    """`MLLOG`, `MLL`, `MLPv0.5.0` or `MLPerf` (dated lines)."""
    time_ms: float
    """Milliseconds since 1970 by the writer's clock."""
    key: str
    value: Json
    metadata: Mapping[str, Json]
    mark: int
    """Hash of the record's text from its token on; two records with the same text are the same record written twice."""
    benchmark: str = ""
    """Benchmark that the record itself names (v0.5 and dated lines only)."""
    remark: str = ""
    """What was tolerated to read it; empty: nothing."""


class ProblemKind(enum.Enum):
    """What a problem of a log means for the log."""

    DEFECT = enum.auto()
    """A line cannot be read as the rules want it, or holds a value that no run writes."""
    CUT_OFF = enum.auto()
    """The log ends before its run did."""
    NOTE = enum.auto()
    """How the reader understood a record that allows more than one reading."""


@dataclass(frozen=True)
class Problem:
    """Something in a file that could not be read, does not fit, or was read only by leniency."""

    line: int
    """Line in the file, from 1; 0: the file as a whole."""
    text: str
    checker_reads: bool = False
    """True if mlperf-logging's checker also reads the line, or skips it: no reason to refuse the log."""
    kind: ProblemKind = ProblemKind.DEFECT

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else self.text


NO_TIME = "time stamp 0"
TIME_AS_TEXT = "time as text"
LATIN_1 = "not UTF-8, read as latin-1"
_CHECKER_READS = frozenset({NO_TIME, TIME_AS_TEXT, LATIN_1})
"""Remarks on what mlperf-logging's checker tolerates in a record as well; everything else must be JSON by the rules."""


def joined(*remarks: str) -> str:
    """Remarks on one record as one; without the empty ones."""
    return "; ".join(filter(None, remarks))


@dataclass
class Remarks:
    """Collects remarks: the same remark on many lines is kept once, with its first line, count and last line."""

    lines: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def add(self, line: int, text: str) -> None:
        """Note `text` for a line (from 1). Beyond 100 texts, which quote the log then, new ones are left out."""
        if text in self.lines or len(self.lines) < 100:
            first, count, _ = self.lines.get(text, (line, 0, line))
            self.lines[text] = (first, count + 1, line)

    def problems(self) -> list[Problem]:
        """One problem for each remark, in order of its first line."""
        return [
            Problem(
                first,
                text if count == 1 else f"{text} (on {count} lines, the last is {last})",
                checker_reads=_CHECKER_READS.issuperset(text.split("; ")),
                kind=ProblemKind.NOTE,
            )
            for text, (first, count, last) in sorted(self.lines.items(), key=lambda item: item[1])
        ]


_MOST_DIGITS = 64
"""A longer number is none: it would take minutes to print, and nothing counts so far."""
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def number(value: Json) -> float | None:
    """`value` as a finite number, also where a log holds it as text; None if it is not one."""
    kind = type(value)
    if kind is str and len(value) < _MOST_DIGITS and _NUMBER.fullmatch(value.strip()):
        value, kind = float(value), float
    if kind is not int and kind is not float:  # a bool is neither
        return None
    try:
        figure = float(value)
    except OverflowError:  # an integer beyond any float
        return None
    return figure if math.isfinite(figure) else None


def not_finite(value: Json) -> float | None:
    """Return null, NaN, or infinity, also where a log holds it as text, as a float; None for any other value."""
    if value is None:
        return math.nan
    if isinstance(value, str) and re.fullmatch(r"[+-]?(nan|inf|infinity)", value.strip(), re.IGNORECASE):
        return float(value)
    return value if isinstance(value, float) and not math.isfinite(value) else None


def whole_number(value: Json) -> int | None:
    """`value` as exactly the whole number that it is, also where a log holds it as text or as 4096.0; None if it is not one."""
    if isinstance(value, str) and len(value) < _MOST_DIGITS and re.fullmatch(r"[+-]?[0-9]+", value.strip()):
        return int(value)
    if type(value) is int:
        return value
    figure = number(value)  # beyond 2^53 a float does not say which whole number was meant
    return int(figure) if figure is not None and figure.is_integer() and abs(figure) < 2.0**53 else None


def numbers(value: Mapping[str, Json]) -> dict[str, float]:
    """Those of its values that are numbers."""
    return {str(name): figure for name, item in value.items() if (figure := number(item)) is not None}
