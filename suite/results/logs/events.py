"""Events, problems, and remarks of a log.

An event is a record in a form that all line formats share. Problems and remarks have line numbers.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from workloads.api import Json


class Event(NamedTuple):
    """A record of a log."""

    line: int
    """Line in the file, from 1."""
    format: str
    """`MLLOG`, `MLL`, `MLPv0.5.0` or `MLPerf` (dated lines)."""
    time_ms: float
    """Milliseconds since 1970 on the writer's clock."""
    key: str
    value: Json
    metadata: Mapping[str, Json]
    mark: int
    """Hash of the text of the record, from its token on.

    Records with equal texts are repeats of a single record.
    """
    benchmark: str = ""
    """Benchmark in the record itself (v0.5 and dated lines only)."""
    remarks: tuple[Remark, ...] = ()
    """Deviations from the format that were tolerated to read the record."""


class ProblemKind(enum.Enum):
    """Meaning of a problem for the log."""

    DEFECT = enum.auto()
    """A line cannot be read as the rules require, or holds a value that no run writes."""
    CUT_OFF = enum.auto()
    """The log ends before its run did."""
    NOTE = enum.auto()
    """How the reader understood a record that has several meanings."""


class ProblemCode(enum.Enum):
    """Cause of a problem, for code that decides by it."""

    # the file
    EMPTY = enum.auto()
    NOT_A_LOG = enum.auto()
    NO_RECORD = enum.auto()
    COMPRESSED_DATA = enum.auto()
    """The compressed data are damaged, or too long after decompression."""
    MORE_LINES = enum.auto()
    """Number of further lines that cannot be read."""
    UTF_16 = enum.auto()
    # lines
    LINE_TOO_LONG = enum.auto()
    UNREADABLE_RECORD = enum.auto()
    UNKNOWN_FORM = enum.auto()
    REST_OF_LINE = enum.auto()
    """The reader stopped after ten unreadable records in a line."""
    TEXT_AFTER_RECORD = enum.auto()
    INCOMPLETE_LINE = enum.auto()
    """The last line cannot be read and does not end: it was cut off, or is still being written."""
    NO_TIME = enum.auto()
    TIME_AS_TEXT = enum.auto()
    TIME_IN_SECONDS = enum.auto()
    DATED_LINE = enum.auto()
    LATIN_1 = enum.auto()
    NOT_JSON = enum.auto()
    # records
    OTHER_FORMAT = enum.auto()
    SKIPPED_RECORD = enum.auto()
    """A record of a log of this suite is skipped, because the suite writes no such record."""
    RESTARTED = enum.auto()
    """The file holds several attempts or runs."""
    REPEATED_RECORD = enum.auto()
    NO_START = enum.auto()
    NO_STOP = enum.auto()
    NO_STATUS = enum.auto()
    CONTRADICTING_STATUS = enum.auto()
    OTHER_CLOCK = enum.auto()
    """The time of the run does not come from `run_start` and `run_stop`."""
    SEED = enum.auto()
    SETTING = enum.auto()
    NOT_PLAUSIBLE = enum.auto()
    """A value lies outside its limits. The run counts as failed."""
    # quality and epochs
    TARGET = enum.auto()
    NO_QUALITY = enum.auto()
    CONVERTED_QUALITY = enum.auto()
    EVALUATION_NOT_USED = enum.auto()
    ROUNDED_TARGET = enum.auto()
    CONTINUED_AFTER_TARGET = enum.auto()
    EPOCH_LABELS = enum.auto()
    NO_EPOCH_COUNT = enum.auto()

    @property
    def kind(self) -> ProblemKind:
        """Meaning for the log."""
        if self in _NOTES:
            return ProblemKind.NOTE
        return (
            ProblemKind.CUT_OFF
            if self in (ProblemCode.NO_START, ProblemCode.NO_STOP)
            else ProblemKind.DEFECT
        )


_NOTES = frozenset(
    {
        *(
            ProblemCode.UTF_16,
            ProblemCode.NO_TIME,
            ProblemCode.TIME_AS_TEXT,
            ProblemCode.TIME_IN_SECONDS,
        ),
        *(ProblemCode.DATED_LINE, ProblemCode.LATIN_1, ProblemCode.NOT_JSON, ProblemCode.TARGET),
        *(ProblemCode.NO_QUALITY, ProblemCode.CONVERTED_QUALITY, ProblemCode.EVALUATION_NOT_USED),
        *(ProblemCode.ROUNDED_TARGET, ProblemCode.CONTINUED_AFTER_TARGET, ProblemCode.EPOCH_LABELS),
        ProblemCode.NO_EPOCH_COUNT,
    }
)
CHECKER_READS = frozenset({ProblemCode.NO_TIME, ProblemCode.TIME_AS_TEXT, ProblemCode.LATIN_1})
"""Remarks on defects of records that the checker of mlperf-logging tolerates too."""


