"""Reader of MovieLens ratings files, plain or inside of a zip file.

Files in a zip file are read without unpacking the zip file. A ratings file has one of three
layouts: `ratings.csv` (ML-20M: header, commas), `ratings.dat` (ML-1M: `::`), or `u.data` (ML-100K:
tabs). The first line determines the layout, and the file name is ignored. Ids are integers ≥ 0. A
file whose last line has no line end is rejected as truncated.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

import numpy as np

from workloads.common.arrays import Int64s
from workloads.common.data.archives import DAMAGED, why
from workloads.common.data.hidden import is_hidden_path
from workloads.files import detect_encoding, open_stream

MEMBERS = ("ratings.csv", "ratings.dat", "u.data")
HEADER = b"userId,movieId,rating,timestamp"
MAX_BYTES = 2 << 30
"""Maximum unpacked size in bytes of a ratings file in a zip file. The ratings file of ML-20M has
0.5 GB.
"""
ROWS_PER_CHUNK = 2_000_000
_HEAD_BYTES = 4096
_INTEGER = rb" *\+?\d{1,18}(?:\.0*)?"
_NUMBER = rb" *[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"


@dataclass(frozen=True)
class Layout:
    """Layout of a ratings file: separator of the four fields, and whether a header exists."""

    name: str
    separator: bytes
    header: bool

    @property
    def pattern(self) -> re.Pattern[bytes]:
        """Return the pattern of a complete line, including the line end."""
        fields = (_INTEGER, _INTEGER, _NUMBER, _INTEGER)
        return re.compile(re.escape(self.separator).join(fields) + rb"\r?\n")


CSV, DAT, TAB = (
    Layout("ratings.csv", b",", True),
    Layout("ratings.dat", b"::", False),
    Layout("u.data", b"\t", False),
)


@dataclass(frozen=True)
class Ratings:
    """Columns of a ratings file, int64 (n,), with the size and digest of the file."""

    user: Int64s
    item: Int64s
    time: Int64s
    """Time of each rating as Unix time in seconds."""
    name: str
    bytes: int
    sha256: str


class _UnixLineEnds(io.RawIOBase):
    """Stream that replaces CR with LF as the line end."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        block = self.stream.read(len(buffer)).replace(b"\r", b"\n")
        buffer[: len(block)] = block
        return len(block)


