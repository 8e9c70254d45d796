"""Damaged archives: what Python's readers raise differs with the compression, and none of it names the file."""

from __future__ import annotations

import contextlib
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path


def _of_lzma() -> tuple[type[Exception], ...]:
    try:
        from lzma import LZMAError
    except ImportError:  # a Python built without liblzma reads no such archive
        return ()
    return (LZMAError,)


DAMAGED: tuple[type[Exception], ...] = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, *_of_lzma())
"""Beside an OSError without a number, which is what bzip2 and gzip raise."""
UNREADABLE: tuple[type[Exception], ...] = (OSError, *DAMAGED)


@contextlib.contextmanager
def read_archive(path: Path) -> Iterator[None]:
    """Context in which an archive is read, and maybe other files are written. Raises ValueError that names a damaged one."""
    try:
        yield
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system's, of any file
            raise
        reason = " ".join(str(error).split())
        raise ValueError(f"{path}: no archive, or damaged ({reason}); download it again") from None
