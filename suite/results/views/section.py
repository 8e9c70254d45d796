"""The form of every view: sections with a table and sentences, and the numbers behind them for files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

NOT_VERIFIED = "Not verified by MLCommons Association."


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


@dataclass(frozen=True)
class View:
    """Everything that a command says."""

    title: str
    sections: tuple[Section, ...]
    data: pd.DataFrame
    """The same in full, raw, for CSV, JSON and parquet: units are in the names of the columns."""
    above: tuple[str, ...] = (NOT_VERIFIED,)


def frame_of(found: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()) -> pd.DataFrame:
    """A table of mappings in their order; `columns` for an empty one. Whole numbers that are not known stay whole."""
    import pandas as pd

    listed = [dict(row) for row in found]
    names = list(dict.fromkeys(name for row in listed for name in row)) or list(columns)
    return pd.DataFrame({name: _column([row.get(name) for row in listed]) for name in names})


def _column(values: Sequence[Any]) -> pd.Series[Any]:
    import pandas as pd

    told = [value for value in values if value is not None]
    if told and all(type(value) is int for value in told):
        return pd.Series(list(values), dtype="Int64")
    if told and all(type(value) in (int, float) for value in told):
        return pd.Series(list(values), dtype="float64")
    return pd.Series(list(values), dtype="object")


def without_empty(table: pd.DataFrame, keep: Sequence[str] = ()) -> pd.DataFrame:
    """The table without columns in which nothing is known."""
    empty = [
        name for name in table.columns if name not in keep and all(_is_empty(value) for value in table[name].tolist())
    ]
    return table.drop(columns=empty)


def _is_empty(value: Any) -> bool:
    import pandas as pd

    return value is None or value is pd.NA or value != value or (isinstance(value, (str, tuple)) and not value)
