"""Exceptions from reading damaged archives."""

from __future__ import annotations

import gzip
import tarfile
import zipfile
import zlib

try:
    from lzma import LZMAError
except ImportError:  # this Python has no liblzma, so it rejects LZMA archives as an unknown kind
    LZMAError = zlib.error  # type: ignore[misc,assignment]

DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, LZMAError),
    *(EOFError, NotImplementedError, RuntimeError),  # truncated, unknown compression, encrypted
)
"""Exceptions for a damaged archive, in addition to OSError."""


def why(error: Exception) -> str:
    """Return the message of an exception in one line of at most 200 characters."""
    return " ".join(str(error).split())[:200] or type(error).__name__
