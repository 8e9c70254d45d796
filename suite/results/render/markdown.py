"""Format Markdown tables for a terminal.

The columns are padded, and a line has at most 120 characters. Long cells are cut, and their full
texts follow the table.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

EMPTY = "–"
"""Text of a cell without a value."""
WIDTH = 120
"""Maximum number of characters of a line."""
_CELL_LIMITS = (28, 20, 14)
"""Maximum numbers of characters of a cell in a table that is too wide. Longer cells are cut, and
their full texts follow the table. The smaller limits apply only if the key columns leave no
space for another column.
"""
_BLOCK_START = re.compile(r"^( *)(#{1,6} |>|[-+*] |[-=]+$)")
"""Text that would start a heading, a quotation, or a list if a wrapped line began with it."""
_CUT_ESCAPE = re.compile(r"(\\|&[a-z]{0,3})$")
Cells = Sequence[Sequence[str]]


def markdown_table(
    header: Sequence[str], body: Cells, right_aligned: Sequence[bool], keys: int = 1
) -> str:
    """Return a Markdown table with padded columns.

    If a table is wider than WIDTH, its long cells are cut. Each cut cell has a number, and the full
    texts follow the table. If the table is still too wide, it is split by columns into several
    tables. Each of these tables repeats the key columns and omits empty rows.

    Args:
        header: Escaped headings.
        body: Escaped cells of each row.
        right_aligned: True for each right-aligned column.
        keys: Number of leading columns that identify a row.
    """
    keys = min(keys, len(header))
    cells, notes = _fitting_cells(header, body, right_aligned, keys)
    parts = _columns_of_parts(_widths(header, cells), keys)
    blocks = []
    for columns in parts:
        rows = [[row[column] for column in columns] for row in cells]
        if len(parts) > 1:
            rows = [
                row for row in rows if any(cell not in ("", EMPTY) for cell in row[keys:])
            ] or rows
        blocks.append(
            _table(
                [header[column] for column in columns],
                rows,
                [right_aligned[column] for column in columns],
            )
        )
    if notes:
        blocks.append("\n".join(notes))
    return "\n\n".join(blocks)


def wrap_document(document: str) -> str:
    """Wrap the text of a document at WIDTH characters.

    Headings, table rows, and commands are not wrapped.
    """
    return "\n".join(part for line in document.split("\n") for part in _wrap_line(line))


def _wrap_line(line: str) -> list[str]:
    if len(line) <= WIDTH or line.startswith(("|", "#", "    ")):
        return [line]
    indent = "  " if line.startswith("- ") else ""
    parts = textwrap.wrap(
        line, WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )
    return [*parts[:1], *(_BLOCK_START.sub(r"\1\\\2", part) for part in parts[1:])]


def _widths(header: Sequence[str], body: Cells) -> list[int]:
    """Return the width of each column in characters. The minimum width is three."""
    return [max(3, *map(len, column)) for column in zip(header, *body, strict=True)]


def _total_width(widths: Sequence[int]) -> int:
    return sum(widths) + 3 * len(widths) + 1


def _fitting_cells(
    header: Sequence[str], body: Cells, right_aligned: Sequence[bool], keys: int
) -> tuple[Cells, list[str]]:
    """Return the cells of a table, some of which are cut, and the full texts of cut cells.

    Cells are cut only if this makes the table fit WIDTH, or if the key columns leave no space for
    another column.
    """
    candidates = [_cut_cells(header, body, right_aligned, limit) for limit in _CELL_LIMITS]
    if _total_width(_widths(header, candidates[0][0])) <= WIDTH:
        return candidates[0]
    uncut: tuple[Cells, list[str]] = (body, [])
    for cells, notes in (uncut, *candidates):
        widths = _widths(header, cells)
        widest = sorted(widths[keys:])[-1:]
        if _total_width([*widths[:keys], *widest]) <= WIDTH:
            return cells, notes
    return candidates[-1]


def _cut_cells(
    header: Sequence[str], body: Cells, right_aligned: Sequence[bool], limit: int
) -> tuple[Cells, list[str]]:
    """Cut cells to `limit` characters.

    Only as many columns as necessary are cut, beginning with the widest column.

    Returns:
        The cells, and the full texts of the cut cells.
    """
    cells = [list(row) for row in body]
    whole_texts: list[str] = []
    widths = _widths(header, cells)
    text_columns = [column for column in range(len(header)) if not right_aligned[column]]
    for column in sorted(text_columns, key=lambda index: -widths[index]):
        if _total_width(_widths(header, cells)) <= WIDTH or widths[column] <= limit:
            break
        for row in cells:
            text = row[column]
            if len(text) > limit:
                if text not in whole_texts:
                    whole_texts.append(text)
                mark = f"… ({whole_texts.index(text) + 1})"
                row[column] = _CUT_ESCAPE.sub("", text[: limit - len(mark)]).rstrip() + mark
    lines: list[str] = []
    for number, text in enumerate(whole_texts, start=1):
        lines += textwrap.wrap(
            f"({number}) {text}", WIDTH, subsequent_indent="    ", break_on_hyphens=False
        )
    return cells, lines


def _columns_of_parts(widths: Sequence[int], keys: int) -> list[list[int]]:
    """Split the columns of a table that is too wide, and return the columns of each table.

    Each table contains the key columns and as many further columns as fit.
    """
    parts = [[*range(keys)]]
    for column in range(keys, len(widths)):
        has_columns = len(parts[-1]) > keys
        if has_columns and _total_width([widths[index] for index in (*parts[-1], column)]) > WIDTH:
            parts.append([*range(keys)])
        parts[-1].append(column)
    return parts


def _table(header: Sequence[str], body: Cells, right_aligned: Sequence[bool]) -> str:
    columns = list(zip(_widths(header, body), right_aligned, strict=True))
    row = (
        "| " + " | ".join(f"{{:{'>' if right else '<'}{width}}}" for width, right in columns) + " |"
    )
    rule = ["-" * (width - 1) + ":" if right else "-" * width for width, right in columns]
    return "\n".join(row.format(*cells) for cells in (header, rule, *body))
