"""Clears the page cache before a run, and says whether that happened: `cache_clear` in the log is what this returns."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def clear(system: Mapping[str, Any], data_dir: str) -> bool:
    """Clear caches as the `system.*` settings say, else drop the data files from the page cache.

    Raises ValueError if what was asked for does not work. Returns False where there is nothing to drop.
    """
    if system.get("cache_clear_command"):
        return _command(list(system["cache_clear_command"]))
    if system.get("drop_caches"):
        try:
            Path("/proc/sys/vm/drop_caches").write_text("3\n", encoding="ascii")
        except OSError as error:
            raise ValueError(
                f"system.drop_caches=true: {error}; run as root or type system.drop_caches=false"
            ) from None
        return True
    return bool(data_dir) and _drop_files(Path(data_dir))


def _command(command: list[str]) -> bool:
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=600)
    except (OSError, subprocess.SubprocessError) as error:
        raise ValueError(f"system.cache_clear_command: {error}") from None
    return True


def _drop_files(folder: Path) -> bool:
    """Tell the kernel that the pages of all files below `folder` are not needed; True if there was a file."""
    dropped = False
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                dropped = True
            finally:
                os.close(descriptor)
    return dropped
