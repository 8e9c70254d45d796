"""Sentence pairs of two generated languages. Translation needs more than a dictionary.

The grammar of the source language is similar to English: subject, verb, object, phrases. The
grammar of the target language is similar to German:

- The finite verb comes second in main clauses, and last in subordinate and relative clauses.
- Separable prefixes and infinitives come at the end of the clause.
- Adjectives follow the noun.
- Articles, adjectives and pronouns agree in gender, number and case. Verbs and prepositions
  determine the case.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache

from workloads.common.randomness import Draws
from workloads.common.text.lexicon import Lexicon, Noun, TargetNoun, TargetVerb, Verb, lexicon

SYNONYM = 0.07
"""Fraction of nouns that are translated with a synonym. The source sentence does not indicate which
nouns have a synonym as their translation.
"""
PLURAL, PRONOUN, NAME, PAST = 0.3, 0.12, 0.1, 0.3
"""Probabilities that a noun phrase is in the plural, is a pronoun, or is a name, and that a
clause is in the past tense.
"""
NOMINATIVE, ACCUSATIVE, DATIVE = 0, 1, 2

DEFINITE = (
    ("dar", "dan", "dam"),
    ("die", "die", "dir"),
    ("das", "das", "dam"),
    ("dai", "dai", "den"),
)
INDEFINITE = (("en", "enan", "enam"), ("ena", "ena", "enar"), ("en", "en", "enam"))
ADJECTIVE = (("o", "on", "om"), ("e", "e", "er"), ("es", "es", "om"), ("ai", "ai", "en"))
"""Endings of adjectives, by gender and case. Gender index 3 stands for the plural."""
NOUN_PLURAL = ("en", "ir", "os")
"""Plural endings of nouns, by declension. The dative plural adds an n."""
PRONOUNS = {
    "he": ("er", "ihn", "ihm", "him"),
    "she": ("sie", "sie", "ihr", "her"),
    "they": ("si", "si", "ihnen", "them"),
}
"""Target pronoun in three cases, followed by the object form of the source pronoun, for each source
pronoun.
"""
RELATIVE = ("dar", "die", "das", "dai")
VERB = (("et", "an"), ("te", "tan"))
"""Endings of verbs, by tense (present, past) and number (singular, plural)."""
INFINITIVE, FUTURE = "en", ("wil", "wollan")
PREPOSITIONS = (
    ("with", "mid", DATIVE), ("for", "fur", ACCUSATIVE), ("under", "untar", DATIVE),
    ("against", "gegan", ACCUSATIVE),
    ("from", "von", DATIVE), ("through", "durk", ACCUSATIVE),
)  # fmt: skip
SUBORDINATE = (("because", "wail"), ("when", "als"), ("if", "wen"), ("although", "obwol"))
COORDINATE = (("and", "und"), ("but", "abar"))

SOURCE_TAKEN = (
    "the", "a", "not", "will", "who", "by", *PRONOUNS, *(words[3] for words in PRONOUNS.values()),
    *(words[0] for words in (*PREPOSITIONS, *SUBORDINATE, *COORDINATE)),
)  # fmt: skip
TARGET_TAKEN = (
    "nik", *FUTURE, *(word for row in (*DEFINITE, *INDEFINITE) for word in row),
    *(word for words in PRONOUNS.values() for word in words[:3]),
    *(words[1] for words in (*PREPOSITIONS, *SUBORDINATE, *COORDINATE)),
)  # fmt: skip

OPTIONS = (
    ("subject adjective", 1, 2), ("object adjective", 1, 2), ("phrase", 3, 3), ("opening", 1, 1),
    ("adverb", 1, 1),
    ("negation", 1, 1), ("future", 1, 1), ("idiom", 4, 1), ("relative", 4, 1),
    ("phrase adjective", 1, 2),
)  # fmt: skip
"""Optional extensions of a clause, as tuples (name, number of words, maximum number of uses)."""
OFFERS = 14
"""Number of attempts to add an extension to a clause.

An extension that no longer fits into the clause is skipped.
"""
SPLIT_AT, FIRST_CLAUSE = 9, (4, 9)
"""Maximum length of a sentence that always has a single clause, and range of a clause's length, in
words.

