"""Exceptions that Python's archive modules raise for damaged archives."""

from __future__ import annotations

import gzip
import tarfile
import zipfile
import zlib

try:
    from lzma import LZMAError
# Without liblzma, Python rejects LZMA archives as an unsupported compression type.
except ImportError:
    LZMAError = zlib.error  # type: ignore[misc,assignment]

DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, LZMAError),
    # These exceptions mean a truncated file, an unsupported compression, or encryption.
    *(EOFError, NotImplementedError, RuntimeError),
)
"""Exceptions for a damaged archive, in addition to OSError."""


def why(error: Exception) -> str:
    """Return the message of an exception as one line of at most 200 characters."""
    return " ".join(str(error).split())[:200] or type(error).__name__
