"""Reads logs compressed with gzip, bzip2, or xz as a stream of limited length.

Further formats are recognized, but not read.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import BinaryIO, cast

MAX_DECOMPRESSED_BYTES = 1 << 28
"""Limit of the decompressed length. A small file may decompress to any length."""
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
"""Command that decompresses a file of a format that the suite does not read."""
SUFFIXES = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".zip")


class CompressedLog:
    """A compressed file that is read in blocks."""

    def __init__(self, stream: BinaryIO, compression: str) -> None:
        self._stream = cast("BinaryIO", _OPENERS[compression](stream))
        self._left = MAX_DECOMPRESSED_BYTES
        self.problem = ""
        """Why a part was not read. Empty if everything was read so far."""
        self._compression = compression

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes.

        Returns no bytes at the end, at damaged data, or after `MAX_DECOMPRESSED_BYTES`.
        """
        if self.problem:
            return b""
        try:
            block = self._stream.read(min(size, self._left + 1))
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            self.problem = (
                f"the {self._compression} file is damaged or incomplete ({str(error)[:80]})"
            )
            return b""
        self._left -= len(block)
        if self._left < 0:
            self.problem = (
                f"more than {MAX_DECOMPRESSED_BYTES:,} bytes after decompression: the rest was not"
                " read"
            )
            block = block[: self._left]
        return block


def compression_of(head: bytes) -> str:
    """Return the compression of a file by its first bytes, such as `gzip`, or an empty string."""
    return next((name for first, name in _FIRST_BYTES.items() if head.startswith(first)), "")


def is_read(compression: str) -> bool:
    """Check whether the suite reads files of this compression."""
    return compression in _OPENERS


def not_read_text(compression: str) -> str:
    """Return the message for a file whose compression the suite does not read."""
    return (
        f"a file compressed with {compression}, which the suite does not read. Run:"
        f" {_COMMANDS[compression]}"
    )
