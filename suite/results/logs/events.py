"""Events, problems, and remarks of a log.

An event is a log record, converted to a format that is common to all line formats. Problems and
remarks have line numbers.
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
    """Line number in the file, starting at 1."""
    format: str
    """Line format: `MLLOG`, `MLL`, `MLPv0.5.0`, or `MLPerf` (dated lines)."""
    time_ms: float
    """Milliseconds since 1970 according to the clock of the machine that wrote the log."""
    key: str
    value: Json
    metadata: Mapping[str, Json]
    mark: int
    """Hash of the record's text. The text begins with the token of the line format.

    Records with equal texts are treated as repetitions of a single record.
    """
    benchmark: str = ""
    """Benchmark that the record itself contains. Only v0.5 records and dated records contain a
    benchmark.
    """
    remarks: tuple[Remark, ...] = ()
    """Deviations from the log format that the parser tolerated."""


class ProblemKind(enum.Enum):
    """Severity of a problem in a log."""

    DEFECT = enum.auto()
    """A line violates the log format, or a value is impossible."""
    CUT_OFF = enum.auto()
    """The log ends before the end of the run."""
    NOTE = enum.auto()
    """A note on how the reader interpreted an ambiguous record."""


class ProblemCode(enum.Enum):
    """Machine-readable cause of a problem."""

    # the file
    EMPTY = enum.auto()
    NOT_A_LOG = enum.auto()
    NO_RECORD = enum.auto()
    COMPRESSED_DATA = enum.auto()
    """The compressed data are damaged, or exceed the maximum length after decompression."""
    MORE_LINES = enum.auto()
    """Further lines cannot be read. The problem contains their number."""
    UTF_16 = enum.auto()
    # lines
    LINE_TOO_LONG = enum.auto()
    UNREADABLE_RECORD = enum.auto()
    UNKNOWN_FORM = enum.auto()
    REST_OF_LINE = enum.auto()
    """The reader skipped the rest of a line after ten unreadable records."""
    TEXT_AFTER_RECORD = enum.auto()
    INCOMPLETE_LINE = enum.auto()
    """The last line cannot be parsed and has no line break, because the log was cut off or is still
    being written.
    """
    NO_TIME = enum.auto()
    TIME_AS_TEXT = enum.auto()
    TIME_IN_SECONDS = enum.auto()
    DATED_LINE = enum.auto()
    LATIN_1 = enum.auto()
    NOT_JSON = enum.auto()
    # records
    OTHER_FORMAT = enum.auto()
    SKIPPED_RECORD = enum.auto()
    """A record in a log of this suite is skipped, because the suite never writes such a record."""
    RESTARTED = enum.auto()
    """The file contains several attempts or runs."""
    REPEATED_RECORD = enum.auto()
    NO_START = enum.auto()
    NO_STOP = enum.auto()
    NO_STATUS = enum.auto()
    CONTRADICTING_STATUS = enum.auto()
    OTHER_CLOCK = enum.auto()
    """The run time is not measured from `run_start` to `run_stop`."""
    SEED = enum.auto()
    SETTING = enum.auto()
    NOT_PLAUSIBLE = enum.auto()
    """A value is outside its plausible limits. The run counts as failed."""
    # Problems with the quality and with the number of epochs.
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
        """Return the severity of the problem."""
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
"""Codes of defects that the compliance checker of mlperf-logging also tolerates."""


@dataclass(frozen=True)
class Problem:
    """Defect of a log file.

    A log file has a defect if it cannot be read, contradicts itself, or deviates from the log
    format. Some deviations are tolerated.
    """

    line: int
    """Line number in the file, starting at 1. A problem of the whole file has line 0."""
    code: ProblemCode
    text: str
    checker_reads: bool = False
    """True if the compliance checker of mlperf-logging also reads or skips the line, and therefore
    accepts the log.
    """

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else self.text


class Remark(NamedTuple):
    """A deviation from the log format that the parser tolerated."""

    code: ProblemCode
    text: str


NO_TIME = Remark(ProblemCode.NO_TIME, "time stamp 0")
TIME_AS_TEXT = Remark(ProblemCode.TIME_AS_TEXT, "time as text")
LATIN_1 = Remark(ProblemCode.LATIN_1, "not UTF-8, read as latin-1")


@dataclass
class Remarks:
    """Collects remarks.

    Equal remarks are stored once, with the first line number, the number of occurrences, and the
    last line number.
    """

    lines: dict[tuple[Remark, ...], tuple[int, int, int]] = field(default_factory=dict)

    def add(self, line: int, code: ProblemCode, text: str) -> None:
        """Add a remark on a line. Line numbers start at 1."""
        self.add_all(line, (Remark(code, text),))

    def add_all(self, line: int, remarks: tuple[Remark, ...]) -> None:
        """Add the remarks on a record.

        After 100 different remarks, new remarks with a different text are ignored.
        """
        if remarks in self.lines or len(self.lines) < 100:
            first, count, _ = self.lines.get(remarks, (line, 0, line))
            self.lines[remarks] = (first, count + 1, line)

    def problems(self) -> list[Problem]:
        """Return a problem for each remark, in order of the first line number."""
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
    """Return the records in file order, without repeated records that have equal text."""
    unique: dict[int, Event] = {}
    for event in events:
        unique.setdefault(event.mark, event)
    return list(unique.values())


_MAX_DIGITS = 64
"""Maximum number of digits of an integer. Converting a much longer integer to a string would take
minutes.
"""
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def number(value: Json) -> float | None:
    """Return a number or numeric string as a finite float.

    Returns None for all other values.
    """
    kind = type(value)
    if kind is str and len(value) < _MAX_DIGITS and _NUMBER.fullmatch(value.strip()):
        value, kind = float(value), float
    if kind is not int and kind is not float:  # unlike isinstance, this type check excludes bool
        return None
    try:
        figure = float(value)
    except OverflowError:  # the integer exceeds the range of a float
        return None
    return figure if math.isfinite(figure) else None


def not_finite(value: Json) -> float | None:
    """Return null, NaN, or infinity as a float. Return None for all other values.

    NaN and infinity may also be written as strings.
    """
    if value is None:
        return math.nan
    if isinstance(value, str) and re.fullmatch(
        r"[+-]?(nan|inf|infinity)", value.strip(), re.IGNORECASE
    ):
        return float(value)
    return value if isinstance(value, float) and not math.isfinite(value) else None


def whole_number(value: Json) -> int | None:
    """Return an integer value as an exact integer, or None for all other values.

    Some logs write an integer as a string, or as a float such as 4096.0.
    """
    if (
        isinstance(value, str)
        and len(value) < _MAX_DIGITS
        and re.fullmatch(r"[+-]?[0-9]+", value.strip())
    ):
        return int(value)
    if type(value) is int:
        return value
    figure = number(value)  # floats above 2^53 are not exact
    return (
        int(figure)
        if figure is not None and figure.is_integer() and abs(figure) < 2.0**53
        else None
    )


def numbers(value: Mapping[str, Json]) -> dict[str, float]:
    """Return the values of a mapping that are numbers."""
    return {
        str(name): figure for name, item in value.items() if (figure := number(item)) is not None
    }
