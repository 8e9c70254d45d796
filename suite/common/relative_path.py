"""Paths as messages show them: relative to the working directory if they lie below it."""

from __future__ import annotations

from pathlib import Path


def relative_path(path: Path) -> str:
    """Return the path relative to the working directory, or unchanged if it does not lie below the
    working directory.
    """
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except (ValueError, OSError):  # OSError: the working directory was deleted
        return str(path)
