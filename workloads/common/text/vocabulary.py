"""Convert subwords to ids and back, with special ids, and join subwords to words.

In a line of subwords, the pieces are separated by spaces. "@@" at the end of a piece marks that the
word continues in the next piece (subword-nmt).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from workloads.common.data.lines import read_entries

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""Ids of padding, an unknown subword, and begin and end of a sentence.

Source: reference seq2seq/data/config.py.
"""
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
"""Spelling of the special ids, which come before the ids of subwords."""
JOINER = "@@"

_JOINED = re.compile(f"{JOINER}( |$)")


@dataclass(frozen=True)
class Framing:
    """The special ids that enclose a sentence."""

    start: int = BOS
    """Input of the decoder before the first subword."""
    end: int = EOS
    begin: int | None = BOS
    """First id of a source sentence.

    It counts in the lengths of both sides. None: a source begins with a subword.
    """

    @property
    def extra(self) -> int:
        """Number of special ids that count in the length of a sentence."""
        return 1 if self.begin is None else 2


GNMT = Framing()
"""BOS and EOS on both sides (reference dataset.py).

The input of the decoder is the target without the last id. The expected output is the target
without the first id.
"""
SHIFTED = Framing(start=PAD, begin=None)
"""EOS only (Transformer).

The input of the decoder is padding, then the target without the last id.
"""


class _Ids(dict[str, int]):
    """Subword to id, or UNK for an unknown subword.

    Lookups of subwords in the dictionary do not call Python code.
    """

    def __missing__(self, key: str) -> int:
        return UNK


class Vocabulary:
    """The subwords of both languages. The first line of the file has id 4."""

    def __init__(self, subwords: Sequence[str], name: str = "vocabulary") -> None:
        """Create the vocabulary.

        Args:
            subwords: Subwords in the order of their ids. An empty string (a line of white space)
                occupies an id, but does not occur in text.
            name: Name of the vocabulary for messages.

        Raises:
            ValueError: A subword is repeated or contains a space. The message contains name and
                line.
        """
        self.subwords = tuple(subwords)
        self.ids: dict[str, int] = _Ids()
        """Subword to id, without the special ids."""
        for number, subword in enumerate(self.subwords, 1):
            if " " in subword or "\t" in subword:
                raise ValueError(
                    f"{name}:{number}: expected one subword per line, without a count, got"
                    f" {subword!r}"
                )
            if not subword:
                continue
            if subword in self.ids:
                first = self.ids[subword] - len(SPECIALS) + 1
                raise ValueError(f"{name}:{number}: {subword!r} is already in line {first}")
            self.ids[subword] = number - 1 + len(SPECIALS)

    @classmethod
    def read(cls, path: Path, name: str = "") -> Vocabulary:
        """Read a file with one subword per line.

        Raises ValueError with the line and `name`, or the path.
        """
        name = name or str(path)
        return cls([line.strip() for line in read_entries(path, name)], name)

    def write(self, path: Path) -> None:
        path.write_text("".join(f"{subword}\n" for subword in self.subwords), encoding="utf-8")

    def __len__(self) -> int:
        """Return the number of ids, special ids included."""
        return len(self.subwords) + len(SPECIALS)

    def encode(self, line: str) -> list[int]:
        """Return the ids of a line of subwords, without BOS and EOS.

        The id of an unknown subword is UNK.
        """
        return list(map(self.ids.__getitem__, line.split()))

    def decode(self, ids: Iterable[int]) -> str:
        """Return the words of the ids up to the first EOS, separated by spaces.

        PAD and BOS are skipped, and subwords are joined to words. Ids beyond the vocabulary, which
        exist only as padding of a model's table, are decoded as UNK.
        """
        words = []
        for number in ids:
            if number == EOS:
                break
            if number not in (PAD, BOS):
                words.append(self.word(int(number)))
        return join_subwords(" ".join(words))

    def word(self, number: int) -> str:
        """Return the subword or special symbol of an id."""
        if number < len(SPECIALS):
            return SPECIALS[number]
        return self.subwords[number - len(SPECIALS)] if number < len(self) else SPECIALS[UNK]


def padded_size(size: int, multiple: int) -> int:
    """Round up to a multiple, for the number of rows of a model's tables.

    The tables of the reference's fp16 runs have 32,320 = 8 · 4,040 rows.
    """
    return -(-size // multiple) * multiple


def join_subwords(line: str) -> str:
    """Join the subwords of a line to words."""
    return _JOINED.sub("", line)
