"""Table of a report view, with named columns and rows of Python values.

A table is converted to a DataFrame only for writing files.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # Importing pandas takes 0.5 s.
    import pandas as pd


@dataclass(frozen=True)
class DataTable:
    """Table as a list of rows with named columns.

    Each row has a value for each column. Unknown values are None.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()) -> DataTable:
        """Build a table from mappings of column name to value.

        If a mapping lacks a column, the value in this row is None.

        Args:
            rows: The rows. The columns of the table have the order in which they first occur in the
                rows.
            columns: Column names of a table without rows.
        """
        listed = [dict(row) for row in rows]
        names = tuple(dict.fromkeys(name for row in listed for name in row)) or tuple(columns)
        values = [_normalized([row.get(name) for row in listed]) for name in names]
        return cls(names, tuple(zip(*values, strict=True)) if names else ((),) * len(listed))

    @classmethod
    def from_frame(cls, frame: pd.DataFrame) -> DataTable:
        """Build a table from a DataFrame."""
        lists = {
            str(name): frame[name].astype(object).where(frame[name].notna(), None).tolist()
            for name in frame
        }
        return cls(tuple(lists), tuple(zip(*lists.values(), strict=True)))

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterate over the rows as mappings of column name to value."""
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def values(self, name: str) -> list[Any]:
        """Return the values of a column."""
        index = self.columns.index(name)
        return [row[index] for row in self.rows]

    def only(self, names: Iterable[str]) -> DataTable:
        """Return the table with only the columns `names`, in this order.

        Names that are not columns of the table are ignored.
        """
        kept = [name for name in names if name in self.columns]
        indices = [self.columns.index(name) for name in kept]
        return DataTable(
            tuple(kept), tuple(tuple(row[index] for index in indices) for row in self.rows)
        )

    def without(self, *names: str) -> DataTable:
        """Return the table without the columns `names`.

        Names that are not columns of the table are ignored.
        """
        return self.only(name for name in self.columns if name not in names)

    def without_empty(self, keep: Iterable[str] = ()) -> DataTable:
        """Return the table without the columns that are None or empty in all rows.

        Columns in `keep` are never removed.
        """
        kept = {*keep}
        return self.only(
            name
            for name in self.columns
            if name in kept
            or any(value is not None and value not in ("", ()) for value in self.values(name))
        )

    def renamed(self, names: Mapping[str, str]) -> DataTable:
        """Return the table with some columns renamed."""
        return DataTable(tuple(names.get(name, name) for name in self.columns), self.rows)

    def with_column(self, name: str, values: Sequence[Any]) -> DataTable:
        """Return the table with a replaced or appended column."""
        lists = {column: self.values(column) for column in self.columns}
        lists[name] = list(values)
        return DataTable(tuple(lists), tuple(zip(*lists.values(), strict=True)))

    def head(self, count: int) -> DataTable:
        """Return a table with the first `count` rows."""
        return DataTable(self.columns, self.rows[:count])

    def to_frame(self) -> pd.DataFrame:
        """Return the table as a DataFrame.

        Integer columns that contain None have a nullable integer dtype.
        """
        import pandas as pd

        def dtype(values: Iterable[Any]) -> str:
            kinds = {type(value) for value in values if value is not None}
            return "Int64" if kinds == {int} else "float64" if kinds == {float} else "object"

        lists = {name: self.values(name) for name in self.columns}
        return pd.DataFrame(
            {name: pd.Series(values, dtype=dtype(values)) for name, values in lists.items()}
        )


def _normalized(values: list[Any]) -> list[Any]:
    """Return the values of a column, with NaN replaced by None.

    All numbers are converted to floats if any number is a float.
    """
    without_nan = [
        None if isinstance(value, float) and math.isnan(value) else value for value in values
    ]
    if {type(value) for value in without_nan if value is not None} == {int, float}:
        return [None if value is None else float(value) for value in without_nan]
    return without_nan
