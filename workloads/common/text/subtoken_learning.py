"""Learn a vocabulary of subtokens from text, for runs in the open division.

The algorithm is tensor2tensor's `build_from_token_counts`. The algorithm builds the vocabulary in
four rounds, starting with single characters as subtokens. Each round splits the tokens into
subtokens of the previous vocabulary by the greedy longest match. The round then counts all segments
of the tokens that begin at the first character of a subtoken. A segment is counted once for each
occurrence of its token in the text. The next vocabulary consists of the frequent segments, which
are chosen in the order of decreasing length. When a segment is chosen, its count is subtracted from
the counts of its prefixes.

The minimum count of a chosen segment determines the size of the vocabulary. A binary search finds
the minimum count for the requested size. The algorithm has two differences from tensor2tensor:

- The rarest subtokens are removed until the vocabulary has exactly the requested size.
  tensor2tensor accepts a deviation of 1 %.
- Subtokens with equal counts are sorted alphabetically, so that equal text gives equal files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from workloads.common.data.lines import blocks
from workloads.common.text.subtokens import ESCAPING, Subtokeniser, escaped, tokens

RESERVED = ("<pad>_", "<EOS>_")
"""Subtokens for padding and EOS, in the spelling of the published vocabulary."""
SIZE = 32_768
"""Requested size of the published vocabulary (tensor2tensor's wmt32k). The published vocabulary has
33,708 subtokens.
"""
FILE_BYTES = 1_000_000
"""Number of bytes to read from each file. The lines are sampled from the whole file.

The number is from reference tokenizer.py, _generate_token_counts.
"""
ROUNDS = 4
"""Number of rounds of the algorithm (reference tokenizer.py, _generate_subtokens)."""
MOST = 1_000
"""Upper limit of the binary search for the minimum count of a segment.

The limit is from reference tokenizer.py, _MAX_MIN_COUNT.
"""
TOLERANCE = 0.01
"""Maximum relative excess over the requested vocabulary size at which the binary search ends.

The value is from reference tokenizer.py, target_threshold.
"""
LONGEST = 64
"""Maximum number of characters in a segment. tensor2tensor has an option for this limit.

Without a limit, a line of thousands of characters without spaces would have millions of segments.
"""


def count_tokens(files: Iterable[Path]) -> Counter[str]:
    """Count the tokens in a sample of the lines of text files.

    The function raises ValueError if a file cannot be read. The error message contains the file
    name and the line number.
    """
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
    """Return a vocabulary of `size` subtokens.

    The two reserved subtokens come first, then the remaining subtokens sorted by frequency. Equal
    token counts give an equal vocabulary.

    Raises:
        ValueError: The text has too many different characters, or too few words, for this size. The
            error message contains a possible size.
    """
    alphabet = {character for token in counts for character in token} | set(ESCAPING)
    least = len(RESERVED) + len(alphabet)
    if size < least:
        raise ValueError(
            f"--size {size}: the characters of the text alone need {least:,} subtokens. Set --size"
            f" to {least} or more"
        )
    texts = {escaped(token, alphabet): count for token, count in sorted(counts.items())}
    first = _count_segments(texts, sorted(alphabet))
    low, high = 1, MOST
    best: list[str] | None = None
    # The loop searches for a minimum count that gives a vocabulary size within the tolerance. If no
    # minimum count does, the highest minimum count that gives enough subtokens is used.
    while low <= high:
        middle = (low + high) // 2
        learned = _build(texts, alphabet, first, middle)
        if len(RESERVED) + len(learned) >= size:
            best, low = learned, middle + 1
            if len(RESERVED) + len(learned) <= size * (1 + TOLERANCE):
                break
        else:
            high, most = middle - 1, len(RESERVED) + len(learned)
    if best is None:
        raise ValueError(
            f"--size {size}: this text gives at most {most:,} subtokens. Set --size to {most} or"
            " less, or add more text"
        )
    return [*RESERVED, *_cut(best, alphabet, size - len(RESERVED))]


def _build(
    texts: Mapping[str, int], alphabet: set[str], first: Mapping[str, int], least: int
) -> list[str]:
    """Return the subtokens after all rounds, with the most frequent subtoken first.

    Args:
        texts: Number of occurrences of each token.
        alphabet: Characters that every vocabulary contains.
        first: Counts of the segments if the tokens are split into characters.
        least: Minimum count of a segment.
    """
    chosen = _choose_segments(first, alphabet, least)
    for _ in range(ROUNDS - 1):
        chosen = _choose_segments(_count_segments(texts, chosen), alphabet, least)
    return chosen


def _count_segments(texts: Mapping[str, int], subtokens: Sequence[str]) -> Counter[str]:
    """Count the segments of the tokens that begin at the first character of a subtoken."""
    cut = Subtokeniser([*RESERVED, *subtokens])
    counts: Counter[str] = Counter()
    for text, count in texts.items():
        start = 0
        for piece in cut.pieces(text):
            for stop in range(start + 1, min(start + LONGEST, len(text)) + 1):
                counts[text[start:stop]] += count
            start += len(piece)
    return counts


def _choose_segments(count_of: Mapping[str, int], alphabet: set[str], least: int) -> list[str]:
    """Return all characters and the frequent segments, most frequent segment first.

    The segments are chosen in the order of decreasing length. The count of a chosen segment is
    subtracted from the counts of its prefixes.
    """
    counts = {text: count for text, count in count_of.items() if count >= least}
    chosen = dict.fromkeys(alphabet, 0)
    for text in sorted(counts, key=lambda text: (-len(text), text)):
        count = counts[text]
        if count < least:
            continue
        chosen[text] = count
        # A prefix is at least as frequent as its segment, so `counts` also contains every prefix of
        # a segment.
        for stop in range(1, len(text)):
            counts[text[:stop]] -= count
    return sorted(chosen, key=lambda text: (-chosen[text], text))


def _cut(subtokens: Sequence[str], alphabet: set[str], size: int) -> list[str]:
    """Return `size` subtokens: all characters, and the first of the remaining subtokens."""
    spare = len(subtokens) - size
    kept = []
    for text in reversed(subtokens):
        if spare and text not in alphabet:
            spare -= 1
        else:
            kept.append(text)
    return kept[::-1]
