"""Archives that others packed: what reading a damaged one raises."""

from __future__ import annotations

import gzip
import tarfile
import zipfile
import zlib

try:
    from lzma import LZMAError
except ImportError:  # a Python without liblzma: archives of this kind are refused as unknown
    LZMAError = zlib.error  # type: ignore[misc,assignment]

DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, LZMAError),
    *(EOFError, NotImplementedError, RuntimeError),  # cut off; an unknown method; encrypted
)
"""Beside OSError."""


def why(error: Exception) -> str:
    """What is said of it, in one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__
