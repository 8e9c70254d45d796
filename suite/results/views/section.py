"""The form of every view: sections with a table and sentences, the numbers behind them for files; what views share."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from suite.results.columns import Result, Row
from suite.results.scores import labels, shared_labels
from suite.results.targets import targets_told
from suite.results.text import clean, figure_text

if TYPE_CHECKING:
    import pandas as pd

NOT_VERIFIED = "Not verified by MLCommons Association."
DEVICES_NOT_KNOWN = "the number of devices is not known; it is a CPU system, or system.json is missing above its logs"
"""Why a result of another program cannot be compared by its number of devices."""


@dataclass(frozen=True)
class Section:
    """A heading, sentences, a table, sentences; all as plain text, nothing escaped."""

    title: str = ""
    above: tuple[str, ...] = ()
    """Paragraphs before the table."""
    table: pd.DataFrame | None = None
    """Columns as suite.results.render.tables shows them; a column `notes` (tuples of texts) becomes footnotes."""
    commands: tuple[str, ...] = ()
    """What to type, after the table: shown as it is, never broken over lines. Texts of logs in it must be quoted."""
    below: tuple[str, ...] = ()
    """Bullets at the end."""
    keys: int = 1
    """So many first columns name a row: a table that is too wide repeats them."""
    of: tuple[tuple[Row, ...], ...] = ()
    """Of each row of the table the runs or results that it tells of: filters of a page go by them."""
    pieces: tuple[tuple[str, tuple[Row, ...]], ...] = ()
    """The first paragraph in pieces, each with what it is of (nothing: of all), for the same."""


class ViewKind(enum.Enum):
    """Kind of a view, for code that decides by it."""

    COMPARISON = "comparison"
    """Ratios between two sets of results."""
    CONVERGENCE = "convergence"
    """Epochs to target against those of published results, without a second set."""
    OTHER = "other"


@dataclass(frozen=True)
class View:
    """Everything that a command says."""

    title: str
    sections: tuple[Section, ...]
    data: pd.DataFrame
    """The same in full, raw, for CSV, JSON and parquet: units are in the names of the columns."""
    above: tuple[str, ...] = (NOT_VERIFIED,)
    notes: tuple[str, ...] = ()
    """Messages about the options of the command, for standard error."""
    kind: ViewKind = ViewKind.OTHER


def frame_of(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()) -> pd.DataFrame:
    """A table of mappings in their order; `columns` for an empty one. Whole numbers that are not known stay whole."""
    import pandas as pd

    def dtype(values: Iterable[Any]) -> str:
        kinds = {type(value) for value in values if value is not None}
        return "Int64" if kinds == {int} else "float64" if kinds and kinds <= {int, float} else "object"

    listed = [dict(row) for row in rows]
    names = dict.fromkeys(name for row in listed for name in row) or columns
    made = {name: [row.get(name) for row in listed] for name in names}
    return pd.DataFrame({name: pd.Series(values, dtype=dtype(values)) for name, values in made.items()})


def without_empty(table: pd.DataFrame, keep: Sequence[str] = ()) -> pd.DataFrame:
    """The table without columns in which nothing is known."""
    filled = [name for name in table if any(value not in ("", ()) for value in table[name].dropna().tolist())]
    return table[[name for name in table if name in keep or name in filled]]


def aim_text(rows: Sequence[Result]) -> str:
    """What times are of, `target hit rate at 10 ≥ 0.635 · data set ml-demo`; where rows differ, each: `ml-demo or ml-20m`."""

    def data_set(row: Result) -> str:
        return clean(row.dataset, 60) or ("not known" if row.profile or row.division == "open" else "of the rules")

    targets = dict.fromkeys(targets_told(row.targets, row.workload) or "not known" for row in rows if row.to_target)
    parts = {"target": targets, "data set": dict.fromkeys(map(data_set, rows))}
    return " · ".join(f"{name} {clean(' or '.join(texts), 300)}" for name, texts in parts.items() if texts)


def own_labels(rows: Sequence[Result]) -> list[tuple[str, ...]]:
    """Of each row the labels that not all have."""
    shared = shared_labels(rows)
    return [tuple(label for label in labels(row) if label not in shared) for row in rows]


def with_error(value: float, error: float | None, unit: float) -> str:
    """A figure and its standard error in a unit, `41 ± 3`: both are multiplied by it."""
    return figure_text(value * unit) + ("" if error is None else f" ± {figure_text(error * unit, 2)}")
