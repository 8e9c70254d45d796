"""Reads compressed logs as a stream of bounded length: gzip, bzip2, and xz. Other formats are named."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import BinaryIO, cast

MAX_DECOMPRESSED_BYTES = 1 << 28
"""A small file may decompress to any length."""
_OPENERS: Mapping[str, Callable[[BinaryIO], object]] = {
    "gzip": lambda stream: gzip.GzipFile(fileobj=stream),
    "bzip2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
}
_FIRST_BYTES: Mapping[bytes, str] = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"\x04\x22\x4d\x18": "lz4",
}
_COMMANDS: Mapping[str, str] = {"zstd": "zstd -d FILE", "zip": "unzip FILE", "lz4": "lz4 -d FILE"}
"""What decompresses a file of a format that is not read here."""
SUFFIXES = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".zip")


class CompressedLog:
    """A compressed file that is read in blocks."""

    def __init__(self, stream: BinaryIO, compression: str) -> None:
        self._stream = cast("BinaryIO", _OPENERS[compression](stream))
        self._left = MAX_DECOMPRESSED_BYTES
        self.problem = ""
        """Why not everything was read; empty: everything was, so far."""
        self._compression = compression

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes; none at the end, at damaged data, or at `MAX_DECOMPRESSED_BYTES`."""
        if self.problem:
            return b""
        try:
            block = self._stream.read(min(size, self._left + 1))
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            self.problem = f"the {self._compression} file is damaged or incomplete ({str(error)[:80]})"
            return b""
        self._left -= len(block)
        if self._left < 0:
            self.problem = f"more than {MAX_DECOMPRESSED_BYTES:,} bytes after decompression: the rest was not read"
            block = block[: self._left]
        return block


def compression_of(head: bytes) -> str:
    """Return the compression of a file by its first bytes: `gzip`; an empty string if it is not compressed."""
    return next((name for first, name in _FIRST_BYTES.items() if head.startswith(first)), "")


def is_read(compression: str) -> bool:
    """Return True if files of this compression can be read here."""
    return compression in _OPENERS


def not_read_text(compression: str) -> str:
    """Return what to do about a file of a compression that cannot be read here."""
    return f"a file compressed with {compression}, which the suite does not read; run: {_COMMANDS[compression]}"
