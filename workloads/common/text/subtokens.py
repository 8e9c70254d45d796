"""tensor2tensor's subtokens: text to ids and back without loss, by the greedy longest match in a vocabulary.

Text is cut where letters and numbers meet anything else; a single space between two such tokens is implied. In a token
"\\" is written as "\\\\", "_" as "\\u", and a character that no subtoken has as "\\NUMBER;"; "_" ends it. Then the longest
subtoken that fits is taken, again and again (reference utils/tokenizer.py).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from pathlib import Path

from workloads.common.data.lines import read_entries
from workloads.common.text.vocabulary import PAD

END = 1
"""The id of EOS; that of padding is 0. They are the first two lines of a vocabulary, however they are written there."""
ESCAPING = "\\_u;0123456789"
"""Characters that escaped text may have: each must be a subtoken."""
UNDEFINED = "〓"
"""Stands for a number that is no character's."""
CACHED = 1 << 20
"""Tokens whose subtokens are kept."""
_TOKEN = re.compile(r"[^\W_]+|[\W_]+")
"""Letters and numbers (categories L and N) in a row, or anything else in a row."""
_ESCAPED = re.compile(r"\\u|\\\\|\\([0-9]+);")


class Subtokeniser:
    """Text to ids and back."""

    def __init__(self, subtokens: Sequence[str], name: str = "vocabulary") -> None:
        """`subtokens`: line n of the file is id n. Raises ValueError naming `name` for one that is there twice or missing."""
        self.subtokens = tuple(subtokens)
        self.ids: dict[str, int] = {}
        """Subtoken to id, but for padding and EOS, which no text has."""
        for place, subtoken in enumerate(self.subtokens[END + 1 :], END + 1):
            if self.ids.setdefault(subtoken, place) != place:
                raise ValueError(f"{name}:{place + 1}: {subtoken!r} stands in line {self.ids[subtoken] + 1} too")
        self.alphabet = frozenset("".join(self.ids))
        missing = sorted((self.alphabet | set(ESCAPING)) - set(self.ids))
        if missing:
            raise ValueError(f"{name}: {missing[0]!r} is not a subtoken; each character in use must be one")
        self.longest = max(map(len, self.ids))
        self._known: dict[str, list[int]] = {}

    @classmethod
    def read(cls, path: Path, name: str = "") -> Subtokeniser:
        """Return the vocabulary in a file with a quoted subtoken per line. Raises ValueError with `name`, or the path."""
        name = name or str(path)
        quoted = [line.strip() for line in read_entries(path, name)]
        for number, line in enumerate(quoted, 1):
            if len(line) < 3 or line[0] not in "'\"" or line[0] != line[-1]:
                raise ValueError(f"{name}:{number}: {line!r} is not a subtoken in quotes")
        return cls([line[1:-1] for line in quoted], name)

    def write(self, path: Path) -> None:
        path.write_text("".join(f"'{subtoken}'\n" for subtoken in self.subtokens), encoding="utf-8", newline="\n")

    def __len__(self) -> int:
        """Ids, padding and EOS included."""
        return len(self.subtokens)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without EOS."""
        encoded: list[int] = []
        for token in tokens(text):
            ids = self._known.get(token)
            if ids is None:
                ids = [self.ids[piece] for piece in self.pieces(escaped(token, self.alphabet))]
                if len(self._known) < CACHED:
                    self._known[token] = ids
            encoded += ids
        return encoded

    def pieces(self, text: str) -> list[str]:
        """The greedy longest matches of an escaped token, each a subtoken."""
        cut, start = list[str](), 0
        while start < len(text):
            stop = min(len(text), start + self.longest)
            while text[start:stop] not in self.ids:  # ends: every character is a subtoken
                stop -= 1
            cut.append(text[start:stop])
            start = stop
        return cut

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids up to the first EOS, without padding and ids beyond the vocabulary."""
        written = []
        for number in ids:
            if number == END:
                break
            if number != PAD and number < len(self.subtokens):
                written.append(self.subtokens[number])
        words = [_ESCAPED.sub(_character, token) for token in "".join(written).split("_") if token]
        return joined(words)


def tokens(text: str) -> list[str]:
    """A text's tokens; spaces between two of them are left out, not those at its ends."""
    parts = _TOKEN.findall(text)
    last = len(parts) - 1
    return [token for place, token in enumerate(parts) if token != " " or place in (0, last)]


def escaped(token: str, alphabet: Container[str]) -> str:
    """A token in characters of the alphabet, with what ends it."""
    token = token.replace("\\", "\\\\").replace("_", "\\u")
    return "".join(c if c in alphabet and c != "\n" else f"\\{ord(c)};" for c in token) + "_"


def joined(parts: Sequence[str]) -> str:
    """The text of tokens: a space between two that begin with a letter or a number."""
    text, before = [], False
    for token in parts:
        is_word = token[:1].isalnum()
        if before and is_word:
            text.append(" ")
        text.append(token)
        before = is_word
    return "".join(text)


def _character(match: re.Match[str]) -> str:
    """What an escape stands for."""
    if match.group(1) is None:
        return "_" if match.group() == "\\u" else "\\"
    try:
        return chr(int(match.group(1)))
    except (ValueError, OverflowError):
        return UNDEFINED
