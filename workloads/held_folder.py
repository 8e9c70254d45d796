"""Temporary folder for unfinished work, which is removed when the process ends.

If the process is killed, the next call of the same command removes the folder. A process locks its
folder. A later call removes a folder only under these four conditions: this user created the folder
and its marker file, the marker file contains the name of the folder, the process that created the
folder has ended, and the folder is not locked. This module imports only the standard library,
because agents import it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from workloads import files
from workloads.process_identity import is_alive, this_process

MARKER = ".suite-scratch.json"
_MARKER_BYTES = 4096


def _keep_nothing(folder: Path) -> bool:
    return False


class HeldFolder:
    """Temporary folder that this process locks until `end` is called."""

    def __init__(
        self, parent: Path, prefix: str, must_stay: Callable[[Path], bool] = _keep_nothing
    ) -> None:
        """Create the folder.

        Before that, the constructor removes folders with the same prefix that belong to killed
        processes.

        Args:
            parent: Existing folder in which the folder is created.
            prefix: Prefix of the folder's name.
            must_stay: Function that returns True for a folder whose content must be kept.
        """
        remove_left(parent, prefix, must_stay)
        self._must_stay = must_stay
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        # The descriptor is None if the file system does not support locks.
        self._descriptor = _locked(self.path)
        marker = {"folder": self.path.name, "process": this_process()}
        (self.path / MARKER).write_text(json.dumps(marker), encoding="utf-8")

    def end(self) -> None:
        """Remove the folder, unless its content must be kept."""
        _remove(self.path, self._must_stay)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextlib.contextmanager
def held_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Yield a temporary folder for unfinished work, and remove it when the context ends."""
    held = HeldFolder(parent, prefix)
    try:
        yield held.path
    finally:
        held.end()


def remove_left(
    parent: Path, prefix: str, must_stay: Callable[[Path], bool] = _keep_nothing
) -> None:
    """Remove folders with this prefix whose process was killed before removing them."""
    try:
        names = [name for name in os.listdir(parent) if name.startswith(prefix)]
    except OSError:
        return
    for folder in (parent / name for name in sorted(names)):
        if not _was_left(folder):
            continue
        descriptor = _locked(folder)
        if descriptor is None:
            continue
        if _was_left(folder):  # The check is repeated, because the folder is locked only now.
            _remove(folder, must_stay)
        os.close(descriptor)


def names_itself(folder: Path) -> bool:
    """Return True if the marker file of a folder contains the name of the folder.

    The function returns False for a copied or renamed folder, and for a link to a folder.
    """
    return _marker(folder).get("folder") == folder.name and not folder.is_symlink()


def _was_left(folder: Path) -> bool:
    """Return True if this user created the folder and the folder's process has ended.

    This user must also have created the marker file. The function returns False if it is uncertain
    whether the process has ended.
    """
    try:
        folder_status, marker_status = os.lstat(folder), os.lstat(folder / MARKER)
    except OSError:
        return False
    is_ours = folder_status.st_uid == marker_status.st_uid == os.geteuid()
    is_plain = (
        stat.S_ISDIR(folder_status.st_mode)
        and stat.S_ISREG(marker_status.st_mode)
        and marker_status.st_nlink == 1
    )
    return (
        is_ours
        and is_plain
        and names_itself(folder)
        and is_alive(_marker(folder).get("process")) is False
    )


def _marker(folder: Path) -> dict[str, object]:
    try:
        marker = files.read_json(folder / MARKER, _MARKER_BYTES)
    except (OSError, ValueError):
        return {}
    return marker if isinstance(marker, dict) else {}


def _remove(folder: Path, must_stay: Callable[[Path], bool]) -> None:
    if not must_stay(folder):
        shutil.rmtree(folder, ignore_errors=True)


def _locked(folder: Path) -> int | None:
    """Lock a folder and return its descriptor.

    The function returns None if a different process holds the lock, if the folder no longer exists,
    or if locking is not possible.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.lstat(folder)):
            return descriptor
    os.close(descriptor)
    return None