Sentences of more than `SPLIT_AT` words may have several clauses. `FIRST_CLAUSE` is the minimum and
maximum number of words of every clause except the last clause.
"""


@cache
def words() -> Lexicon:
    """Return the lexicon of both languages."""
    return lexicon(SOURCE_TAKEN, TARGET_TAKEN)


@dataclass
class Phrase:
    """Sequence of source words and its translation."""

    source: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    pairs: list[tuple[str, str]] = field(default_factory=list)
    """Pairs (source word, target word), which are the lexicon of a word-by-word translation."""

    def add(self, source: str, target: str) -> None:
        """Append a word and its translation."""
        self.source.append(source)
        self.target.append(target)
        self.pairs.append((source, target))


@dataclass(frozen=True)
class NounPhrase:
    """Noun phrase that is inflected for its case."""

    words: Phrase
    plural: bool
    kind: int
    gender: int


@dataclass
class Clause:
    """Components of a clause before they are arranged in the word order of a language."""

    opening: Phrase
    subject: NounPhrase
    rest: Phrase
    """Object, prepositional phrases, and adverbs, which have the same order in both languages."""
    verb: Verb
    sense: TargetVerb
    past: bool
    future: bool
    negated: bool

    def pairs(self) -> list[tuple[str, str]]:
        """Return the pairs (source word, target word) of all components of the clause."""
        plain = self.finite()
        verb_pairs = [(self.verb_form(), plain)] + ([("not", "nik")] if self.negated else [])
        verb_pairs += [("will", FUTURE[self.subject.plural])] if self.future else []
        return [*self.opening.pairs, *self.subject.words.pairs, *verb_pairs, *self.rest.pairs]

    def verb_form(self) -> str:
        """Return the source verb with its ending."""
        if self.future or (self.subject.plural and not self.past):
            return self.verb.source
        return self.verb.source + ("ed" if self.past else "s")

    def finite(self) -> str:
        """Return the target verb without prefix. In the future tense, return the infinitive."""
        return self.sense.stem + (
            INFINITIVE if self.future else VERB[self.past][self.subject.plural]
        )

    def source(self) -> list[str]:
        """Return the words of the clause in the source language."""
        verb = [
            *(["will"] if self.future else []),
            *(["not"] if self.negated else []),
            self.verb_form(),
        ]
        return [*self.opening.source, *self.subject.words.source, *verb, *self.rest.source]

    def main(self, inverted: bool = False) -> list[str]:
        """Return the target words of a main clause, in which the finite verb comes second.

        Args:
            inverted: Whether the clause follows a subordinate clause. The finite verb then comes
                first.
        """
        auxiliary = FUTURE[self.subject.plural]
        finite = auxiliary if self.future else self.finite()
        last = (
            [self.sense.prefix + self.finite()]
            if self.future
            else [self.sense.prefix]
            if self.sense.prefix
            else []
        )
        negation = ["nik"] if self.negated else []
        subject, opening = self.subject.words.target, self.opening.target
        if opening and not inverted:
            start = [*opening, finite, *subject]
        elif inverted:
            start = [finite, *subject, *opening]
        else:
            start = [*subject, finite]
        return [*start, *self.rest.target, *negation, *last]

    def subordinate(self) -> list[str]:
        """Return the target words of a subordinate clause, in which the verb comes last."""
        negation, verb = ["nik"] if self.negated else [], [self.sense.prefix + self.finite()]
        auxiliary = [FUTURE[self.subject.plural]] if self.future else []
        subject, opening = self.subject.words.target, self.opening.target
        return [*subject, *opening, *self.rest.target, *negation, *verb, *auxiliary]


def sentence(draws: Draws, length: int) -> Phrase:
    """Generate a sentence pair of about `length` source words.

    `length` includes punctuation marks.
    """
    phrase = _clauses(draws, length - 1)
    phrase.source.append(".")
    phrase.target.append(".")
    return phrase


def _clauses(draws: Draws, length: int) -> Phrase:
    """Generate one clause, or several joined clauses, of about `length` source words."""
    phrase = Phrase()
    if length <= SPLIT_AT or draws.chance(0.15):
        clause = _clause(draws, length)
        return Phrase(clause.source(), clause.main(), clause.pairs())
    first = _clause(draws, draws.integer(*FIRST_CLAUSE))
    left = length - len(first.source()) - 1
    if draws.chance(0.4):
        joined, more = COORDINATE[draws.integer(0, len(COORDINATE) - 1)], _clauses(draws, left)
        phrase.source = [*first.source(), joined[0], *more.source]
        phrase.target = [*first.main(), joined[1], *more.target]
        phrase.pairs = [*first.pairs(), joined, *more.pairs]
        return phrase
    joined, second = SUBORDINATE[draws.integer(0, len(SUBORDINATE) - 1)], _clause(draws, left)
    phrase.pairs = [*first.pairs(), joined, *second.pairs()]
    if draws.chance(0.5):
        phrase.source = [joined[0], *first.source(), ",", *second.source()]
        phrase.target = [joined[1], *first.subordinate(), ",", *second.main(inverted=True)]
    else:
        phrase.source = [*first.source(), joined[0], *second.source()]
        phrase.target = [*first.main(), ",", joined[1], *second.subordinate()]
    return phrase


def _clause(draws: Draws, length: int) -> Clause:
    """Generate a clause of about `length` source words."""
    lexical = words()
    transitive = length > 4 and draws.chance(0.65)
    verb = lexical.verbs[transitive].choose(draws)
    wanted = _extensions(draws, length - (5 if transitive else 3), transitive)
    subject = _noun_phrase(draws, NOMINATIVE, verb, wanted["subject adjective"])
    object_phrase = (
        _noun_phrase(draws, ACCUSATIVE, verb, wanted["object adjective"]) if transitive else None
    )
    noun_kind = (object_phrase or subject).kind
    sense = verb.senses[noun_kind if len(verb.senses) > 1 else 0]
    opening, rest = Phrase(), Phrase()
    if wanted["opening"]:
        opening.add(*lexical.adverbs.choose(draws))
    if wanted["relative"]:
        _relative(draws, subject)
    if object_phrase is not None:
        _append(rest, object_phrase.words)
    for number in range(wanted["phrase"]):
        preposition = PREPOSITIONS[draws.integer(0, len(PREPOSITIONS) - 1)]
        rest.add(*preposition[:2])
        adjectives = wanted["phrase adjective"] if number == 0 else 0
        _append(rest, _noun_phrase(draws, preposition[2], verb, adjectives).words)
    if wanted["idiom"]:
        source, target = lexical.idioms.choose(draws)
        rest.source += source.split()
        rest.target += target.split()
    if wanted["adverb"]:
        rest.add(*lexical.adverbs.choose(draws))
    past = draws.chance(PAST) and not wanted["future"]
    return Clause(
        opening, subject, rest, verb, sense, past, bool(wanted["future"]), bool(wanted["negation"])
    )


def _extensions(draws: Draws, left: int, transitive: bool) -> Counter[str]:
    """Draw the extensions of a clause, and return how often each extension is used.

    The extensions have at most `left` words in total.
    """
    wanted: Counter[str] = Counter()
    for _ in range(OFFERS):
        name, cost, most = OPTIONS[draws.integer(0, len(OPTIONS) - 1)]
        missing = (name == "object adjective" and not transitive) or (
            name == "phrase adjective" and not wanted["phrase"]
        )
        if cost <= left and wanted[name] < most and not missing:
            wanted[name] += 1
            left -= cost
    return wanted


def _noun_phrase(draws: Draws, case: int, verb: Verb, adjectives: int) -> NounPhrase:
    """Generate a pronoun, a name, or an article with a noun and its adjectives."""
    if not adjectives and draws.chance(PRONOUN):
        name = tuple(PRONOUNS)[draws.integer(0, len(PRONOUNS) - 1)]
        forms, phrase = PRONOUNS[name], Phrase()
        phrase.add(name if case == NOMINATIVE else forms[3], forms[case])
        return NounPhrase(phrase, name == "they", 0, 3 if name == "they" else (name == "she"))
    if not adjectives and draws.chance(NAME):
        phrase, name = Phrase(), words().names.choose(draws)
        phrase.add(name, name)
        return NounPhrase(phrase, False, 1, 0)
    noun, plural = words().nouns.choose(draws), draws.chance(PLURAL)
    target = noun.senses[verb.kind if len(noun.senses) > 1 else 0]
    if draws.chance(SYNONYM):
        target = noun.synonym
    return NounPhrase(
        _with_article(draws, noun, target, plural, case, adjectives),
        plural,
        noun.kind,
        3 if plural else target.gender,
    )


def _with_article(
    draws: Draws, noun: Noun, target: TargetNoun, plural: bool, case: int, adjectives: int
) -> Phrase:
    """Generate an article or a number, with a noun and its adjectives.

    Adjectives come before the noun in the source language, and after the noun in the target
    language.
    """
    phrase, form = Phrase(), 3 if plural else target.gender
    if plural and draws.chance(0.3):
        count = str(draws.integer(2, 99))
        phrase.add(count, count)
    elif plural or draws.chance(0.6):
        phrase.add("the", DEFINITE[form][case])
    else:
        phrase.add("a", INDEFINITE[form][case])
    chosen = [words().adjectives.choose(draws) for _ in range(adjectives)]
    inflected = [(source, stem + ADJECTIVE[form][case]) for source, stem in chosen]
    ending = NOUN_PLURAL[target.declension] + ("n" if case == DATIVE else "") if plural else ""
    head = (noun.source + ("s" if plural else ""), target.stem + ending)
    phrase.source += [*(source for source, _ in inflected), head[0]]
    phrase.target += [head[1], *(word for _, word in inflected)]
    phrase.pairs += [head, *inflected]
    return phrase


def _relative(draws: Draws, subject: NounPhrase) -> None:
    """Append a relative clause to a subject.

    The source clause consists of `who`, the verb, and the object. The target clause is enclosed in
    commas and ends with the verb.
    """
    verb = words().verbs[True].choose(draws)
    thing = _noun_phrase(draws, ACCUSATIVE, verb, 0)
    sense = verb.senses[thing.kind if len(verb.senses) > 1 else 0]
    form = sense.prefix + sense.stem + VERB[0][subject.plural]
    source = verb.source + ("" if subject.plural else "s")
    relative = RELATIVE[subject.gender]
    subject.words.source += ["who", source, *thing.words.source]
    subject.words.target += [",", relative, *thing.words.target, form, ","]
    subject.words.pairs += [("who", relative), (source, form), *thing.words.pairs]


def _append(phrase: Phrase, more: Phrase) -> None:
    phrase.source += more.source
    phrase.target += more.target
    phrase.pairs += more.pairs
