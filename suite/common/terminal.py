"""Makes text safe for a terminal, because text from a file may contain escape sequences that a
terminal executes.
"""

from __future__ import annotations

from workloads.files import printable


def clean_lines(text: str) -> str:
    """Return the text with control and formatting characters, except line ends, replaced by spaces."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))
