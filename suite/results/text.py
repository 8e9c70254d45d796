"""Cleans and escapes text for terminals, Markdown cells and CSV cells: text from logs is not trusted."""

from __future__ import annotations

import unicodedata

_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories that would move the cursor, reorder the line, or cannot be encoded."""
_MARKDOWN = {"\\": "\\\\", "|": "\\|", "`": "\\`", "[": "\\[", "<": "&lt;", "&": "&amp;"}


def clean(text: str, limit: int = 200) -> str:
    """`text` as one printable line of at most `limit` characters: controls become spaces, the rest of the line `…`."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(" " if unicodedata.category(letter) in _INVISIBLE else letter for letter in cut).strip()


def markdown_cell(text: str, limit: int = 80) -> str:
    """`text` for a Markdown table cell: one line, with everything escaped that would end the cell or make markup."""
    return markdown_escape(clean(text, limit))


def markdown_escape(text: str) -> str:
    """Clean text with everything escaped that would end a Markdown table cell or make markup."""
    return "".join(_MARKDOWN.get(letter, letter) for letter in text)


def csv_cell(text: str) -> str:
    """`text` for a CSV cell: one line, and never a formula for a spreadsheet."""
    cell = clean(text, 1000)
    return "'" + cell if cell.startswith(("=", "+", "-", "@")) else cell


def devices_text(devices: int) -> str:
    """A number of devices as text: `1 device`, `8 devices`."""
    return f"{devices} device" if devices == 1 else f"{devices} devices"
