"""Renders a view as Markdown, CSV, JSON, or Parquet."""

from __future__ import annotations

import io
import json

from suite.results.render.markdown import markdown_table, wrap_document
from suite.results.render.text_table import text_table
from suite.results.table import shareable
from suite.results.text import clean, csv_cell, markdown_escape
from suite.results.views.section import NOT_VERIFIED, Section, View

FORMATS = ("markdown", "csv", "json", "parquet")
_MAX_TEXT = 4_000
"""Maximum number of characters in a sentence or a command of a rendered view."""


def document(view: View, form: str = "markdown") -> str | bytes:
    """Render a view in one of FORMATS.

    Parquet is returned as bytes, and all other formats as a string.
    """
    if form == "markdown":
        return markdown(view)
    data = shareable(view.data.to_frame())
    if form == "parquet":
        stream = io.BytesIO()
        data.to_parquet(stream, index=False)
        return stream.getvalue()
    if form == "json":
        rows = json.loads(data.to_json(orient="records"))
        whole = {"title": view.title, "verification": NOT_VERIFIED, "rows": rows}
        return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    data = data.map(lambda value: csv_cell(value) if isinstance(value, str) else value)
    return str(data.to_csv(index=False, lineterminator="\n"))


def markdown(view: View) -> str:
    """Return a view as Markdown that is readable in a terminal."""
    parts = [f"# {_line(view.title)}", *map(_line, view.above)]
    parts += [section_markdown(section) for section in view.sections]
    return wrap_document("\n\n".join(part for part in parts if part)) + "\n"


def section_markdown(section: Section) -> str:
    """Return a section as Markdown.

    A section has a heading, paragraphs, labeled lines, a table, footnotes, commands, and bullets.
    """
    parts = []
    if section.title:
        parts.append(f"## {_line(section.title)}")
    parts += [_line(text) for text in section.above if text]
    parts.append("\n".join(f"- {_line(name)}: {_line(text)}" for name, text in section.facts))
    if section.table is not None and len(section.table):
        table = text_table(section.table, section.keys)
        body = [[markdown_escape(cell) for cell in cells] for cells in table.body]
        header = [markdown_escape(name) for name in table.header]
        parts.append(markdown_table(header, body, table.right_aligned, section.keys))
        parts.append("\n".join(map(markdown_escape, table.footnotes)))
    parts.append("\n".join(f"    {clean(command, _MAX_TEXT)}" for command in section.commands))
    parts.append("\n".join(f"- {_line(text)}" for text in section.below if text))
    return "\n\n".join(part for part in parts if part)


def _line(text: str) -> str:
    """Escape a sentence as a single line without control characters.

    The sentence may contain text from untrusted logs.
    """
    return markdown_escape(clean(text, _MAX_TEXT))
