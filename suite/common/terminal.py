"""Makes text safe for a terminal.

Text from a file may contain escape sequences that a terminal executes.
"""

from __future__ import annotations

from workloads.files import printable


def clean_lines(text: str) -> str:
    """Return the text with control and formatting characters replaced by spaces.

    Line ends are kept.
    """
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))
