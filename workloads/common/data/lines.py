"""Lines of text files, in pieces or whole; what is no text is said with the file's name and the line's number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from workloads.files import open_stream, read_bytes

CHUNK_BYTES, LINE_BYTES = 1 << 22, 1 << 26


def chunks(path: Path) -> Iterator[bytes]:
    """A file in pieces that end with a line. Raises ValueError naming it."""
    rest = b""
    try:
        with open_stream(path) as file:
            while block := file.read(CHUNK_BYTES):
                cut = block.rfind(b"\n") + 1
                if cut:
                    yield rest + block[:cut]
                    rest = block[cut:]
                else:
                    rest += block
                if len(rest) > LINE_BYTES:
                    raise ValueError(f"{path}: a line of more than {LINE_BYTES:,} bytes is no sentence")
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if rest:
        yield rest


def blocks(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Some of a file's lines after the other, without their ends, and the number of the first of them. Raises ValueError."""
    first = 1
    for data in chunks(path):
        lines = split(data, path, first)
        yield first, lines
        first += len(lines)


def read_lines(path: Path) -> list[str]:
    """The lines of a text file that fits into memory, without their ends. Raises ValueError naming file and line."""
    try:
        return split(read_bytes(path), path, 1)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None


def check_equal(one: Path, other: Path, numbers: Sequence[int]) -> None:
    """Raise ValueError unless two files have as many lines; `numbers` of them."""
    if numbers[0] != numbers[1]:
        raise ValueError(
            f"{one} has {numbers[0]:,} lines and {other} {numbers[1]:,}; line n of one is the translation of line n of the "
            f"other: download or process both again"
        )


def split(data: bytes, path: object, first_line: int) -> list[str]:
    """The lines of UTF-8. Raises ValueError naming file and line; `first_line` is the number of the first one of `data`."""
    lines = decode(data, path, first_line).split("\n")
    return [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def decode(data: bytes, path: object, first_line: int) -> str:
    """Text of UTF-8. Raises ValueError naming file and line; `first_line` is the number of the first one of `data`."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + data.count(b"\n", 0, error.start)
        raise ValueError(
            f"{path}:{line}: not UTF-8 (byte {data[error.start]:#04x}); repair the line, or download again"
        ) from None
