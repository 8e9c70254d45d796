"""Reads the lines of text files, in blocks or all at once.

Error messages contain the file and the line number.

Files are UTF-8, or UTF-16 or UTF-32 with a byte order mark. The byte order mark at the start of a
file is skipped. A line ends with LF or CRLF. A CR without LF is an ordinary character, because the
published corpora contain CRs inside sentences.
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
    """Yield the content of a text file as UTF-8, in chunks that end at a line end.

    Args:
        path: Path of the file.
        has_mark: True to skip a byte order mark. Set False for files that the suite wrote. In these
            files, a byte order mark at the start belongs to the text.

    Raises:
        ValueError: The file cannot be read. The message contains the path of the file.
    """
    try:
        with open_stream(path) as file:
            yield from split_stream(file, path, has_mark)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None


def split_stream(file: IO[bytes], path: object, has_mark: bool = True) -> Iterator[bytes]:
    """Yield the content of an open file as UTF-8, in chunks like `chunks`.

    `path` is the name of the file in messages.
    """
    rest = b""
    for block in (
        _utf8_blocks(file, path) if has_mark else iter(lambda: file.read(CHUNK_BYTES), b"")
    ):
        cut = block.rfind(b"\n") + 1
        if cut:
            yield rest + block[:cut]
            rest = block[cut:]
        else:
            rest += block
        if len(rest) > LINE_BYTES:
            raise ValueError(
                f"{path}: a line has more than {LINE_BYTES:,} bytes, too many for a sentence"
            )
    if rest:
        yield rest


def _utf8_blocks(file: IO[bytes], path: object) -> Iterator[bytes]:
    """Yield blocks of a text file without its byte order mark.

    The function converts UTF-16 and UTF-32 to UTF-8.
    """
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


def blocks(
    path: Path, name: object = None, has_mark: bool = True
) -> Iterator[tuple[int, list[str]]]:
    """Yield blocks of a file's lines, each with the line number of its first line.

    The lines do not include the line ends.

    Args:
        path: Path of the file.
        name: Name of the file in messages. The default is `path`.
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
    """Return the number of lines in a file.

    The function raises ValueError with the file's name if the file cannot be read.
    """
    return sum(data.count(b"\n") + (not data.endswith(b"\n")) for data in chunks(path))


def read_lines(path: Path, name: object = None) -> list[str]:
    """Return the lines of a text file that fits into memory, without line ends.

    The function raises ValueError if the file cannot be read or is not UTF-8.
    """
    shown = path if name is None else name
    try:
        data = read_bytes(path)
    except OSError as error:
        raise ValueError(f"{shown}: {error.strerror}") from None
    return split(b"".join(split_stream(io.BytesIO(data), shown)), shown, 1)


def read_entries(path: Path, name: object = None) -> list[str]:
    """Return the lines of a list file, such as a vocabulary.

    In contrast to `read_lines`, a CR without LF also ends a line.
    """
    lines = read_lines(path, name)
    return lines[0].split("\r") if len(lines) == 1 else lines


def check_equal(source: object, target: object, numbers: Sequence[int]) -> None:
    """Raise ValueError if two files have different numbers of lines.

    `numbers` contains the number of lines of `source` and of `target`.
    """
    if numbers[0] != numbers[1]:
        raise ValueError(
            f"{source} has {numbers[0]:,} lines, {target} has {numbers[1]:,}. Line n of the second"
            " file must be the translation of line n of the first file. Download or process both"
            " files again"
        )


def split(data: bytes, path: object, first_line: int) -> list[str]:
    """Return the lines of UTF-8 text.

    `first_line` is the line number of the first line of `data`. The function raises ValueError with
    the file and the line number if the text is not UTF-8.
    """
    lines = decode(data, path, first_line).split("\n")
    return [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def decode(data: bytes, path: object, first_line: int) -> str:
    """Decode UTF-8.

    `first_line` is the line number of the first line of `data`. The function raises ValueError with
    the file and the line number if the text is not UTF-8.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + data.count(b"\n", 0, error.start)
        raise ValueError(
            f"{path}:{line}: not UTF-8 (byte {data[error.start]:#04x}). Repair the line, or"
            " download the file again"
        ) from None
