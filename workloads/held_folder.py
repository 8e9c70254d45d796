"""A folder for half-done work that ends with its process, or with the next call of the same command if that was killed.

Its holder locks it. A later call removes a folder only if this user made it and its marker, the marker names it, its holder is
known to have ended, and nobody has locked it. Standard library only: agents use it too.
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
    """A folder that exists as long as it is held."""

    def __init__(self, parent: Path, prefix: str, must_stay: Callable[[Path], bool] = _keep_nothing) -> None:
        """Make the folder, after those of the same prefix that killed holders left are removed.

        Args:
            parent: Where it is made.
            prefix: How its name begins.
            must_stay: Returns True for a folder that holds something to keep.
        """
        remove_left(parent, prefix, must_stay)
        self._must_stay = must_stay
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        self._descriptor = _locked(self.path)  # None: a file system without locks
        marker = {"folder": self.path.name, "process": this_process()}
        (self.path / MARKER).write_text(json.dumps(marker), encoding="utf-8")

    def end(self) -> None:
        """Remove the folder, unless it must stay."""
        _remove(self.path, self._must_stay)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextlib.contextmanager
def held_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Yield a folder for half-done work, removed at the end."""
    held = HeldFolder(parent, prefix)
    try:
        yield held.path
    finally:
        held.end()


def remove_left(parent: Path, prefix: str, must_stay: Callable[[Path], bool] = _keep_nothing) -> None:
    """Remove the folders that killed holders left in `parent` under names that begin with `prefix`."""
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
        if _was_left(folder):  # still, now that nobody else may take it
            _remove(folder, must_stay)
        os.close(descriptor)


def names_itself(folder: Path) -> bool:
    """Return True for a folder, not a link to one, whose marker has its name: neither a copy nor a renamed folder."""
    return _marker(folder).get("folder") == folder.name and not folder.is_symlink()


def _was_left(folder: Path) -> bool:
    """Return True if this user made the folder and its marker, and its holder is known to have ended."""
    try:
        facts, of_marker = os.lstat(folder), os.lstat(folder / MARKER)
    except OSError:
        return False
    is_ours = facts.st_uid == of_marker.st_uid == os.geteuid()
    is_plain = stat.S_ISDIR(facts.st_mode) and stat.S_ISREG(of_marker.st_mode) and of_marker.st_nlink == 1
    return is_ours and is_plain and names_itself(folder) and is_alive(_marker(folder).get("process")) is False


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
    """Return the descriptor of a folder that nobody else held; None: somebody does, it is gone, or it cannot be locked."""
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
