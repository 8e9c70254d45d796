"""Text for a terminal: what comes from a file may hold escapes that a terminal obeys."""

from __future__ import annotations

from workloads.files import printable


def clean_lines(text: str) -> str:
    """Return lines of text with spaces for control and formatting characters, line ends excepted."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))
