"""Convert subwords to ids and back, with special ids, and join subwords to words.

In a line of subwords, the subwords are separated by spaces. "@@" at the end of a subword means that
the word continues in the next subword (subword-nmt).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from workloads.common.data.lines import read_entries

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""Ids of padding, unknown subwords, begin of sentence, and end of sentence.

The ids are from reference seq2seq/data/config.py.
"""
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
"""Spelling of the special ids. The ids of subwords start at the number of special ids."""
JOINER = "@@"

_JOINED = re.compile(f"{JOINER}( |$)")


@dataclass(frozen=True)
class Framing:
    """Special ids at the beginning and the end of a sentence."""

    start: int = BOS
    """Id that the decoder receives before the first subword."""
    end: int = EOS
    begin: int | None = BOS
    """First id of a source sentence.

    With an id, the lengths of source and target sentences include it. With None, a source sentence
    begins with a subword.
    """

    @property
    def extra(self) -> int:
        """Return the number of special ids that are included in a sentence's length."""
        return 1 if self.begin is None else 2


GNMT = Framing()
"""Framing of source and target sentences with BOS and EOS (reference dataset.py).

The decoder's input is the target without the last id. The decoder's expected output is the target
without the first id.
"""
SHIFTED = Framing(start=PAD, begin=None)
"""Framing with EOS only (Transformer).

The decoder's input is padding, followed by the target without the last id.
"""


class _Ids(dict[str, int]):
    """Dictionary from a subword to its id, or to UNK for an unknown subword.

    Looking up a subword of the vocabulary does not execute Python code.
    """

    def __missing__(self, key: str) -> int:
        return UNK


class Vocabulary:
    """Vocabulary of subwords of both languages. The first line of its file has id 4."""

    def __init__(self, subwords: Sequence[str], name: str = "vocabulary") -> None:
        """Create the vocabulary.

        Args:
            subwords: Subwords in the order of their ids. An empty string stands for a line of white
                space. The string has an id, but does not occur in text.
            name: Name of the vocabulary for messages.

        Raises:
            ValueError: A subword is repeated or contains a space. The error message contains the
                name and the line number.
        """
        self.subwords = tuple(subwords)
        self.ids: dict[str, int] = _Ids()
        """Id of each subword. The dictionary does not contain special ids."""
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
        """Read a vocabulary file with one subword per line.

        The method raises ValueError if the file is invalid. The error message contains the line
        number and `name`, or the path if `name` is empty.
        """
        name = name or str(path)
        return cls([line.strip() for line in read_entries(path, name)], name)

    def write(self, path: Path) -> None:
        path.write_text("".join(f"{subword}\n" for subword in self.subwords), encoding="utf-8")

    def __len__(self) -> int:
        """Return the number of ids, including special ids."""
        return len(self.subwords) + len(SPECIALS)

    def encode(self, line: str) -> list[int]:
        """Return the ids of a line of subwords, without BOS and EOS.

        The id of an unknown subword is UNK.
        """
        return list(map(self.ids.__getitem__, line.split()))

    def decode(self, ids: Iterable[int]) -> str:
        """Return the words of the ids before the first EOS, separated by spaces.

        PAD and BOS are skipped, and subwords are joined to words. Ids beyond the vocabulary are
        decoded as UNK. A model can predict such ids if its embedding table has padding rows.
        """
        words = []
        for number in ids:
            if number == EOS:
                break
            if number not in (PAD, BOS):
                words.append(self.word(int(number)))
        return join_subwords(" ".join(words))

    def word(self, number: int) -> str:
        """Return the subword or special symbol with this id."""
        if number < len(SPECIALS):
            return SPECIALS[number]
        return self.subwords[number - len(SPECIALS)] if number < len(self) else SPECIALS[UNK]


def padded_size(size: int, multiple: int) -> int:
    """Round the number of rows of an embedding table up to a multiple of `multiple`.

    In the reference's fp16 runs, the embedding tables have 32,320 = 8 · 4,040 rows.
    """
    return -(-size // multiple) * multiple


def join_subwords(line: str) -> str:
    """Join the subwords of a line to words."""
    return _JOINED.sub("", line)
