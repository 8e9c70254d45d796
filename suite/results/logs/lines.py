"""Reads a file into events and problems, in bounded memory; what the events mean is decided in reader.py and quality.py.

Only as much is read as the file held when it was opened, so a log that still grows gives a prefix of itself.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from suite.results.logs.events import LATIN_1, Event, Problem, Remarks
from suite.results.logs.formats import LINE_MARKS, PARSERS, RECORD_START
from suite.results.text import clean

MAX_PROBLEMS = 100
"""Problems kept per file; a last one counts the rest."""
MAX_LINE_BYTES = 1 << 20
"""A line longer than this holds no record."""
_BLOCK_BYTES = 1 << 20
_UTF16_MARKS = tuple(b"\0".join(bytes([one]) for one in mark) for mark in LINE_MARKS)
"""LINE_MARKS in UTF-16 of either order, without the zero before or after them."""


def read_events(path: Path) -> tuple[list[Event], list[Problem]]:
    """All records of a file in its order, and what could not be read or was read only by leniency. Raises as `read_file`."""
    file = read_file(path)
    return file.events, file.sorted_problems()


def read_file(path: Path) -> LogFile:
    """All records of a file.

    Raises ValueError (one line) if the file does not exist, is no regular file or cannot be opened. No content makes it fail.
    """
    file = LogFile()
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise OSError("not a regular file")
        with open(path, "rb") as stream:
            file.read(stream)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error}); give the path of a log file") from error
    return file


def may_be_log(path: Path) -> bool:
    """Whether the first MiB of a regular file holds the mark of a record; False where it cannot be opened."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return False
        with open(path, "rb") as stream:
            block = stream.read(_BLOCK_BYTES)
    except OSError:
        return False
    encoding = _utf16_encoding(block)
    if not encoding and b"\0" in block[:4096]:
        return False
    return RECORD_START.search(block.decode(encoding or "latin-1", errors="replace")) is not None


