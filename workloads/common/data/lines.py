"""Lines of text files, in blocks or whole. Errors name the file and the line.

Files are UTF-8, or UTF-16 or UTF-32 with a byte order mark. The mark at the start of a file is not text. A line ends with LF or
CRLF. A single CR is a character of the line, as in the published corpora, which have CRs inside sentences.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from workloads.files import detect_encoding, not_in_encoding, open_stream, read_bytes

CHUNK_BYTES, LINE_BYTES = 1 << 22, 1 << 26
_LONGEST_MARK_BYTES = 4


def chunks(path: Path, has_mark: bool = True) -> Iterator[bytes]:
    """Yield a file as UTF-8 without its byte order mark, in pieces that end with a line. Raises ValueError naming it.

    `has_mark` False: a file that the suite wrote, where a byte order mark at the start is text.
    """
    try:
        with open_stream(path) as file:
            yield from split_stream(file, path, has_mark)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None


def split_stream(file: IO[bytes], path: object, has_mark: bool = True) -> Iterator[bytes]:
    """Yield the content of an open file as `chunks` does; `path` is its name in messages."""
    rest = b""
    for block in _utf8_blocks(file, path) if has_mark else iter(lambda: file.read(CHUNK_BYTES), b""):
        cut = block.rfind(b"\n") + 1
        if cut:
            yield rest + block[:cut]
            rest = block[cut:]
        else:
            rest += block
        if len(rest) > LINE_BYTES:
            raise ValueError(f"{path}: a line of more than {LINE_BYTES:,} bytes is no sentence")
    if rest:
        yield rest


def _utf8_blocks(file: IO[bytes], path: object) -> Iterator[bytes]:
    """Yield blocks of a text file without its byte order mark, as UTF-8 where the mark names another encoding."""
    head = file.read(_LONGEST_MARK_BYTES)
    encoding, mark_bytes = detect_encoding(head)
    block = head[mark_bytes:] + file.read(CHUNK_BYTES)
    decoder = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)()
    try:
        while block:
            yield block if decoder is None else decoder.decode(block).encode()
            block = file.read(CHUNK_BYTES)
        if decoder is not None:
            decoder.decode(b"", final=True)
    except UnicodeError:
        raise ValueError(not_in_encoding(str(path), encoding)) from None


def blocks(path: Path, name: object = None, has_mark: bool = True) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines of a file, without their ends, in blocks, each with the number of its first line.

    Args:
        name: Name of the file in messages; default: its path.
        has_mark: As in `chunks`.

    Raises:
        ValueError: The file cannot be read, or is not UTF-8.
    """
    first = 1
    for data in chunks(path, has_mark):
        lines = split(data, path if name is None else name, first)
        yield first, lines
        first += len(lines)


def count_lines(path: Path) -> int:
    """Return the number of lines of a file. Raises ValueError naming it."""
    return sum(data.count(b"\n") + (not data.endswith(b"\n")) for data in chunks(path))


def read_lines(path: Path, name: object = None) -> list[str]:
    """Return the lines of a text file that fits into memory, without their ends. Raises ValueError like `blocks`."""
    shown = path if name is None else name
    try:
        data = read_bytes(path)
    except OSError as error:
        raise ValueError(f"{shown}: {error.strerror}") from None
    return split(b"".join(split_stream(io.BytesIO(data), shown)), shown, 1)


def read_entries(path: Path, name: object = None) -> list[str]:
    """Return the lines of a list such as a vocabulary, as `read_lines`, also of a file whose lines all end with CR alone."""
    lines = read_lines(path, name)
    return lines[0].split("\r") if len(lines) == 1 else lines


def check_equal(one: object, other: object, numbers: Sequence[int]) -> None:
    """Raise ValueError unless two files have as many lines; `numbers` of them."""
    if numbers[0] != numbers[1]:
        raise ValueError(
            f"{one} has {numbers[0]:,} lines and {other} {numbers[1]:,}; line n of one is the translation of line n of the "
            f"other: download or process both again"
        )


def split(data: bytes, path: object, first_line: int) -> list[str]:
    """Return the lines of UTF-8 text. Raises ValueError naming file and line; `first_line` is the number of the first line."""
    lines = decode(data, path, first_line).split("\n")
    return [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def decode(data: bytes, path: object, first_line: int) -> str:
    """Return UTF-8 as text. Raises ValueError naming file and line; `first_line` is the number of the first line of `data`."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + data.count(b"\n", 0, error.start)
        raise ValueError(
            f"{path}:{line}: not UTF-8 (byte {data[error.start]:#04x}); repair the line, or download again"
        ) from None
