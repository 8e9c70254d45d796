"""Subwords to ids and back: special ids, the vocabulary of a data set, and lines of subwords undone.

A line of subwords is text split at spaces in which "@@" at the end of a piece says that the word goes on (subword-nmt).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from workloads.common.data.lines import read_entries

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""Ids of padding, an unknown subword, the beginning and the end of a sentence (reference seq2seq/data/config.py)."""
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
"""How they are written; they stand before the subwords."""
JOINER = "@@"

_JOINED = re.compile(f"{JOINER}( |$)")


@dataclass(frozen=True)
class Framing:
    """Which special ids stand around a sentence."""

    start: int = BOS
    """What a decoder gets before the first subword."""
    end: int = EOS
    begin: int | None = BOS
    """Stands before a source, and counts in lengths of both sides; None: nothing does."""

    @property
    def extra(self) -> int:
        """Special ids that a sentence's length counts beside its subwords."""
        return 1 if self.begin is None else 2


GNMT = Framing()
"""BOS and EOS on both sides; a decoder is fed all but the last and is to say all but the first (reference dataset.py)."""
SHIFTED = Framing(start=PAD, begin=None)
"""EOS alone; a decoder is fed the target shifted by one place, padding first (Transformer)."""


class _Ids(dict[str, int]):
    """Subword to id, UNK for those that are not known: without a Python call for each that is."""

    def __missing__(self, key: str) -> int:
        return UNK


class Vocabulary:
    """The subwords of both languages: id 4 is the first line of the file."""

    def __init__(self, subwords: Sequence[str], name: str = "vocabulary") -> None:
        """Raises ValueError naming line and `name` for a subword that is there twice or has a space in it.

        An empty one keeps its id, but no text has it (what was written there was white space).
        """
        self.subwords = tuple(subwords)
        self.ids: dict[str, int] = _Ids()
        """Subword to id; special ids have no subword."""
        for number, subword in enumerate(self.subwords, 1):
            if " " in subword or "\t" in subword:
                raise ValueError(f"{name}:{number}: {subword!r} is not a subword; a line holds one, and no count")
            if not subword:
                continue
            if subword in self.ids:
                first = self.ids[subword] - len(SPECIALS) + 1
                raise ValueError(f"{name}:{number}: {subword!r} stands in line {first} too")
            self.ids[subword] = number - 1 + len(SPECIALS)

    @classmethod
    def read(cls, path: Path, name: str = "") -> Vocabulary:
        """Return the vocabulary in a file with a subword per line. Raises ValueError with line and `name`, or the path."""
        name = name or str(path)
        return cls([line.strip() for line in read_entries(path, name)], name)

    def write(self, path: Path) -> None:
        path.write_text("".join(f"{subword}\n" for subword in self.subwords), encoding="utf-8")

    def __len__(self) -> int:
        """Ids, the special ones included."""
        return len(self.subwords) + len(SPECIALS)

    def encode(self, line: str) -> list[int]:
        """A line of subwords as ids, without special ones at its ends; UNK where a subword is not known."""
        return list(map(self.ids.__getitem__, line.split()))

    def decode(self, ids: Iterable[int]) -> str:
        """Words separated by spaces: up to the first EOS, without PAD and BOS, pieces of words joined.

        Ids beyond the vocabulary (rows that only pad a model's table) are unknown ones.
        """
        words = []
        for number in ids:
            if number == EOS:
                break
            if number not in (PAD, BOS):
                words.append(self.word(int(number)))
        return join_subwords(" ".join(words))

    def word(self, number: int) -> str:
        """How an id is written."""
        if number < len(SPECIALS):
            return SPECIALS[number]
        return self.subwords[number - len(SPECIALS)] if number < len(self) else SPECIALS[UNK]


def padded_size(size: int, multiple: int) -> int:
    """The next multiple: rows of a model's tables (32,320 = 8 · 4,040 in the reference's fp16 runs)."""
    return -(-size // multiple) * multiple


def join_subwords(line: str) -> str:
    """The words of a line of subwords."""
    return _JOINED.sub("", line)