class _Tee(io.RawIOBase):
    """Stream that hashes all bytes that a reader reads, and stores read errors."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream, self.digest, self.bytes, self.last = stream, hashlib.sha256(), 0, b""
        self.error: Exception | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            block = self.stream.read(len(buffer))
        except Exception as error:
            self.error = error
            raise
        if block:
            buffer[: len(block)] = block
            self.digest.update(block)
            self.bytes += len(block)
            self.last = block[-1:]
        return len(block)


@contextmanager
def opened(source: Path) -> Iterator[tuple[BinaryIO, str]]:
    """Yield the ratings file as a byte stream, and the name of the file for messages.

    A byte order mark is skipped. If the first line ends with CR, every CR is replaced by LF.

    Raises:
        ValueError: The file cannot be read. The error message is one line.
    """
    try:
        if source.is_dir():
            raise ValueError(
                f"{source} is a folder. Set --from to the ratings file in it, or to the zip"
            )
        with open_stream(source) as file:
            if file.read(4) == b"PK\x03\x04" or source.suffix.lower() == ".zip":
                with (
                    zipfile.ZipFile(file) as archive,
                    archive.open(_member(archive, source)) as stream,
                ):
                    name = f"{source.name}:{stream.name}"
                    yield _as_text(cast(io.BufferedReader, stream), name), name
            else:
                file.seek(0)
                yield _as_text(cast(io.BufferedReader, file), source.name), source.name
    except FileNotFoundError:
        raise ValueError(f"{source}: no such file") from None
    except DAMAGED as error:
        raise ValueError(
            f"{source}: the zip file is damaged or cannot be read ({why(error)})"
        ) from None
    except OSError as error:
        reason = error.strerror or why(error)
        raise ValueError(
            f"{source}: cannot be read ({reason}). Set --from to the ratings file, or to the zip"
        ) from None


def _as_text(stream: io.BufferedReader, name: str) -> BinaryIO:
    """Return the stream without its byte order mark and with LF as the line end.

    If the first line ends with CR, every CR is replaced by LF. In all other files, line ends do not
    change.

    Raises:
        ValueError: The encoding is not UTF-8.
    """
    encoding, mark_bytes = detect_encoding(stream.peek(4))
    if encoding != "utf-8":
        raise ValueError(
            f"{name}: expected UTF-8 text, got {encoding[:6].upper()}. Save the file as UTF-8"
        )
    stream.read(mark_bytes)
    head = stream.peek(_HEAD_BYTES)[:_HEAD_BYTES]
    only_cr = b"\r" in head[:-1] and b"\n" not in head
    return cast(BinaryIO, io.BufferedReader(_UnixLineEnds(stream), 1 << 20)) if only_cr else stream


def _member(archive: zipfile.ZipFile, source: Path) -> zipfile.ZipInfo:
    """Return the ratings file of an archive: the least nested file with a name in MEMBERS.

    Hidden files are skipped.
    """
    members = [
        info
        for info in archive.infolist()
        if PurePosixPath(info.filename).name in MEMBERS
        and not info.is_dir()
        and not is_hidden_path(info.filename)
    ]
    if not members:
        raise ValueError(
            f"{source}: the zip contains no ratings file, expected {', '.join(MEMBERS)}"
        )
    member = min(members, key=lambda info: (info.filename.count("/"), info.filename))
    if member.file_size > MAX_BYTES:  # `zipfile` reads at most `file_size` bytes of a member.
        raise ValueError(
            f"{source}: {member.filename} unpacks to {member.file_size:,} bytes, allowed: at most"
            f" {MAX_BYTES:,}. If it is a ratings file, unpack it and set --from to the file"
        )
    return member


def read(source: Path) -> Ratings:
    """Return all ratings of the file or archive `source`.

    Raises:
        ValueError: The file is invalid. The error message contains the file and the first invalid
            line.
    """
    with opened(source) as (stream, name):
        layout = _layout(stream.read(_HEAD_BYTES), name)
    with opened(source) as (stream, name):
        tee = _Tee(stream)
        try:
            columns = _parse(io.BufferedReader(tee, 1 << 20), layout)
        except Exception as error:
            # The fast parser does not report the invalid line, so `_explain` searches the file for
            # the invalid line below.
            if tee.error is not None:
                raise tee.error from None
            reason = why(error)
            columns = None
        # The file is read to its end, even if the parser stopped earlier, because a zip file
        # verifies its checksum at the end.
        while tee.read(1 << 20):
            pass
    if columns is None or tee.last != b"\n":
        _explain(source, layout)
        raise ValueError(
            f"{name}: not a MovieLens ratings file" + (f" ({reason})" if columns is None else "")
        )
    user, item, time = columns
    return Ratings(user, item, time, name, tee.bytes, tee.digest.hexdigest())


def digest(source: Path) -> str:
    """Return the SHA-256 of the ratings file without parsing it."""
    with opened(source) as (stream, _):
        value = hashlib.sha256()
        while block := stream.read(1 << 20):
            value.update(block)
    return value.hexdigest()


def _layout(head: bytes, name: str) -> Layout:
    """Return the layout that matches the first line.

    Raises:
        ValueError: The file is empty, or its first line matches none of the three layouts.
    """
    if not head:
        raise ValueError(f"{name}: the file is empty")
    line = head.split(b"\n", 1)[0].rstrip(b"\r")
    if line == HEADER:
        return CSV
    for layout in (DAT, TAB):
        if line.count(layout.separator) == 3:
            return layout
    shown = line[:60].decode("ascii", "backslashreplace")
    raise ValueError(
        f"{name}, line 1: not a MovieLens ratings file: expected the header {HEADER.decode()!r}"
        " (ratings.csv), or four fields separated by '::' (ratings.dat) or by tabs (u.data), got"
        f" {shown!r}"
    )


def _parse(stream: io.BufferedReader, layout: Layout) -> list[Int64s]:
    """Return the columns user, item, and time.

    Raises:
        ValueError: The file is invalid. The error message does not contain the line.
    """
    import pandas

    names = ["user", "item", "rating", "time"]
    separator = layout.separator.decode()
    if layout is DAT:
        # The separator `::` is parsed as two single colons with an empty column in between, because
        # pandas' fast parser supports only separators of a single character.
        names, separator = ["user", "gap1", "item", "gap2", "rating", "gap3", "time"], ":"
    types = {name: "int64" if name in ("user", "item", "time") else "float64" for name in names}
    parts: list[list[Int64s]] = [[], [], []]
    with warnings.catch_warnings():
        # If every line has an extra field, pandas only warns and drops the field. The filter
        # converts the warning to an error.
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        reader = pandas.read_csv(
            stream, sep=separator, header=None, skiprows=int(layout.header), names=names,
            dtype=types, index_col=False,
            quoting=csv.QUOTE_NONE, na_values=[""], keep_default_na=False, skip_blank_lines=False,
        encoding="ascii",
            chunksize=ROWS_PER_CHUNK, engine="c",
        )  # fmt: skip
        for frame in reader:
            _check_values(frame)
            for part, column in zip(parts, ("user", "item", "time"), strict=True):
                part.append(frame[column].to_numpy())
    if not sum(len(part) for part in parts[0]):
        raise ValueError("no ratings")
    return [np.concatenate(part) for part in parts]


def _check_values(frame: Any) -> None:
    """Raise ValueError if a field can be parsed but is not valid in a ratings file."""
    if not np.isfinite(frame["rating"].to_numpy()).all():
        raise ValueError("a rating is not a number")
    for name in frame.columns:
        if name.startswith("gap") and frame[name].notna().any():
            raise ValueError("fields are not separated by '::'")
    if (frame[["user", "item", "time"]].to_numpy() < 0).any():
        raise ValueError("a negative number")


def _explain(source: Path, layout: Layout) -> None:
    """Raise ValueError with the first invalid line, if the file has an invalid line."""
    pattern = layout.pattern
    number = 0
    with opened(source) as (stream, name):
        for number, line in enumerate(stream, 1):
            if pattern.fullmatch(line) or (number == 1 and layout.header):
                continue
            raise ValueError(f"{name}, line {number}: {_complaint(line, layout)}")
    if number == int(layout.header):
        raise ValueError(f"{name}: the file contains no ratings")


def _complaint(line: bytes, layout: Layout) -> str:
    """Return a description of the error in an invalid line."""
    text = line.rstrip(b"\r\n")
    shown = text[:60].decode("ascii", "backslashreplace")
    fields = text.split(layout.separator)
    if not text:
        return "empty line"
    if not line.endswith(b"\n") and len(fields) <= 4:
        return (
            f"{shown!r} has no line end: the file may be truncated (if it is complete, append a"
            " newline)"
        )
    if len(fields) != 4:
        return f"expected 4 fields (user, item, rating, timestamp), got {len(fields)}: {shown!r}"
    for label, field in (("user id", fields[0]), ("item id", fields[1]), ("timestamp", fields[3])):
        if not re.fullmatch(_INTEGER, field):
            value = field[:30].decode("ascii", "backslashreplace")
            return f"{label}: expected an integer ≥ 0, got {value!r}: {shown!r}"
    return f"rating: expected a number: {shown!r}"
