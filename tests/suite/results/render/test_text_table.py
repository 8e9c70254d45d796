"""Cells of a text table: optionally, all numbers of a column have the same unit and decimals."""

import pytest

from suite.results.data_table import DataTable
from suite.results.render.text_table import text_table


@pytest.mark.parametrize(
    ("name", "values", "shown"),
    [
        ("samples_per_second", (34.8, 127.4, None, 437.0), ("35", "127", "–", "437")),
        # Numbers of very different sizes keep their digits.
        ("samples_per_second", (0.0443, 7703.0), ("0.0443", "7,703")),
        ("seconds", (104.3, 513.6), ("1.74 min", "8.56 min")),
        ("seconds", (4.6, 5.75), ("4.6 s", "5.8 s")),
        ("speedup", (1.5, 2.25), ("1.50", "2.25")),
    ],
)
def test_numbers_of_similar_size_have_the_same_unit_and_decimals(name, values, shown):
    table = DataTable.from_rows({"row": str(at), name: value} for at, value in enumerate(values))
    assert tuple(cells[1] for cells in text_table(table, same_units=True).body) == shown