@dataclass(frozen=True)
class Problem:
    """Defect of a file.

    The file cannot be read, contradicts itself, or differs from the format of logs but was read.
    """

    line: int
    """Line in the file, from 1; 0: the file as a whole."""
    code: ProblemCode
    text: str
    checker_reads: bool = False
    """True if the checker of mlperf-logging also reads the line, or skips it, and so does not
    refuse the log.
    """

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else self.text


class Remark(NamedTuple):
    """A deviation from the format that was tolerated to read a record."""

    code: ProblemCode
    text: str


NO_TIME = Remark(ProblemCode.NO_TIME, "time stamp 0")
TIME_AS_TEXT = Remark(ProblemCode.TIME_AS_TEXT, "time as text")
LATIN_1 = Remark(ProblemCode.LATIN_1, "not UTF-8, read as latin-1")


@dataclass
class Remarks:
    """Collects remarks.

    Equal remarks are kept once, with the first line, the count, and the last line.
    """

    lines: dict[tuple[Remark, ...], tuple[int, int, int]] = field(default_factory=dict)

    def add(self, line: int, code: ProblemCode, text: str) -> None:
        """Add a remark on a line (from 1)."""
        self.add_all(line, (Remark(code, text),))

    def add_all(self, line: int, remarks: tuple[Remark, ...]) -> None:
        """Add the remarks on a record. After 100 different remarks, new remarks are left out."""
        if remarks in self.lines or len(self.lines) < 100:
            first, count, _ = self.lines.get(remarks, (line, 0, line))
            self.lines[remarks] = (first, count + 1, line)

    def problems(self) -> list[Problem]:
        """Return a problem for each remark, in the order of their first lines."""
        found = []
        for remarks, (first, count, last) in sorted(self.lines.items(), key=_by_first_line):
            text = "; ".join(remark.text for remark in remarks)
            text = text if count == 1 else f"{text} (on {count} lines, the last is {last})"
            refused = [remark.code for remark in remarks if remark.code not in CHECKER_READS]
            found.append(
                Problem(first, (refused or [remarks[0].code])[0], text, checker_reads=not refused)
            )
        return found


def _by_first_line(item: tuple[tuple[Remark, ...], tuple[int, int, int]]) -> tuple[int, int, int]:
    return item[1]


def without_repeats(events: Iterable[Event]) -> list[Event]:
    """Return the records in the order of the file, without further records of the same text."""
    unique: dict[int, Event] = {}
    for event in events:
        unique.setdefault(event.mark, event)
    return list(unique.values())


_MAX_DIGITS = 64
"""Maximum length of a number. A longer number would take minutes to print."""
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def number(value: Json) -> float | None:
    """Return a value as a finite number, if it is a number. A string may hold the number."""
    kind = type(value)
    if kind is str and len(value) < _MAX_DIGITS and _NUMBER.fullmatch(value.strip()):
        value, kind = float(value), float
    if kind is not int and kind is not float:  # bool is excluded
        return None
    try:
        figure = float(value)
    except OverflowError:  # an integer beyond any float
        return None
    return figure if math.isfinite(figure) else None


def not_finite(value: Json) -> float | None:
    """Return a value that is null, NaN or infinity as a float. A string may hold the value."""
    if value is None:
        return math.nan
    if isinstance(value, str) and re.fullmatch(
        r"[+-]?(nan|inf|infinity)", value.strip(), re.IGNORECASE
    ):
        return float(value)
    return value if isinstance(value, float) and not math.isfinite(value) else None


def whole_number(value: Json) -> int | None:
    """Return a value as an exact integer, if it is an integer.

    A log may have it as a string or as 4096.0.
    """
    if (
        isinstance(value, str)
        and len(value) < _MAX_DIGITS
        and re.fullmatch(r"[+-]?[0-9]+", value.strip())
    ):
        return int(value)
    if type(value) is int:
        return value
    figure = number(value)  # beyond 2^53 a float is not exact
    return (
        int(figure)
        if figure is not None and figure.is_integer() and abs(figure) < 2.0**53
        else None
    )


def numbers(value: Mapping[str, Json]) -> dict[str, float]:
    """Return the values that are numbers, by name."""
    return {
        str(name): figure for name, item in value.items() if (figure := number(item)) is not None
    }
