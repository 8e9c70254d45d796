"""Generated text of the demo: documents of a small stochastic grammar.

A document has a topic and 4 to 11 sentences. The topic determines which nouns and verbs are
frequent. Three rules need attention over several tokens: a verb's ending agrees with its subject,
the word `same` is followed by the last object, and an adjective agrees with the noun after it. All
choices are drawn from integer weights by hashing (SplitMix64), so the text is the same on every
machine.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from workloads.common.arrays import Int32s

VOCABULARY = 256
"""Number of ids, of which 207 occur."""
TOPICS, CLASSES = 8, 4
NOUNS, VERBS, ADJECTIVES, PREPOSITIONS = 96, 48, 32, 8
STOP, WHO, SAME = 0, 1, 2
"""Ids of the full stop, the relative pronoun, and the word that refers to the last object."""
FIRST_TOPIC, FIRST_ENDING, FIRST_DETERMINER, FIRST_NOUN = 3, 11, 19, 24
FEWEST_SENTENCES, SENTENCE_COUNTS = 4, 8
TOTAL = 1 << 16
"""Sum of the weights of a choice."""
_GAMMA, _MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1


def _mix(state: int) -> int:
    """Return SplitMix64's output function of a 64-bit state."""
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
    return state ^ (state >> 31)


def _key(seed: int, label: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}:{label}".encode()).digest()[:8], "little")


class _Random:
    """Sequence of 64-bit integers."""

    def __init__(self, key: int) -> None:
        self._key, self._count = key, 0

    def bits(self) -> int:
        """Return the next integer."""
        self._count += 1
        return _mix((self._key + self._count * _GAMMA) & _MASK)

    def bit(self) -> int:
        """Return 0 or 1."""
        return self.bits() >> 63

    def below(self, limit: int) -> int:
        """Return an integer from 0 to `limit` - 1."""
        return (self.bits() >> 32) * limit >> 32

    def happens(self, weight: int) -> bool:
        """Return True with probability `weight` / TOTAL."""
        return self.bits() >> 48 < weight

    def permutation(self, size: int) -> list[int]:
        """Return a permutation of 0 … size - 1."""
        order = list(range(size))
        for last in range(size - 1, 0, -1):
            chosen = self.below(last + 1)
            order[last], order[chosen] = order[chosen], order[last]
        return order


@dataclass(frozen=True)
class _Table:
    """Ids with their cumulative weights."""

    ids: Sequence[int]
    ends: Sequence[int]

    def draw(self, random: _Random) -> int:
        """Return a random id."""
        return self.ids[bisect.bisect_right(self.ends, random.bits() >> 48)]


def _zipf_ends(count: int) -> list[int]:
    """Return the cumulative weights of ranks, proportional to 1 / (rank + 2), up to TOTAL."""
    raw = [(1 << 32) // (rank + 2) for rank in range(count)]
    weights = [max(1, value * TOTAL // sum(raw)) for value in raw]
    weights[0] += TOTAL - sum(weights)
    return list(itertools.accumulate(weights))


class Grammar:
    """Words and tables of the grammar, which a seed determines."""

    def __init__(self, seed: int = 0) -> None:
        random = _Random(_key(seed, "grammar"))
        nouns = range(FIRST_NOUN, FIRST_NOUN + NOUNS)
        verbs = range(nouns.stop, nouns.stop + VERBS)
        adjectives = range(verbs.stop, verbs.stop + ADJECTIVES)
        prepositions = range(adjectives.stop, adjectives.stop + PREPOSITIONS)
        order = random.permutation(NOUNS)
        self._class_of = {nouns[number]: place % CLASSES for place, number in enumerate(order)}

        def tables(words: range, count: int) -> list[_Table]:
            ends = _zipf_ends(len(words))
            return [
                _Table([words[number] for number in random.permutation(len(words))], ends)
                for _ in range(count)
            ]

        self._nouns, self._verbs = tables(nouns, TOPICS), tables(verbs, TOPICS)
        self._adjectives = tables(adjectives, CLASSES)
        self._prepositions = dict(zip(verbs, tables(prepositions, VERBS), strict=True))

    def document(self, random: _Random) -> list[int]:
        """Return the ids of a document."""
        topic = random.bits() >> 48
        topic = topic * TOPICS // TOTAL
        ids, last = [FIRST_TOPIC + topic], -1
        for _ in range(FEWEST_SENTENCES + random.below(SENTENCE_COUNTS)):
            if last >= 0 and random.happens(TOTAL // 2):
                ids += [SAME, last]
                subject, number = last, 0
            else:
                subject, number = self._noun_phrase(random, topic, ids)
            ending = FIRST_ENDING + 2 * self._class_of[subject] + number
            if random.happens(TOTAL // 4):
                ids += [WHO, self._verbs[topic].draw(random), ending]
                last, _ = self._noun_phrase(random, topic, ids)
            verb = self._verbs[topic].draw(random)
            ids += [verb, ending]
            last, _ = self._noun_phrase(random, topic, ids)
            if random.happens(TOTAL // 3):
                ids.append(self._prepositions[verb].draw(random))
                self._noun_phrase(random, topic, ids)
            ids.append(STOP)
        return ids

    def _noun_phrase(self, random: _Random, topic: int, ids: list[int]) -> tuple[int, int]:
        """Append a determiner, in a third of the phrases an adjective, and a noun.

        Returns the noun, and 0 for singular or 1 for plural.
        """
        number, variant = random.bit(), random.bit()
        ids.append(FIRST_DETERMINER + 2 * number + variant)
        noun = self._nouns[topic].draw(random)
        if random.happens(TOTAL // 3):
            ids.append(self._adjectives[self._class_of[noun]].draw(random))
        ids.append(noun)
        return noun, number


def documents(seed: int, label: str, tokens: int) -> Iterator[Int32s]:
    """Yield documents (n,) int32 until they have at least `tokens` tokens.

    Args:
        seed: Seed of the text.
        label: Name of the split, such as `train`. Each split has different documents.
        tokens: Smallest number of tokens.
    """
    grammar, key, written = Grammar(seed), _key(seed, label), 0
    for number in itertools.count(1):
        if written >= tokens:
            return
        ids = grammar.document(_Random(_mix((key + number * _GAMMA) & _MASK)))
        written += len(ids)
        yield np.array(ids, np.int32)