class LogFile:
    """What has been read of one log file so far."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.problems: list[Problem] = []
        self.remarks = Remarks()
        self.dropped = self.marked = self.size = 0
        self.binary = False
        self._texts: list[str] = []
        self._hash = hashlib.blake2b(digest_size=16)

    @property
    def digest(self) -> str:
        """Hash of all records in their order, whatever stands between them; empty without any."""
        return self._hash.hexdigest() if self.events else ""

    def read(self, stream: BinaryIO) -> None:
        """Take all records of `stream`."""
        self.size = os.fstat(stream.fileno()).st_size
        for line, raw, ended in _marked_lines(self._blocks(stream)):
            self.marked += 1
            for item in _records(raw, line, self._texts):
                if isinstance(item, Event):
                    self.events.append(item)
                    if item.remark:
                        self.remarks.add(line, item.remark)
                elif len(self.problems) == MAX_PROBLEMS:
                    self.dropped += 1
                else:
                    cut = "" if ended else "; the last line is incomplete: still being written, or cut off"
                    self.problems.append(replace(item, text=item.text + cut))
            if len(self._texts) >= 1000:  # hashing one at a time costs a tenth of the reading
                self._hash_texts()
        self._hash_texts()

    def _hash_texts(self) -> None:
        self._hash.update("\n".join((*self._texts, "")).encode("utf-8", "replace"))
        self._texts.clear()

    def _blocks(self, stream: BinaryIO) -> Iterator[bytes]:
        """The file in blocks, as UTF-8 where it is UTF-16; not beyond the size that it had when it was opened."""
        left = self.size
        decoder: codecs.IncrementalDecoder | None = None
        while left > 0 and (block := stream.read(min(left, _BLOCK_BYTES))):
            if left == self.size:
                encoding = _utf16_encoding(block)
                self.binary = b"\0" in block[:4096] and not encoding
                if encoding:
                    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
                    self.remarks.add(1, f"the file is {encoding.upper()}")
            left -= len(block)
            yield decoder.decode(block).encode("utf-8", "replace") if decoder else block  # half a character is no end

    def sorted_problems(self) -> list[Problem]:
        """The problems in order of lines; those of the whole file come first, the count of those not kept last."""
        problems = sorted([*self.problems, *self.remarks.problems()], key=lambda problem: problem.line)
        if not self.events:
            problems.insert(0, Problem(0, self._why_empty()))
        if self.dropped:
            problems.append(Problem(0, f"{self.dropped} more lines could not be read"))
        return problems

    def _why_empty(self) -> str:
        if self.size == 0 or self.marked:
            return "no record of the log can be read" if self.marked else "the file is empty"
        return "not a log: binary data" if self.binary else "not a log: no line holds :::MLLOG, :::MLL or :::MLPv0.5.0"


def _utf16_encoding(block: bytes) -> str:
    """Name of the encoding of a file that begins with `block`, if it is UTF-16; else empty."""
    if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16-le" if block.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
    found = next((place for mark in _UTF16_MARKS if (place := block.find(mark)) >= 0), None)
    return "" if found is None else "utf-16-be" if found % 2 else "utf-16-le"


def _marked_lines(blocks: Iterator[bytes]) -> Iterator[tuple[int, bytes, bool]]:
    """(line from 1, its bytes, whether it ends) of every line that contains one of LINE_MARKS, or is too long for a record.

    At most one line of `MAX_LINE_BYTES` and a block are held; the rest of a longer line is skipped.
    """
    line, rest, skipping = 1, b"", False
    for block in blocks:
        if skipping:  # inside a line that is too long
            end = block.find(b"\n")
            if end < 0:
                continue
            block, line, skipping = block[end + 1 :], line + 1, False
        block = rest + block
        cut = block.rfind(b"\n") + 1
        rest = block[cut:]
        count = block.count(b"\n", 0, cut)
        present = [mark for mark in LINE_MARKS if mark in block]
        if present:
            first, *others = present
            for index, raw in enumerate(block[:cut].split(b"\n")):
                if first in raw or (others and others[0] in raw):
                    yield line + index, raw, True
        line += count
        if len(rest) > MAX_LINE_BYTES:
            if any(mark in rest for mark in LINE_MARKS):
                yield line, rest, True
            rest, skipping = b"", True
    if any(mark in rest for mark in LINE_MARKS):
        yield line, rest, False


def _records(raw: bytes, line: int, texts: list[str]) -> Iterator[Event | Problem]:
    """The records of one line, wherever they begin; their texts are added to `texts`."""
    if len(raw) > MAX_LINE_BYTES:
        yield Problem(line, f"a line of more than {MAX_LINE_BYTES} bytes is no record")
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
            event, position = PARSERS[name](text, token.start(), token.end(), line)
        except (ValueError, RecursionError, OverflowError) as error:
            shown = "dated MLPerf:" if name == "MLPerf" else f":::{name}"
            yield Problem(line, f"{shown} record cannot be read ({_error_text(error)})", checker_reads=name != "MLLOG")
            position, failures, after = token.end(), failures + 1, ""
            if failures == 10:
                yield Problem(line, "the rest of the line was not read")
                return
        else:
            texts.append(text[token.start() : position])
            if odd and not texts[-1].isascii():
                event = event._replace(remark="; ".join(filter(None, (event.remark, LATIN_1))))
            yield event
            after = event.format
    if not position and ":::ML" in text:
        shown = clean(text[text.index(":::ML") :], 40)
        yield Problem(line, f"no record of a known form: {shown}", checker_reads=True)
    if after in ("MLLOG", "MLPerf") and text[position:].strip():
        yield Problem(line, "text after the record")


def _error_text(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"broken JSON: {error.msg.removesuffix(' at')} at character {error.pos + 1}"
    return "JSON nested too deeply" if isinstance(error, RecursionError) else str(error)
