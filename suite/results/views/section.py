"""The form of every view: sections with a table and sentences, and the data for files."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from suite.results.columns import Columns, Result
from suite.results.data_table import DataTable
from suite.results.scores import labels, shared_labels
from suite.results.targets import target_text
from suite.results.text import clean, figure_text

NOT_VERIFIED = "Not verified by MLCommons Association."
DEVICES_NOT_KNOWN = (
    "the number of devices is not known; it is a CPU system, or system.json is missing above its"
    " logs"
)
"""Reason why a foreign result cannot be compared by its number of devices."""


class SectionKind(enum.Enum):
    """Content of a section, for code that depends on it."""

    OTHER = enum.auto()
    OVERVIEW_SPEEDUPS = enum.auto()
    """Speedups of the cells of an overview."""
    RESULTS = enum.auto()
    """The results of one table, in the order of `group_into_tables`."""
    STUDY = enum.auto()
    ALL_REDUCE = enum.auto()
    FAILED_RUNS = enum.auto()


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs, labeled lines, a table, commands, and bullets.

    All are plain text. Nothing is escaped yet.
    """

    title: str = ""
    above: tuple[str, ...] = ()
    """Paragraphs before the table."""
    table: DataTable | None = None
    """Columns that suite.results.render.tables can show.

    A column `notes` (tuples of texts) becomes footnotes.
    """
    commands: tuple[str, ...] = ()
    """Commands to run, after the table.

    They are never broken over lines. Text from logs in them must be quoted.
    """
    below: tuple[str, ...] = ()
    """Bullets at the end."""
    keys: int = 1
    """Number of first columns that name a row. A table that is too wide repeats them."""
    of: tuple[tuple[Columns, ...], ...] = ()
    """Runs or results of each row of the table, for the filters of the page."""
    facts: tuple[tuple[str, str], ...] = ()
    """Labeled lines before the table: (label, text). At most six."""
    kind: SectionKind = SectionKind.OTHER
    pieces: tuple[tuple[str, tuple[Columns, ...]], ...] = ()
    """The labeled lines with the results that each is about, for the filters of the page.

    Without results: about all.
    """


class ViewKind(enum.Enum):
    """Content of a view, for code that depends on it."""

    OTHER = enum.auto()
    COMPARISON = enum.auto()
    """Ratios of two sets of results."""
    CONVERGENCE = enum.auto()
    """Epochs to target, compared with published runs."""


@dataclass(frozen=True)
class View:
    """Everything that a command prints."""

    title: str
    sections: tuple[Section, ...]
    data: DataTable
    """All figures, unrounded, for CSV, JSON and Parquet.

    The names of the columns have the units.
    """
    above: tuple[str, ...] = (NOT_VERIFIED,)
    notes: tuple[str, ...] = ()
    """Messages about the options of the command, for standard error."""
    kind: ViewKind = ViewKind.OTHER


def target_and_data_facts(results: Sequence[Result]) -> list[tuple[str, str]]:
    """Return the target and the data set of results as labeled lines.

    Different values are joined: `ml-demo or ml-20m`.
    """

    def data_set(result: Result) -> str:
        is_unknown = result.profile or result.division == "open"
        return clean(result.dataset, 60) or ("unknown" if is_unknown else "of the rules")

    reaching = [result for result in results if result.to_target]
    targets = dict.fromkeys(
        target_text(result.targets, result.workload) or "unknown" for result in reaching
    )
    parts = {"Target": targets, "Data set": dict.fromkeys(data_set(result) for result in results)}
    return [(name, clean(" or ".join(texts), 300)) for name, texts in parts.items() if texts]


def target_and_data_text(results: Sequence[Result]) -> str:
    """Return the target and the data set of results.

    Example: `target hit rate at 10 ≥ 0.635, data set ml-demo`.
    """
    return ", ".join(f"{name.lower()} {text}" for name, text in target_and_data_facts(results))


def result_labels(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """Return the labels of each result that not all results have."""
    shared = shared_labels(results)
    return [tuple(label for label in labels(result) if label not in shared) for result in results]


def with_error(value: float, error: float | None, unit: float) -> str:
    """Return a figure and its standard error, both multiplied by a unit: `41 ± 3`."""
    return figure_text(value * unit) + (
        "" if error is None else f" ± {figure_text(error * unit, 2)}"
    )
