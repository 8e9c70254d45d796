"""A whole view as Markdown, CSV, JSON or parquet."""

from __future__ import annotations

import io
import json

from suite.results.render.markdown import markdown_table, wrapped
from suite.results.render.tables import text_table
from suite.results.table import shareable
from suite.results.text import clean, csv_cell, markdown_escape
from suite.results.views.section import NOT_VERIFIED, Section, View

FORMATS = ("markdown", "csv", "json", "parquet")


def document(view: View, form: str = "markdown") -> str | bytes:
    """The view in one of FORMATS; parquet is bytes."""
    if form == "markdown":
        return markdown(view)
    data = shareable(view.data.to_frame())
    if form == "parquet":
        stream = io.BytesIO()
        data.to_parquet(stream, index=False)
        return stream.getvalue()
    if form == "json":
        whole = {"title": view.title, "verification": NOT_VERIFIED, "rows": json.loads(data.to_json(orient="records"))}
        return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    data = data.map(lambda value: csv_cell(value) if isinstance(value, str) else value)
    return str(data.to_csv(index=False, lineterminator="\n"))


def markdown(view: View) -> str:
    """The view as Markdown that reads well in a terminal."""
    parts = [f"# {_line(view.title)}", *map(_line, view.above)]
    parts += [section_markdown(section) for section in view.sections]
    return wrapped("\n\n".join(part for part in parts if part)) + "\n"


def section_markdown(section: Section) -> str:
    """A section: heading, paragraphs, table, footnotes, bullets."""
    parts = [f"## {_line(section.title)}"] if section.title else []
    parts += [_line(text) for text in section.above if text]
    parts.append("\n".join(f"- {_line(name)}: {_line(text)}" for name, text in section.facts))
    if section.table is not None and len(section.table):
        table = text_table(section.table, section.keys)
        body = [[markdown_escape(cell) for cell in cells] for cells in table.body]
        header = [markdown_escape(name) for name in table.header]
        footnotes = "\n".join(map(markdown_escape, table.footnotes))
        parts += [markdown_table(header, body, table.right_aligned, section.keys), footnotes]
    parts.append("\n".join(f"    {clean(command, 4000)}" for command in section.commands))
    parts.append("\n".join(f"- {_line(text)}" for text in section.below if text))
    return "\n\n".join(part for part in parts if part)


def _line(text: str) -> str:
    """A sentence may hold what a log says: one line, and nothing that a terminal obeys."""
    return markdown_escape(clean(text, 4000))
