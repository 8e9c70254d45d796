"""The folder for all temporary files of a run on one machine. Standard library only: agents use it too.

Its holder locks it: it ends with the run, or, if the holder was killed, with the next one's beginning. A folder without
the marker that its maker wrote is somebody else's, whatever its name.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from pathlib import Path

from suite.common.run_folder import RUN_FILE
from workloads import files

PREFIX = "suite-run-"
MARKER = ".suite-scratch.json"
_MARKER_BYTES = 4096


class Scratch:
    """A folder below TMPDIR that exists as long as it is held."""

    def __init__(self) -> None:
        """Make it, once those that killed holders left are removed."""
        for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            if _is_ours(left) and (descriptor := _locked(left)) is not None:
                _remove(left, descriptor)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        descriptor = _locked(self.path)
        assert descriptor is not None, "nobody else locks a folder without a marker"
        self._descriptor = descriptor
        marker = {"folder": self.path.name, "pid": os.getpid(), "boot": _boot()}
        (self.path / MARKER).write_text(json.dumps(marker), encoding="utf-8")

    def end(self) -> None:
        """No file is left, but of a run that somebody keeps there."""
        _remove(self.path, self._descriptor)


def scratch_above(path: Path) -> Path | None:
    """The folder of temporary files that `path` lies in, or is: it ends with its run. None: it lies in none."""
    path = path.resolve()
    return next((folder for folder in (path, *path.parents) if _is_ours(folder)), None)


def _is_ours(folder: Path) -> bool:
    """True for a folder, not a link to one, that holds its own marker: neither a copy's nor a renamed folder's."""
    try:
        marker = files.read_json(folder / MARKER, _MARKER_BYTES)
    except (OSError, ValueError):
        return False
    return isinstance(marker, dict) and marker.get("folder") == folder.name and not folder.is_symlink()


def _boot() -> str:
    with contextlib.suppress(OSError):
        return files.read_text("/proc/sys/kernel/random/boot_id").strip()
    return ""


def _remove(folder: Path, descriptor: int) -> None:
    if not _keeps_a_run(folder):
        shutil.rmtree(folder, ignore_errors=True)
    os.close(descriptor)


def _keeps_a_run(folder: Path) -> bool:
    """True if a result lies in it. An agent's copy of what is to run, which names this very folder, is none."""
    for place, _, names in os.walk(folder):
        if RUN_FILE not in names:
            continue
        try:
            run = files.read_json(Path(place, RUN_FILE))
        except (OSError, ValueError):
            return True
        if not isinstance(run, dict) or run.get("folder") != place:
            return True
    return False


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
