"""Words of the two generated languages, invented by hash and sorted by frequency.

The source language has few inflections: nouns have a plural, and verbs have two endings. Target
nouns have a gender and a declension. 20 % of the nouns and verbs have two translations, and the
context determines the translation. Some target verbs have a separable prefix.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Generic, TypeVar

from workloads.common.randomness import Draws, fold, stream

SEED = 1
"""Seed of the generated corpus. The seeds of runs do not change the corpus."""
NOUNS, VERBS, ADJECTIVES, ADVERBS, NAMES, IDIOMS = 120, 50, 40, 24, 30, 16
AMBIGUOUS = 0.2
"""Fraction of nouns and verbs that have a second translation."""
TRANSITIVE, SEPARABLE = 0.6, 0.35
"""Fraction of verbs that have an object, and fraction of verb translations that have a separable
prefix.
"""
SHIFT = 2.7
"""Shift of the Zipf-Mandelbrot distribution: the word of rank r = 0, 1, … has the weight 1 / (r +
2.7).
"""

SOURCE_SOUNDS = (
    ("b", "br", "d", "f", "g", "gl", "h", "k", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "w"),
    ("a", "e", "i", "o", "u", "ea", "oo"),
    ("", "", "n", "r", "l", "ck", "nd", "t", "m", "ss"),
)  # fmt: skip
TARGET_SOUNDS = (
    ("b", "d", "f", "g", "h", "j", "k", "kn", "l", "m", "n", "pf", "r", "sch", "st", "t", "v", "z",
     "zw"),
    ("a", "e", "i", "o", "u", "ä", "ö", "ü", "ei", "au"),
    ("", "", "n", "r", "l", "ch", "ng", "t", "m", "ß"),
)  # fmt: skip
"""Possible first consonants, vowels, and last consonants of the syllables of a target word."""
PREFIXES = ("ab", "auf", "mit", "um", "vor")

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class TargetNoun:
    """A translation of a source noun."""

    stem: str
    gender: int
    """Gender of the noun: 0, 1, or 2."""
    declension: int
    """Declension of the noun: 0, 1, or 2. The declension is the index of the plural ending."""


@dataclass(frozen=True)
class Noun:
    """A noun of the source language with its translations."""

    source: str
    senses: tuple[TargetNoun, ...]
    """One or two translations. The second translation is used if the verb of the clause has
    `kind` 1.
    """
    synonym: TargetNoun
    """Synonym of the first translation."""
    kind: int
    """Class of the noun, 0 or 1. The class of a noun determines how verbs are translated."""


@dataclass(frozen=True)
class TargetVerb:
    """A translation of a source verb."""

    stem: str
    prefix: str
    """Separable prefix of the verb, which comes at the end of a main clause. Empty if the verb
    has no prefix.
    """


@dataclass(frozen=True)
class Verb:
    """A verb of the source language with its translations."""

    source: str
    senses: tuple[TargetVerb, ...]
    """One or two translations.

    The second translation is used if the object has `kind` 1. For a verb without object, the `kind`
    of the subject selects the translation.
    """
    transitive: bool
    kind: int
    """Class of the verb, 0 or 1. The class of a verb determines how nouns are translated."""


class Ranked(Generic[Kind]):
    """Words or phrases that are drawn with Zipf-Mandelbrot frequencies."""

    def __init__(self, things: Sequence[Kind]) -> None:
        self.things = tuple(things)
        self._sums = list(accumulate(1 / (rank + SHIFT) for rank in range(len(things))))

    def choose(self, draws: Draws) -> Kind:
        return self.things[
            bisect.bisect(self._sums, draws.uniform() * self._sums[-1], hi=len(self.things) - 1)
        ]


@dataclass(frozen=True)
class Lexicon:
    """All content words of both languages. Function words are defined in `grammar`."""

    nouns: Ranked[Noun]
    verbs: tuple[Ranked[Verb], Ranked[Verb]]
    """Intransitive verbs and transitive verbs, in this order."""
    adjectives: Ranked[tuple[str, str]]
    adverbs: Ranked[tuple[str, str]]
    names: Ranked[str]
    """Names, which are the same in both languages."""
    idioms: Ranked[tuple[str, str]]
    """Phrases of ordinary source words.

    The target words of an idiom are not translations of its source words.
    """


class _Inventor:
    """Generator of new words that never returns a word twice or a word of `taken`."""

    def __init__(
        self, label: str, sounds: tuple[tuple[str, ...], ...], taken: Sequence[str]
    ) -> None:
        self.draws = Draws(stream(SEED, f"translation words {label}"))
        self.sounds, self.taken = sounds, set(taken)

    def word(self, syllables: int) -> str:
        while True:
            parts = (
                sound[self.draws.integer(0, len(sound) - 1)]
                for _ in range(syllables)
                for sound in self.sounds
            )
            word = "".join(parts)
            if len(word) > 2 and word not in self.taken:
                self.taken.add(word)
                return word


def _syllables(rank: int) -> int:
    """Return the number of syllables of the word at `rank`.

    Frequent words have one syllable.
    """
    return 1 if rank < 12 else 2


def lexicon(source_taken: tuple[str, ...], target_taken: tuple[str, ...]) -> Lexicon:
    """Return all content words of both languages.

    The content words differ from the function words of the grammar (`source_taken`,
    `target_taken`).
    """
    source = _Inventor("source", SOURCE_SOUNDS, source_taken)
    target = _Inventor("target", TARGET_SOUNDS, target_taken)
    key = stream(SEED, "translation lexicon")

    def target_noun(draws: Draws, rank: int) -> TargetNoun:
        return TargetNoun(target.word(_syllables(rank)), draws.integer(0, 2), draws.integer(0, 2))

    def noun(rank: int) -> Noun:
        draws = Draws(fold(key, 0, rank))
        senses = tuple(target_noun(draws, rank) for _ in range(2 if draws.chance(AMBIGUOUS) else 1))
        return Noun(
            source.word(_syllables(rank)), senses, target_noun(draws, rank), draws.integer(0, 1)
        )

    def target_verb(draws: Draws, rank: int) -> TargetVerb:
        prefix = PREFIXES[draws.integer(0, len(PREFIXES) - 1)] if draws.chance(SEPARABLE) else ""
        return TargetVerb(target.word(_syllables(rank)), prefix)

    def verb(rank: int) -> Verb:
        draws = Draws(fold(key, 1, rank))
        senses = tuple(target_verb(draws, rank) for _ in range(2 if draws.chance(AMBIGUOUS) else 1))
        return Verb(
            source.word(_syllables(rank)), senses, draws.chance(TRANSITIVE), draws.integer(0, 1)
        )

    def pairs(count: int) -> Ranked[tuple[str, str]]:
        return Ranked(
            [
                (source.word(_syllables(rank)), target.word(_syllables(rank)))
                for rank in range(count)
            ]
        )

    nouns, verbs = [noun(rank) for rank in range(NOUNS)], [verb(rank) for rank in range(VERBS)]
    adjectives, adverbs = pairs(ADJECTIVES), pairs(ADVERBS)
    draws = Draws(fold(key, 2))
    return Lexicon(
        nouns=Ranked(nouns),
        verbs=(
            Ranked([v for v in verbs if not v.transitive]),
            Ranked([v for v in verbs if v.transitive]),
        ),
        adjectives=adjectives,
        adverbs=adverbs,
        names=Ranked([source.word(2).capitalize() for _ in range(NAMES)]),
        idioms=Ranked([_idiom(draws, nouns, adjectives.things, target) for _ in range(IDIOMS)]),
    )


def _idiom(
    draws: Draws, nouns: Sequence[Noun], adjectives: Sequence[tuple[str, str]], target: _Inventor
) -> tuple[str, str]:
    """Return an idiom in both languages.

    The source phrase has two nouns and an adjective. The target phrase has two or three words that
    occur in no other phrase.
    """
    first, second = (nouns[draws.integer(0, len(nouns) - 1)].source for _ in range(2))
    source = f"{first} by {adjectives[draws.integer(0, len(adjectives) - 1)][0]} {second}"
    return source, " ".join(target.word(1) for _ in range(draws.integer(2, 3)))
