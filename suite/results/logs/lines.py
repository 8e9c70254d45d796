"""Parse the records of a file into events and problems, with bounded memory.

Other modules interpret the events. If a log grows while it is read, the appended bytes are ignored.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from suite.catalog.former_names import current_settings
from suite.results.logs.compressed import (
    MAX_DECOMPRESSED_BYTES,
    CompressedLog,
    compression_of,
    is_read,
    not_read_text,
)
from suite.results.logs.events import LATIN_1, NO_TIME, Event, Problem, ProblemCode, Remarks
from suite.results.logs.formats import LINE_MARKS, PARSERS, RECORD_START
from suite.results.text import clean
from workloads import files

MAX_PROBLEMS = 100
"""Maximum number of problems per file. Further problems are omitted, and a final problem contains
their number.
"""
MAX_BYTES = 1 << 30
"""Maximum file size in bytes. This size is a thousand times the size of a long log."""
MAX_LINE_BYTES = 1 << 20
"""Maximum length of a record in bytes."""
_BLOCK_BYTES = 1 << 20
_UTF16_MARKS = tuple(b"\0".join(bytes([code]) for code in mark) for mark in LINE_MARKS)
"""LINE_MARKS in UTF-16 of either byte order, without the first or last zero byte."""


@dataclass
class LogFile:
    """Records and problems of a log file."""

    events: list[Event]
    """All records, in file order."""
    problems: list[Problem]
    """Problems, in order of line numbers.

    Problems of the whole file come first. The problem with the number of omitted problems comes
    last.
    """
    digest: str
    """Hash of all records in file order, without the text between records. Empty if the file
    contains no record.
    """


def read_file(path: Path) -> LogFile:
    """Return all records of a file, which may be compressed with gzip, bzip2, or xz.

    Raises:
        ValueError: The file does not exist, cannot be opened, or is not a regular file. The content
            of a file never raises an exception.
    """
    try:
        with files.open_stream(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > MAX_BYTES:
                raise OSError(f"it has {size:,} bytes, and a log has at most {MAX_BYTES:,}")
            return _read(stream)
    except OSError as error:
        reason = error.strerror or error
        raise ValueError(
            f"{path}: cannot be read ({reason}). Set the path of a log file"
        ) from error


def _read(stream: BinaryIO) -> LogFile:
    size = os.fstat(stream.fileno()).st_size
    head = stream.read(min(size, _BLOCK_BYTES))
    stream.seek(0)
    compression = compression_of(head)
    unpacked: CompressedLog | None = None
    if compression and not is_read(compression):
        return LogFile(
            [], [Problem(0, ProblemCode.NOT_A_LOG, f"not a log: {not_read_text(compression)}")], ""
        )
    if compression:
        first = CompressedLog(stream, compression).read(_BLOCK_BYTES)
        stream.seek(0)
        head, size, unpacked = first, MAX_DECOMPRESSED_BYTES + 1, CompressedLog(stream, compression)
    events: list[Event] = []
    problems: list[Problem] = []
    texts: list[str] = []
    remarks, digest = Remarks(), hashlib.blake2b(digest_size=16)
    dropped = marked = 0
    if encoding := _utf16_encoding(head):
        remarks.add(1, ProblemCode.UTF_16, f"the file is {encoding.upper()}")
    for line, raw, ended in _marked_lines(_blocks(unpacked or stream, size, encoding)):
        marked += 1
        for item in _records(raw, line, texts):
            if isinstance(item, Event):
                events.append(item)
                if item.remarks:
                    remarks.add_all(line, item.remarks)
            elif len(problems) == MAX_PROBLEMS:
                dropped += 1
            else:
                problems.append(item if ended else _incomplete(item))
        # Records are hashed in groups, because hashing each record separately takes a tenth of the
        # reading time.
        if len(texts) >= 1000:
            digest.update("\n".join((*texts, "")).encode("utf-8", "replace"))
            texts.clear()
    digest.update("\n".join((*texts, "")).encode("utf-8", "replace"))
    problems = sorted([*problems, *remarks.problems()], key=lambda problem: problem.line)
    if not events:
        length = len(head) if unpacked is not None else size
        problems.insert(0, _why_empty(length, marked, binary=_is_binary(head)))
    if unpacked is not None and unpacked.problem:
        problems.insert(0, Problem(0, ProblemCode.COMPRESSED_DATA, unpacked.problem))
    if dropped:
        problems.append(
            Problem(0, ProblemCode.MORE_LINES, f"{dropped} more lines could not be read")
        )
    return LogFile(events, problems, digest.hexdigest() if events else "")


def _incomplete(problem: Problem) -> Problem:
    """Return the problem for a last line without a line break."""
    text = (
        f"{problem.text}, and the last line is incomplete: it is still being written, or was"
        " cut off"
    )
    return replace(problem, code=ProblemCode.INCOMPLETE_LINE, text=text)


def _why_empty(size: int, marked: int, binary: bool) -> Problem:
    """Return the problem for a file without records."""
    if marked:
        return Problem(0, ProblemCode.NO_RECORD, "no record of the log can be read")
    if size == 0:
        return Problem(0, ProblemCode.EMPTY, "the file is empty")
    text = "binary data" if binary else "no line holds :::MLLOG, :::MLL or :::MLPv0.5.0"
    return Problem(0, ProblemCode.NOT_A_LOG, f"not a log: {text}")


def _blocks(stream: BinaryIO | CompressedLog, size: int, encoding: str) -> Iterator[bytes]:
    """Yield the first `size` bytes of a file in blocks, with UTF-16 converted to UTF-8."""
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace") if encoding else None
    while size > 0 and (block := stream.read(min(size, _BLOCK_BYTES))):
        size -= len(block)
        # the decoder keeps an incomplete character until the next block
        yield decoder.decode(block).encode("utf-8", "replace") if decoder else block


def may_be_log(path: Path) -> bool:
    """Check whether the start of a regular file contains one of LINE_MARKS.

    The function reads the first MiB after decompression. Returns False if the file cannot be
    opened.
    """
    try:
        if path.is_symlink():
            return False
        with files.open_stream(path) as stream:
            block = stream.read(_BLOCK_BYTES)
            if is_read(compression := compression_of(block)):
                stream.seek(0)
                block = CompressedLog(stream, compression).read(_BLOCK_BYTES)
    except OSError:
        return False
    text = block.decode(_utf16_encoding(block) or "latin-1", errors="replace")
    return not _is_binary(block) and RECORD_START.search(text) is not None


def _is_binary(block: bytes) -> bool:
    return b"\0" in block[:4096] and not _utf16_encoding(block)


def _utf16_encoding(block: bytes) -> str:
    """Detect the UTF-16 variant of a file from its first block.

    The string is empty if the file is not UTF-16.
    """
    if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16-le" if block.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
    offset = next((index for mark in _UTF16_MARKS if (index := block.find(mark)) >= 0), None)
    return "" if offset is None else "utf-16-be" if offset % 2 else "utf-16-le"


def _marked_lines(blocks: Iterator[bytes]) -> Iterator[tuple[int, bytes, bool]]:
    """Yield the lines that contain one of LINE_MARKS.

    Each yielded tuple contains the line number, the bytes of the line, and whether the line has a
    line break.

    At most one line of `MAX_LINE_BYTES` and one block are kept in memory. The end of a longer line
    is skipped.
    """
    mark, dated_mark = LINE_MARKS
    line, rest, skipping = 1, b"", False
    for block in blocks:
        whole = (rest + block).split(b"\n")
        rest = whole.pop()
        if skipping and whole:  # the block contains the end of an overlong line
            whole[0], skipping = b"", False
        for number, raw in enumerate(whole, line):
            if mark in raw or dated_mark in raw:
                yield number, raw, True
        line += len(whole)
        if skipping or len(rest) > MAX_LINE_BYTES:
            if not skipping and (mark in rest or dated_mark in rest):
                yield line, rest, True
            rest, skipping = b"", True
    if mark in rest or dated_mark in rest:
        yield line, rest, False


def _records(raw: bytes, line: int, texts: list[str]) -> Iterator[Event | Problem]:
    """Yield the records in a line, and append their texts to `texts`.

    A line may contain several records, at any position.
    """
    if len(raw) > MAX_LINE_BYTES:
        yield Problem(
            line,
            ProblemCode.LINE_TOO_LONG,
            f"a line of more than {MAX_LINE_BYTES} bytes cannot be a record",
        )
        return
    try:
        text, odd = raw.decode("utf-8").rstrip(), False
    except UnicodeDecodeError:
        text, odd = raw.decode("latin-1").rstrip(), True
    position = failures = 0
    after = ""
    while position < len(text) and (token := RECORD_START.search(text, position)) is not None:
        name = token[1] or token[2]
        try:
            position, remarks, benchmark, time_ms, key, value, metadata = PARSERS[name](
                text, token.end()
            )
        except (ValueError, RecursionError, OverflowError) as error:
            shown = "dated MLPerf:" if name == "MLPerf" else f":::{name}"
            text_of_problem = f"{shown} record cannot be read ({_error_text(error)})"
            yield Problem(
                line, ProblemCode.UNREADABLE_RECORD, text_of_problem, checker_reads=name != "MLLOG"
            )
            position, failures, after = token.end(), failures + 1, ""
            if failures == 10:
                yield Problem(line, ProblemCode.REST_OF_LINE, "the rest of the line was not read")
                return
        else:
            record, after = text[token.start() : position], name
            texts.append(record)
            if not time_ms:
                remarks += (NO_TIME,)
            if odd and not record.isascii():
                remarks += (LATIN_1,)
            mark = hash(record.rstrip())
            if key == "suite_run" and isinstance(value, dict):
                value = current_settings(value)
            yield Event(
                line, name, time_ms, sys.intern(key), value, metadata, mark, benchmark, remarks
            )
    if not position and ":::ML" in text:
        shown = clean(text[text.index(":::ML") :], 40)
        yield Problem(
            line,
            ProblemCode.UNKNOWN_FORM,
            f"no record of a known form: {shown}",
            checker_reads=True,
        )
    if after in ("MLLOG", "MLPerf") and text[position:].strip():
        yield Problem(line, ProblemCode.TEXT_AFTER_RECORD, "text after the record")


def _error_text(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"broken JSON: {error.msg.removesuffix(' at')} at character {error.pos + 1}"
    return "JSON nested too deeply" if isinstance(error, RecursionError) else str(error)
