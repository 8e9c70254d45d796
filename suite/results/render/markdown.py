"""Markdown tables that also read well in a terminal: padded columns, at most 120 characters wide, nothing lost."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

EMPTY = "–"
"""A cell without content."""
WIDTH = 120
"""Most characters of a line of a table."""
_LONG_CELLS = (28, 20, 14)
"""Where a table is too wide, longer cells are cut and written in full below it; shorter ones only if its keys leave no room."""
_BEGINS_A_BLOCK = re.compile(r"^( *)(#{1,6} |>|[-+*] |[-=]+$)")
"""Text that would be a heading, a quotation or a list where a broken line happens to begin with it."""
_BROKEN_ESCAPE = re.compile(r"(\\|&[a-z]{0,3})$")


def markdown_table(
    header: Sequence[str], body: Sequence[Sequence[str]], right_aligned: Sequence[bool], keys: int = 1
) -> str:
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
    first, *others = textwrap.wrap(
        line, WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    ) or [""]
    return [first, *(_BEGINS_A_BLOCK.sub(r"\1\\\2", other) for other in others)]


def fits(header: Sequence[str], body: Sequence[Sequence[str]], right_aligned: Sequence[bool]) -> bool:
    """True if one table, with long texts cut, is narrow enough."""
    return _total(_widths(header, _cut_cells(header, body, right_aligned, _LONG_CELLS[0])[0])) <= WIDTH


def _widths(header: Sequence[str], body: Sequence[Sequence[str]]) -> list[int]:
    return [max(3, *(len(row[i]) for row in (header, *body))) for i in range(len(header))]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + 3 * len(widths) + 1


def _fitting_cells(
    header: Sequence[str], body: Sequence[Sequence[str]], right_aligned: Sequence[bool], keys: int
) -> tuple[list[list[str]], list[str]]:
    """(the cells, cut only where that makes one table of several or where a table has no room beside its keys, notes)."""
    whole = [list(row) for row in body]
    if not fits(header, body, right_aligned) and _has_room(_widths(header, whole), keys):
        return whole, []
    for limit in _LONG_CELLS:
        cells, notes = _cut_cells(header, body, right_aligned, limit)
        if _has_room(_widths(header, cells), keys):
            break
    return cells, notes


def _has_room(widths: Sequence[int], keys: int) -> bool:
    """True if every column fits beside the keys."""
    return _total([*widths[:keys], *([max(widths[keys:])] if len(widths) > keys else [])]) <= WIDTH


def _cut_cells(
    header: Sequence[str], body: Sequence[Sequence[str]], right_aligned: Sequence[bool], limit: int
) -> tuple[list[list[str]], list[str]]:
    """(the cells, texts longer than `limit` cut in the widest columns as far as needed, the whole texts with their numbers)."""
    cells, whole = [list(row) for row in body], list[str]()
    widths = _widths(header, cells)
    texts = (column for column in range(len(header)) if not right_aligned[column])
    for column in sorted(texts, key=lambda index: -widths[index]):
        if _total(widths) <= WIDTH or widths[column] <= limit:
            break
        for row in cells:
            if len(row[column]) > limit:
                if row[column] not in whole:
                    whole.append(row[column])
                mark = f"… ({whole.index(row[column]) + 1})"
                row[column] = _BROKEN_ESCAPE.sub("", row[column][: limit - len(mark)]).rstrip() + mark
        widths = _widths(header, cells)
    notes = [
        line
        for number, text in enumerate(whole, start=1)
        for line in textwrap.wrap(f"({number}) {text}", WIDTH, subsequent_indent="    ", break_on_hyphens=False)
    ]
    return cells, notes


def _parts(widths: Sequence[int], keys: int) -> list[list[int]]:
    """The columns of each table: all in one if there is room, else as many as fit beside the first `keys` columns."""
    first = list(range(keys))
    parts = [list(first)]
    for column in range(keys, len(widths)):
        if len(parts[-1]) > keys and _total([widths[i] for i in (*parts[-1], column)]) > WIDTH:
            parts.append(list(first))
        parts[-1].append(column)
    return parts


def _table(header: Sequence[str], body: Sequence[Sequence[str]], right_aligned: Sequence[bool]) -> str:
    widths = _widths(header, body)

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(cells, widths, right_aligned, strict=True)
        ]
        return "| " + " | ".join(padded) + " |"

    rule = [
        ("-" * (width - 1) + ":") if flush else "-" * width for width, flush in zip(widths, right_aligned, strict=True)
    ]
    return "\n".join([line(header), line(rule), *(line(row) for row in body)])
