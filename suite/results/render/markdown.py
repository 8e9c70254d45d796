"""Markdown tables that also read well in a terminal: padded columns, at most 120 characters wide, nothing lost."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

EMPTY = "–"  # A cell without content
WIDTH = 120  # Most characters of a line of a table
_LONG_CELLS = (28, 20, 14)
"""Where a table is too wide, longer cells are cut and written in full below it; shorter ones only if its keys leave no room."""
_BEGINS_A_BLOCK = re.compile(r"^( *)(#{1,6} |>|[-+*] |[-=]+$)")
"""Text that would be a heading, a quotation or a list where a broken line happens to begin with it."""
_BROKEN_ESCAPE = re.compile(r"(\\|&[a-z]{0,3})$")
Cells = Sequence[Sequence[str]]


def markdown_table(header: Sequence[str], body: Cells, right_aligned: Sequence[bool], keys: int = 1) -> str:
    """A Markdown table with padded columns; `right_aligned[i]` aligns column i to the right. Cells must be escaped already.

    In a table of more than WIDTH characters long texts are cut, each with a number and the whole text below; if that is not
    enough, its columns go on in further tables, which repeat the first `keys` columns and leave out rows without content.
    """
    keys = min(keys, len(header))
    cells, notes = _fitting_cells(header, body, right_aligned, keys)
    parts = _parts(_widths(header, cells), keys)
    tables = []
    for part in parts:
        rows = [[row[i] for i in part] for row in cells]
        if len(parts) > 1:
            rows = [row for row in rows if any(cell not in ("", EMPTY) for cell in row[keys:])] or rows
        tables.append(_table([header[i] for i in part], rows, [right_aligned[i] for i in part]))
    return "\n\n".join([*tables, *(["\n".join(notes)] if notes else [])])


def wrapped(document: str) -> str:
    """The document with lines of text of at most WIDTH characters; headings, table rows and commands stay as they are."""
    return "\n".join(part for line in document.split("\n") for part in _wrapped_line(line))


def _wrapped_line(line: str) -> list[str]:
    if len(line) <= WIDTH or line.startswith(("|", "#", "    ")):
        return [line]
    indent = "  " if line.startswith("- ") else ""
    parts = textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
    return [*parts[:1], *(_BEGINS_A_BLOCK.sub(r"\1\\\2", other) for other in parts[1:])]


def _widths(header: Sequence[str], body: Cells) -> list[int]:
    return [max(3, *map(len, column)) for column in zip(header, *body, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + 3 * len(widths) + 1


def _fitting_cells(
    header: Sequence[str], body: Cells, right_aligned: Sequence[bool], keys: int
) -> tuple[Cells, list[str]]:
    """(the cells, cut only where that makes one table of several or where a table has no room beside its keys, notes)."""
    cut = [_cut_cells(header, body, right_aligned, limit) for limit in _LONG_CELLS]
    if _total(_widths(header, cut[0][0])) <= WIDTH:
        return cut[0]
    for cells in ((body, list[str]()), *cut):
        widths = _widths(header, cells[0])
        if _total([*widths[:keys], *sorted(widths[keys:])[-1:]]) <= WIDTH:  # every column fits beside the keys
            return cells
    return cut[-1]


def _cut_cells(
    header: Sequence[str], body: Cells, right_aligned: Sequence[bool], limit: int
) -> tuple[Cells, list[str]]:
    """(the cells, texts longer than `limit` cut in the widest columns as far as needed, the whole texts with their numbers)."""
    cells, whole = [list(row) for row in body], list[str]()
    widths = _widths(header, cells)
    texts = (column for column in range(len(header)) if not right_aligned[column])
    for column in sorted(texts, key=lambda index: -widths[index]):
        if _total(_widths(header, cells)) <= WIDTH or widths[column] <= limit:
            break
        for row in cells:
            if len(row[column]) > limit:
                whole += [] if row[column] in whole else [row[column]]
                mark = f"… ({whole.index(row[column]) + 1})"
                row[column] = _BROKEN_ESCAPE.sub("", row[column][: limit - len(mark)]).rstrip() + mark
    notes = (f"({number}) {text}" for number, text in enumerate(whole, start=1))
    wraps = (textwrap.wrap(note, WIDTH, subsequent_indent="    ", break_on_hyphens=False) for note in notes)
    return cells, [line for lines in wraps for line in lines]


def _parts(widths: Sequence[int], keys: int) -> list[list[int]]:
    """The columns of each table: all in one if there is room, else as many as fit beside the first `keys` columns."""
    parts = [[*range(keys)]]
    for column in range(keys, len(widths)):
        if len(parts[-1]) > keys and _total([widths[i] for i in (*parts[-1], column)]) > WIDTH:
            parts.append([*range(keys)])
        parts[-1].append(column)
    return parts


def _table(header: Sequence[str], body: Cells, right_aligned: Sequence[bool]) -> str:
    columns = list(zip(_widths(header, body), right_aligned, strict=True))
    row = "| " + " | ".join(f"{{:{'>' if flush else '<'}{width}}}" for width, flush in columns) + " |"
    rule = ["-" * (width - flush) + ":" * flush for width, flush in columns]
    return "\n".join(row.format(*cells) for cells in (header, rule, *body))
