"""Hidden files and folders that operating systems or tools create in data folders.

Data sets do not include hidden files.
"""

from __future__ import annotations

from pathlib import PurePath

_LEFT_BY_SYSTEMS = frozenset(
    (
        "__macosx",
        "thumbs.db",
        "desktop.ini",
        "$recycle.bin",
        "system volume information",
        "lost+found",
        "@eadir",
    )
)
"""Lower-case names of hidden files and folders that do not begin with a dot.

These names occur in archives created on macOS and on Windows, in Linux file systems, and on
Synology devices.
"""


def is_hidden(name: str) -> bool:
    """Return whether a name is the name of a hidden file or folder.

    Examples: `.ipynb_checkpoints`, `._a.jpg`, `__MACOSX`, `Thumbs.db`.
    """
    return (name.startswith(".") and name not in (".", "..")) or name.lower() in _LEFT_BY_SYSTEMS


def is_hidden_path(path: PurePath | str) -> bool:
    """Return whether any component of a path or archive member name is hidden."""
    return any(is_hidden(part) for part in PurePath(path).parts)
