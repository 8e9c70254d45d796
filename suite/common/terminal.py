"""Sanitize text for output to a terminal.

Text from files may contain escape sequences, which the terminal would execute.
"""

from __future__ import annotations

from workloads.files import printable


def clean_lines(text: str) -> str:
    """Return the text with control and formatting characters replaced by spaces.

    Line breaks are kept.
    """
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))
