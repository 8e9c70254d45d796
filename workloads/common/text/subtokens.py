r"""Subtokens of tensor2tensor: convert text to ids by greedy longest match, and back.

The conversion loses no information. Text is split into tokens at each boundary between alphanumeric
characters and other characters. A single space between two alphanumeric tokens is implied. The
characters of a token are escaped: "\" becomes "\\", "_" becomes "\u", and a character outside the
vocabulary becomes "\NUMBER;". "_" marks the end of a token. The escaped token is then split into
subtokens: at each position, the longest matching subtoken is chosen (reference utils/tokenizer.py).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from pathlib import Path

from workloads.common.data.lines import read_entries
from workloads.common.text.vocabulary import PAD

END = 1
"""Id of EOS.

The id of padding is 0. The first two lines of a vocabulary file stand for padding and EOS, in any
spelling.
"""
ESCAPING = "\\_u;0123456789"
"""Characters that escaping can add to a token. Each of these characters must be a subtoken."""
UNDEFINED = "〓"
"""Replacement for an escaped number that is not a valid character code."""
CACHED = 1 << 20
"""Maximum number of tokens whose subtokens are cached."""
_TOKEN = re.compile(r"[^\W_]+|[\W_]+")
"""Pattern of a token: a sequence of letters and numbers (Unicode categories L and N), or a
sequence of all other characters.
"""
_ESCAPED = re.compile(r"\\u|\\\\|\\([0-9]+);")


class Subtokeniser:
    """Vocabulary of subtokens that converts text to ids and back."""

    def __init__(self, subtokens: Sequence[str], name: str = "vocabulary") -> None:
        """Create the vocabulary.

        Args:
            subtokens: Subtokens in the order of their ids. Each line of the vocabulary file is a
                subtoken.
            name: Name of the vocabulary for messages.

        Raises:
            ValueError: A subtoken is repeated, or a required character is not a subtoken.
        """
        self.subtokens = tuple(subtokens)
        self.ids: dict[str, int] = {}
        """Id of each subtoken. Padding and EOS are not included, because they do not occur in
        text.
        """
        for index, subtoken in enumerate(self.subtokens[END + 1 :], END + 1):
            if self.ids.setdefault(subtoken, index) != index:
                raise ValueError(
                    f"{name}:{index + 1}: {subtoken!r} is already in line {self.ids[subtoken] + 1}"
                )
        self.alphabet = frozenset("".join(self.ids))
        missing = sorted((self.alphabet | set(ESCAPING)) - set(self.ids))
        if missing:
            raise ValueError(
                f"{name}: no subtoken {missing[0]!r}. Each character of the subtokens must be a"
                " subtoken"
            )
        self.longest = max(map(len, self.ids))
        self._cached_ids: dict[str, list[int]] = {}

    @classmethod
    def read(cls, path: Path, name: str = "") -> Subtokeniser:
        """Read a vocabulary file with one quoted subtoken per line.

        The method raises ValueError if the file is invalid. The error message contains `name`, or
        the path if `name` is empty.
        """
        name = name or str(path)
        quoted = [line.strip() for line in read_entries(path, name)]
        for number, line in enumerate(quoted, 1):
            if len(line) < 3 or line[0] not in "'\"" or line[0] != line[-1]:
                raise ValueError(f"{name}:{number}: {line!r} is not a subtoken in quotes")
        return cls([line[1:-1] for line in quoted], name)

    def write(self, path: Path) -> None:
        path.write_text(
            "".join(f"'{subtoken}'\n" for subtoken in self.subtokens),
            encoding="utf-8",
            newline="\n",
        )

    def __len__(self) -> int:
        """Return the number of ids, including padding and EOS."""
        return len(self.subtokens)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without EOS."""
        encoded: list[int] = []
        for token in tokens(text):
            ids = self._cached_ids.get(token)
            if ids is None:
                ids = [self.ids[piece] for piece in self.pieces(escaped(token, self.alphabet))]
                if len(self._cached_ids) < CACHED:
                    self._cached_ids[token] = ids
            encoded += ids
        return encoded

    def pieces(self, text: str) -> list[str]:
        """Split an escaped token into subtokens by the greedy longest match."""
        cut, start = list[str](), 0
        while start < len(text):
            stop = min(len(text), start + self.longest)
            # The loop always ends, because every single character is a subtoken.
            while text[start:stop] not in self.ids:
                stop -= 1
            cut.append(text[start:stop])
            start = stop
        return cut

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids before the first EOS.

        Padding and ids beyond the vocabulary are skipped.
        """
        written = []
        for number in ids:
            if number == END:
                break
            if number != PAD and number < len(self.subtokens):
                written.append(self.subtokens[number])
        words = [_ESCAPED.sub(_character, token) for token in "".join(written).split("_") if token]
        return joined(words)


def tokens(text: str) -> list[str]:
    """Split a text into tokens.

    A space that is the only character between two alphanumeric tokens is not a token. Spaces at the
    ends of the text are tokens.
    """
    parts = _TOKEN.findall(text)
    last = len(parts) - 1
    return [token for index, token in enumerate(parts) if token != " " or index in (0, last)]


def escaped(token: str, alphabet: Container[str]) -> str:
    """Escape a token's characters that are not in `alphabet`, and append the end mark "_"."""
    token = token.replace("\\", "\\\\").replace("_", "\\u")
    return "".join(c if c in alphabet and c != "\n" else f"\\{ord(c)};" for c in token) + "_"


def joined(parts: Sequence[str]) -> str:
    """Join tokens to a text, with a space between two alphanumeric tokens."""
    text, before = [], False
    for token in parts:
        is_word = token[:1].isalnum()
        if before and is_word:
            text.append(" ")
        text.append(token)
        before = is_word
    return "".join(text)


def _character(match: re.Match[str]) -> str:
    """Return the character of an escape sequence."""
    if match.group(1) is None:
        return "_" if match.group() == "\\u" else "\\"
    try:
        return chr(int(match.group(1)))
    except (ValueError, OverflowError):
        return UNDEFINED
