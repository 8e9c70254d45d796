"""A vocabulary of subtokens, learned from text, for open runs: what tensor2tensor's `build_from_token_counts` does.

Tokens are cut by the greedy longest match into the subtokens that are known (characters at first). Every segment of a token
that begins where a subtoken does counts as often as the token stands in the text; frequent segments, long ones first, are
the next vocabulary, and what one takes no longer counts for the beginnings of it. Four rounds of that make a vocabulary; how
often a segment must be found decides its size, and is searched for. Two things differ: the rarest subtokens are left out
until the size is the one asked for, where tensor2tensor is content with 1 % more or fewer, and ties are broken by the
alphabet, so that equal text gives equal files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from workloads.common.data.lines import blocks
from workloads.common.text.subtokens import ESCAPING, Subtokeniser, escaped, tokens

RESERVED = ("<pad>_", "<EOS>_")
"""Padding and EOS as the published vocabulary writes them."""
SIZE = 32_768
"""That the published vocabulary aims at (tensor2tensor's wmt32k); it has 33,708."""
FILE_BYTES = 1_000_000
"""Of each file, lines spread over the whole of it (reference tokenizer.py, _generate_token_counts)."""
ROUNDS = 4
"""Reference tokenizer.py, _generate_subtokens."""
MOST = 1_000
"""The highest count asked of a subtoken (reference tokenizer.py, _MAX_MIN_COUNT)."""
TOLERANCE = 0.01
"""A vocabulary so much larger than asked for ends the search (reference tokenizer.py: target_threshold)."""
LONGEST = 64
"""Characters of a segment: a line of thousands without a space would have millions. tensor2tensor's limit is an option."""


def count_tokens(files: Iterable[Path]) -> Counter[str]:
    """How often each token stands in the lines read. Raises ValueError naming a file that cannot be read, and its line."""
    counts: Counter[str] = Counter()
    for path in files:
        try:
            every = -(-path.stat().st_size // FILE_BYTES)
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}") from None
        for first, lines in blocks(path):
            for line in lines[-(first - 1) % every :: every]:
                counts.update(tokens(line.strip()))
    return counts


def learn(counts: Mapping[str, int], size: int) -> list[str]:
    """A vocabulary of `size` subtokens, the first two reserved, then the most frequent first. Equal counts, equal result.

    Raises ValueError, naming the sizes that are possible, where the text has too many characters or too few words.
    """
    alphabet = {character for token in counts for character in token} | set(ESCAPING)
    least = len(RESERVED) + len(alphabet)
    if size < least:
        raise ValueError(f"--size {size}: the text's characters alone make {least:,} subtokens; ask for more")
    texts = {escaped(token, alphabet): count for token, count in sorted(counts.items())}
    first = _stretches(texts, sorted(alphabet))
    low, high = 1, MOST
    best: list[str] | None = None
    while low <= high:  # for a count that gives hardly too many, or the highest that gives enough
        middle = (low + high) // 2
        learned = _build(texts, alphabet, first, middle)
        if len(RESERVED) + len(learned) >= size:
            best, low = learned, middle + 1
            if len(RESERVED) + len(learned) <= size * (1 + TOLERANCE):
                break
        else:
            high, most = middle - 1, len(RESERVED) + len(learned)
    if best is None:
        raise ValueError(f"--size {size}: the text gives {most:,} subtokens at most; ask for fewer, or name more text")
    return [*RESERVED, *_cut(best, alphabet, size - len(RESERVED))]


def _build(texts: Mapping[str, int], alphabet: set[str], first: Mapping[str, int], least: int) -> list[str]:
    """The subtokens that are found at least so often, the most frequent first; `first`: segments of texts cut by character."""
    chosen = _chosen(first, alphabet, least)
    for _ in range(ROUNDS - 1):
        chosen = _chosen(_stretches(texts, chosen), alphabet, least)
    return chosen


def _stretches(texts: Mapping[str, int], subtokens: Sequence[str]) -> Counter[str]:
    """How often each segment of a text that begins where a subtoken does is found."""
    cut = Subtokeniser([*RESERVED, *subtokens])
    counts: Counter[str] = Counter()
    for text, count in texts.items():
        start = 0
        for piece in cut.pieces(text):
            for stop in range(start + 1, min(start + LONGEST, len(text)) + 1):
                counts[text[start:stop]] += count
            start += len(piece)
    return counts


def _chosen(count_of: Mapping[str, int], alphabet: set[str], least: int) -> list[str]:
    """The segments that stay frequent when longer ones have taken theirs, and all characters; the most frequent first."""
    counts = {text: count for text, count in count_of.items() if count >= least}
    chosen = dict.fromkeys(alphabet, 0)
    for text in sorted(counts, key=lambda text: (-len(text), text)):
        count = counts[text]
        if count < least:
            continue
        chosen[text] = count
        for stop in range(1, len(text)):  # every beginning of a frequent segment is as frequent, so it is there
            counts[text[:stop]] -= count
    return sorted(chosen, key=lambda text: (-chosen[text], text))


def _cut(subtokens: Sequence[str], alphabet: set[str], size: int) -> list[str]:
    """The first of them, and every character."""
    spare = len(subtokens) - size
    kept = []
    for text in reversed(subtokens):
        if spare and text not in alphabet:
            spare -= 1
        else:
            kept.append(text)
    return kept[::-1]
