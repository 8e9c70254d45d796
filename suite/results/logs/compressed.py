"""Read logs that are compressed with gzip, bzip2, or xz, up to a maximum size.

Other compression formats are detected, but not decompressed.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import BinaryIO, cast

MAX_DECOMPRESSED_BYTES = 1 << 28
"""Maximum size of a log after decompression. Without this limit, a small compressed file could fill
the memory.
"""
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
"""Shell command that decompresses a file, for each format that the suite cannot read."""
SUFFIXES = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".zip")


class CompressedLog:
    """A compressed file that is read in blocks."""

    def __init__(self, stream: BinaryIO, compression: str) -> None:
        self._stream = cast("BinaryIO", _OPENERS[compression](stream))
        self._left = MAX_DECOMPRESSED_BYTES
        self.problem = ""
        """Reason why reading stopped before the end of the file. Empty while no data were
        skipped.
        """
        self._compression = compression

    def read(self, size: int) -> bytes:
        """Return at most `size` decompressed bytes.

        The method returns empty bytes at the end of the file, if the data are damaged, or after
        `MAX_DECOMPRESSED_BYTES`.
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
    """Return the compression format of a file, such as `gzip`.

    The format is detected from the first bytes of the file. The function returns an empty string
    for an uncompressed file.
    """
    return next((name for first, name in _FIRST_BYTES.items() if head.startswith(first)), "")


def is_read(compression: str) -> bool:
    """Check whether the suite can decompress the format."""
    return compression in _OPENERS


def not_read_text(compression: str) -> str:
    """Return the error message for a file in a compression format that is not supported."""
    return (
        f"a file compressed with {compression}, which the suite does not read. Run:"
        f" {_COMMANDS[compression]}"
    )
