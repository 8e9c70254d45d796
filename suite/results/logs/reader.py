"""Reads a log into a `RunRecord`.

`own` reads logs of this suite strictly, and `foreign` infers values.
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

    An empty, binary, cut-off or damaged file gives a record of everything that can be read, and
    problems with line numbers.

    Args:
        path: A log of any program, which may be compressed.

    Raises:
        ValueError: The file cannot be opened. No content raises.
    """
    path = Path(path)
    file = read_file(path)
    return interpret(
        path, vars(file).pop("events"), file.problems, file.digest
    )  # so that the reader can free the events


def interpret(
    path: Path, events: Sequence[Event], problems: Iterable[Problem], digest: str = ""
) -> RunRecord:
    """Return the record of a log from its events.

    A `suite_run` record decides which reader interprets them.

    Args:
        path: Path of the log.
        events: All records of the log.
        problems: Problems of the file and its lines, which the record repeats before the problems
            of the run.
        digest: Hash of all records.
    """
    if own.is_suite_log(events):
        return own.interpret(path, without_repeats(events), problems, digest)
    return foreign.interpret(path, without_repeats(events), problems, digest)
