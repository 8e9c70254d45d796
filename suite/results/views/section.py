"""Common structure of all views: sections with tables and sentences, and file data."""

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
"""Reason why a result of another program cannot be compared by number of devices."""


class SectionKind(enum.Enum):
    """Type of a section, for code that treats some sections differently."""

    OTHER = enum.auto()
    OVERVIEW_SPEEDUPS = enum.auto()
    """Speedups between the cells of an overview."""
    RESULTS = enum.auto()
    """A table of results. The tables are in the order of `group_into_tables`."""
    STUDY = enum.auto()
    ALL_REDUCE = enum.auto()
    FAILED_RUNS = enum.auto()


@dataclass(frozen=True)
class Section:
    """Section of a view, which contains text, a table, and commands.

    A section has a heading, paragraphs, labeled lines, a table, commands, and bullets. All strings
    are plain text, which must still be escaped for Markdown or HTML.
    """

    title: str = ""
    above: tuple[str, ...] = ()
    """Paragraphs before the table."""
    table: DataTable | None = None
    """Table that suite.results.render.text_table can format.

    The texts in the column `notes` (tuples of strings) become footnotes.
    """
    commands: tuple[str, ...] = ()
    """Commands for the user, which follow the table.

    Commands are never wrapped. Text from logs must be quoted for a shell before it is used in a
    command.
    """
    below: tuple[str, ...] = ()
    """Bullets at the end of the section."""
    keys: int = 1
    """Number of leading columns that identify a row. If a table is too wide, it is split, and
    each new table repeats these columns.
    """
    of: tuple[tuple[Columns, ...], ...] = ()
    """For each row of the table, its runs or results. The filters of the HTML page use them."""
    facts: tuple[tuple[str, str], ...] = ()
    """Labeled lines before the table, as pairs (label, text). A section has at most six labeled
    lines.
    """
    kind: SectionKind = SectionKind.OTHER
    pieces: tuple[tuple[str, tuple[Columns, ...]], ...] = ()
    """Lines of text with the results that each line is about, for the filters of the HTML page.

    A line without results is about all results.
    """


class ViewKind(enum.Enum):
    """Type of a view, for code that treats some views differently."""

    OTHER = enum.auto()
    COMPARISON = enum.auto()
    """Ratios between two sets of results."""
    CONVERGENCE = enum.auto()
    """Epochs to target of results, compared with the epochs of published runs."""


@dataclass(frozen=True)
class View:
    """Complete output of a command."""

    title: str
    sections: tuple[Section, ...]
    data: DataTable
    """Unrounded data for CSV, JSON, and Parquet files.

    The column names include the units.
    """
    above: tuple[str, ...] = (NOT_VERIFIED,)
    notes: tuple[str, ...] = ()
    """Messages about the options of the command, which are printed to standard error."""
    kind: ViewKind = ViewKind.OTHER


def target_and_data_facts(results: Sequence[Result]) -> list[tuple[str, str]]:
    """Return the target and the data set of results as labeled lines.

    If the results have different data sets, the names are joined, as in `ml-demo or ml-20m`.
    """

    def data_set(result: Result) -> str:
        is_unknown = result.profile or result.division == "open"
        return clean(result.dataset, 60) or ("unknown" if is_unknown else "of the rules")

    reaching = [result for result in results if result.to_target]
    targets = dict.fromkeys(
        target_text(result.targets, result.workload, result.falling_metrics) or "unknown"
        for result in reaching
    )
    parts = {"Target": targets, "Data set": dict.fromkeys(data_set(result) for result in results)}
    return [(name, clean(" or ".join(texts), 300)) for name, texts in parts.items() if texts]


def target_and_data_text(results: Sequence[Result]) -> str:
    """Describe the target and the data set of results.

    Example: `target hit rate at 10 ≥ 0.635, data set ml-demo`.
    """
    return ", ".join(f"{name.lower()} {text}" for name, text in target_and_data_facts(results))


def result_labels(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """Return the labels that distinguish each result.

    Labels that all results share are omitted.
    """
    shared = shared_labels(results)
    return [tuple(label for label in labels(result) if label not in shared) for result in results]


def with_error(value: float, error: float | None, unit: float) -> str:
    """Format a value and its standard error, as in `41 ± 3`.

    Both numbers are multiplied by `unit`.
    """
    return figure_text(value * unit) + (
        "" if error is None else f" ± {figure_text(error * unit, 2)}"
    )
