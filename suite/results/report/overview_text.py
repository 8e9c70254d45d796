"""The matrices of an overview as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from suite.results.report.markdown import markdown_table, wrapped
from suite.results.report.overview import Cell, Matrix
from suite.results.report.tables import DASH, Footnotes
from suite.results.text import markdown_escape


def matrix_markdown(matrix: Matrix) -> str:
    """A matrix as a section in Markdown; labels that differ between cells become footnotes, costs a table of their own."""
    footnotes = Footnotes()
    labels = [f"every result: {', '.join(matrix.labels)}"] if matrix.labels else []
    above = markdown_escape(" · ".join([*matrix.constants, *labels]))
    times = _matrix_table(matrix, lambda cell: _cell_text(cell, footnotes))
    costs = _matrix_table(matrix, lambda cell: cell.cost) if any(cell.cost for cell in _cells(matrix)) else ""
    parts = [f"## {markdown_escape(matrix.title)}", above, times]
    parts += ["Cost of one result:", costs] if costs else []
    below = "\n".join(map(markdown_escape, (*matrix.footer, *footnotes.lines())))
    return wrapped("\n\n".join(part for part in (*parts, below) if part))


def _cells(matrix: Matrix) -> Iterator[Cell]:
    return (cell for _, cells in matrix.rows for cell in cells if cell is not None)


def _matrix_table(matrix: Matrix, text: Callable[[Cell], str]) -> str:
    header = [*matrix.names, *map(markdown_escape, matrix.columns)]
    right = [*(name in ("devices", "accelerators") for name in matrix.names), *(True for _ in matrix.columns)]
    body = [
        [
            *map(markdown_escape, names),
            *(DASH if cell is None else markdown_escape(text(cell)) or DASH for cell in cells),
        ]
        for names, cells in matrix.rows
    ]
    return markdown_table(header, body, right, keys=len(matrix.names))


def _cell_text(cell: Cell, footnotes: Footnotes) -> str:
    return " ".join(text for text in (cell.value, cell.speedup, *map(footnotes.mark, cell.labels)) if text)
