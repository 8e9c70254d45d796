"""Shorten paths in messages: a path below the working directory becomes relative."""

from __future__ import annotations

from pathlib import Path


def relative_path(path: Path) -> str:
    """Return the path relative to the working directory.

    A path outside the working directory is returned unchanged.
    """
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except (ValueError, OSError):  # OSError: the working directory was deleted
        return str(path)
