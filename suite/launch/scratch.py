"""The folder for all temporary files of a run on one machine. Standard library only: agents use it too.

Its holder locks it: it ends with the run, or, if the holder was killed, with the next one's beginning.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "suite-run-"


class Scratch:
    """A folder below TMPDIR that exists as long as it is held."""

    def __init__(self) -> None:
        """Make it, once those that killed holders left are removed."""
        for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            descriptor = _locked(left)
            if descriptor is not None:
                _remove(left, descriptor)
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            descriptor = _locked(self.path)
            if descriptor is not None:
                self._descriptor = descriptor
                return

    def end(self) -> None:
        """No file is left."""
        _remove(self.path, self._descriptor)


def _remove(folder: Path, descriptor: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(descriptor)


def _locked(folder: Path) -> int | None:
    """Descriptor of a folder of this user that nobody else held; None: somebody does, or it is gone, or none of ours."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        here, there = os.fstat(descriptor), os.stat(folder)
        if here.st_ino == there.st_ino and here.st_uid == os.getuid():
            return descriptor
    os.close(descriptor)
    return None
