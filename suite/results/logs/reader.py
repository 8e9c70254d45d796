"""Read a log into a `RunRecord`.

The module `own` reads logs of this suite strictly. The package `foreign` reads logs of other
programs and infers missing values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from suite.results.logs import own
from suite.results.logs.events import Event, Problem, without_repeats
from suite.results.logs.foreign import interpret as foreign
from suite.results.logs.lines import read_file
from suite.results.logs.record import RunRecord


def read(path: str | Path) -> RunRecord:
    """Return the record of a log.

    For an empty, binary, cut-off, or damaged file, the record contains all readable values, and
    problems with line numbers.

    Args:
        path: A log of any program, which may be compressed.

    Raises:
        ValueError: The file cannot be opened. The content of a file never raises an exception.
    """
    path = Path(path)
    file = read_file(path)
    return interpret(
        path, vars(file).pop("events"), file.problems, file.digest
    )  # with an iterator, the interpreting function can free the events


def interpret(
    path: Path, events: Sequence[Event], problems: Iterable[Problem], digest: str = ""
) -> RunRecord:
    """Return the record of a log from its events.

    A log that contains a `suite_run` record is read by the module `own`. All other logs are read by
    the package `foreign`.

    Args:
        path: Path of the log.
        events: All records of the log.
        problems: Problems of the file and its lines. The record lists these problems before the
            problems of the run.
        digest: Hash of all records.
    """
    if own.is_suite_log(events):
        return own.interpret(path, without_repeats(events), problems, digest)
    return foreign.interpret(path, without_repeats(events), problems, digest)
