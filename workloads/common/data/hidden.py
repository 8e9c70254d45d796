"""Files and folders that an operating system or a tool leaves among data, and that are not part of the data set."""

from __future__ import annotations

from pathlib import PurePath

_LEFT_BY_SYSTEMS = frozenset(
    ("__macosx", "thumbs.db", "desktop.ini", "$recycle.bin", "system volume information", "lost+found", "@eadir")
)
"""Names, in lower case, that do not begin with a dot: archives of macOS, Windows, file systems of Linux, Synology."""


def is_hidden(name: str) -> bool:
    """Return whether a file or folder of this name is not data: `.ipynb_checkpoints`, `._a.jpg`, `__MACOSX`, `Thumbs.db`."""
    return (name.startswith(".") and name not in (".", "..")) or name.lower() in _LEFT_BY_SYSTEMS


def is_hidden_path(path: PurePath | str) -> bool:
    """Return whether a path, such as the name of an archive's member, is hidden or lies in a hidden folder."""
    return any(is_hidden(part) for part in PurePath(path).parts)
