"""Token files of Megatron: `NAME.bin` with the tokens, and `NAME.idx` with the documents.

Layout of `.idx`, little endian (Megatron core 0.11.0, indexed_dataset.py):

    9 bytes   MMIDIDX and two zero bytes
    8 bytes   version: 1
    1 byte    type of a token: 4 is int32, 8 is uint16
    8 bytes   number of sequences N
    8 bytes   number of document boundaries D
    4 · N     int32, tokens of each sequence
    8 · N     int64, byte offset of each sequence in `.bin`
    8 · D     int64, index of the first sequence of each document, and N

`.bin` contains the tokens without separators. The files are data from elsewhere: all sizes are
checked before they are used.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workloads.common.arrays import Int32s
from workloads.files import open_stream

MAGIC = b"MMIDIDX\x00\x00"
_HEADER = struct.Struct("<QBQQ")
HEADER_BYTES = len(MAGIC) + _HEADER.size
TYPES: Mapping[int, np.dtype[np.integer]] = {4: np.dtype("<i4"), 8: np.dtype("<u2")}
"""Type code to the type of a token."""


@dataclass(frozen=True)
class TokenIndex:
    """Content of an `.idx` file, and the size of its `.bin` file."""

    documents: int
    tokens: int
    dtype: np.dtype[np.integer]

    @property
    def bin_bytes(self) -> int:
        """Return the size of the `.bin` file in bytes."""
        return self.tokens * self.dtype.itemsize


def read_index(path: Path) -> TokenIndex:
    """Return the numbers of documents and tokens of an `.idx` file.

    The `.bin` file is not opened.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not an index, or its documents do not follow each other without
            gaps. The message is one line.
    """
    size = path.stat().st_size
    with open_stream(path) as file:
        header = file.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES or not header.startswith(MAGIC):
        raise ValueError(f"{path}: expected an index of Megatron, which begins with MMIDIDX")
    version, code, count, boundaries = _HEADER.unpack(header[len(MAGIC) :])
    if version != 1 or code not in TYPES:
        raise ValueError(
            f"{path}: version {version} and token type {code}. Allowed: version 1 and token types"
            " 4 (int32) and 8 (uint16)"
        )
    expected = HEADER_BYTES + 12 * count + 8 * boundaries
    if size != expected or count < 1 or boundaries != count + 1:
        raise ValueError(
            f"{path}: {size:,} bytes for {count:,} sequences and {boundaries:,} document"
            f" boundaries, expected {expected:,} bytes and {count + 1:,} boundaries. Copy the file"
            " again"
        )
    lengths = np.memmap(path, "<i4", "r", HEADER_BYTES, (count,))
    offsets = np.memmap(path, "<i8", "r", HEADER_BYTES + 4 * count, (count,))
    ends = np.cumsum(lengths, dtype=np.int64)
    dtype = TYPES[code]
    if int(lengths.min()) < 0 or not np.array_equal(offsets, (ends - lengths) * dtype.itemsize):
        raise ValueError(f"{path}: the documents do not follow each other without gaps")
    return TokenIndex(count, int(ends[-1]), dtype)


def map_tokens(path: Path, index: TokenIndex) -> npt.NDArray[np.integer]:
    """Return the tokens of a `.bin` file, (tokens,), mapped into memory.

    Raises:
        ValueError: The size of the file does not match the index.
    """
    size = path.stat().st_size if path.is_file() else -1
    if size != index.bin_bytes:
        raise ValueError(
            f"{path}: {size:,} bytes, but its index has {index.tokens:,} tokens in"
            f" {index.bin_bytes:,} bytes. Copy the file again"
        )
    return np.memmap(path, index.dtype, "r", shape=(index.tokens,))


def write(folder: Path, name: str, documents: Iterable[Int32s]) -> None:
    """Write documents of tokens as `NAME.bin` and `NAME.idx`.

    Args:
        folder: Existing folder.
        name: Name of the files without suffix.
        documents: int32 tokens (n,) of each document.
    """
    lengths = []
    with (folder / f"{name}.bin").open("wb") as file:
        for document in documents:
            file.write(np.asarray(document, "<i4").tobytes())
            lengths.append(len(document))
    sizes = np.array(lengths, "<i4")
    offsets = 4 * np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)[:-1]])
    with (folder / f"{name}.idx").open("wb") as file:
        file.write(MAGIC + _HEADER.pack(1, 4, len(sizes), len(sizes) + 1))
        file.write(sizes.tobytes())
        file.write(offsets.astype("<i8").tobytes())
        file.write(np.arange(len(sizes) + 1, dtype="<i8").tobytes())
