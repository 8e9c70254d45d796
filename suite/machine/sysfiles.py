"""Reading the small files of /proc and /sys, some of which are missing on every machine."""

from __future__ import annotations

import contextlib
from pathlib import Path


def text(path: Path) -> str | None:
    """The content without surrounding white space; None for a file that cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def number(path: Path) -> int | None:
    """The whole number that the file holds; None if it holds none or cannot be read."""
    with contextlib.suppress(ValueError):
        return int(text(path) or "")
    return None
