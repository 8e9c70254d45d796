"""Text files to ids: lines of subwords, or plain text that subtokens are cut from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workloads.common.text.subtokens import Subtokeniser
from workloads.common.text.vocabulary import UNK, Vocabulary
from workloads.files import open_stream, read_bytes

CHUNK_BYTES, LINE_BYTES = 1 << 22, 1 << 26

Int32s = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Encoded:
    """What a text file was made into, beside the raw file of its ids."""

    lengths: npt.NDArray[np.int32]
    """(N,) subwords of each line."""
    unknown: int
    example: str
    """An unknown subword, with the number of its line; empty: there is none."""


def read_vocabulary(path: Path, plain: bool) -> Vocabulary | Subtokeniser:
    """A vocabulary of subwords or, where the text was `plain`, of subtokens. Raises ValueError naming the file."""
    return Subtokeniser.read(path) if plain else Vocabulary.read(path)


def id_type(vocabulary: int) -> npt.DTypeLike:
    """What ids are stored as."""
    return np.uint16 if vocabulary <= 1 << 16 else np.int32


class _Ids(dict[str, int]):
    """Subword to id, UNK for those that are not known: without a Python call for each that is."""

    def __missing__(self, key: str) -> int:
        return UNK


class _Words:
    """Lines of subwords separated by spaces to ids; UNK where one is not known."""

    def __init__(self, vocabulary: Vocabulary, path: str) -> None:
        self.id_of, self.path = _Ids(vocabulary.ids).__getitem__, path
        self.unknown, self.example = 0, ""

    def ids(self, lines: list[str], first_line: int) -> tuple[Int32s, Int32s]:
        """All ids, and how many each line has; `first_line` is the number of the first. Raises ValueError naming a line."""
        subwords: list[str] = []
        counts = np.empty(len(lines), np.int32)
        for number, line in enumerate(lines):
            words = line.split()
            if not words:
                raise ValueError(f"{self.path}:{first_line + number}: an empty line; a sentence pair needs both sides")
            counts[number] = len(words)
            subwords += words
        ids = np.fromiter(map(self.id_of, subwords), np.int32, len(subwords))
        strange = np.flatnonzero(ids == UNK)
        self.unknown += len(strange)
        if len(strange) and not self.example:
            line_number = first_line + int(np.searchsorted(np.cumsum(counts), strange[0], "right"))
            self.example = f"{subwords[strange[0]]!r} in line {line_number}"
        return ids, counts


class _Subtokens:
    """Lines of plain text to ids. Nothing is unknown; an empty line has none, and EOS alone in a batch."""

    unknown, example = 0, ""

    def __init__(self, vocabulary: Subtokeniser) -> None:
        self.vocabulary = vocabulary

    def ids(self, lines: list[str], first_line: int) -> tuple[Int32s, Int32s]:
        """All ids, and how many each line has."""
        of_lines = [self.vocabulary.encode(line.strip()) for line in lines]
        counts = np.array([len(ids) for ids in of_lines], np.int32)
        return np.fromiter(chain.from_iterable(of_lines), np.int32, int(counts.sum())), counts


def encode(path: str, vocabulary: str, plain: bool, out: str) -> Encoded:
    """Write the ids of a file's lines to `out` (raw). In a process of its own; raises ValueError naming file and line."""
    known = read_vocabulary(Path(vocabulary), plain)
    reader = _Subtokens(known) if isinstance(known, Subtokeniser) else _Words(known, path)
    lengths: list[Int32s] = []
    first_line = 1
    with open(out, "wb") as ids_file:
        for chunk in chunks(Path(path)):
            lines = decode(chunk, path, first_line).split("\n")
            lines = lines[:-1] if lines[-1] == "" else lines
            ids, counts = reader.ids(lines, first_line)
            ids.astype(id_type(len(known))).tofile(ids_file)
            lengths.append(counts)
            first_line += len(lines)
    if first_line == 1:
        raise ValueError(f"{path}: no line of text")
    return Encoded(np.concatenate(lengths), reader.unknown, reader.example)


# -- text files -------------------------------------------------------------------------------------------------------


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


def decode(data: bytes, path: object, first_line: int) -> str:
    """Text of UTF-8. Raises ValueError naming file and line; `first_line` is the number of the first one of `data`."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + data.count(b"\n", 0, error.start)
        raise ValueError(
            f"{path}:{line}: not UTF-8 (byte {data[error.start]:#04x}); repair the line, or download again"
        ) from None


def read_lines(path: Path) -> list[str]:
    """The lines of a text file that fits into memory, without their ends. Raises ValueError naming file and line."""
    try:
        data = read_bytes(path)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    lines = decode(data, path, 1).split("\n")
    return [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]
