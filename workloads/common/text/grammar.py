"""Sentence pairs of two generated languages, with what makes translation more than a dictionary.

The source is English-like: subject, verb, object, phrases. The target is German-like: the finite verb stands second, in
subordinate and relative clauses last; separable prefixes and infinitives stand at the end of the clause; adjectives follow the
noun; articles, adjectives and pronouns agree in gender, number and case, which verbs and prepositions govern.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache

from workloads.common.randomness import Draws
from workloads.common.text.lexicon import Lexicon, Noun, TargetNoun, TargetVerb, Verb, lexicon

SYNONYM = 0.07
"""Share of noun tokens for which the target has a synonym that nothing in the source tells."""
PLURAL, PRONOUN, NAME, PAST = 0.3, 0.12, 0.1, 0.3
"""Shares of noun phrases and of clauses."""
NOMINATIVE, ACCUSATIVE, DATIVE = 0, 1, 2

DEFINITE = (("dar", "dan", "dam"), ("die", "die", "dir"), ("das", "das", "dam"), ("dai", "dai", "den"))
INDEFINITE = (("en", "enan", "enam"), ("ena", "ena", "enar"), ("en", "en", "enam"))
ADJECTIVE = (("o", "on", "om"), ("e", "e", "er"), ("es", "es", "om"), ("ai", "ai", "en"))
"""Ending by gender (3: plural) and case."""
NOUN_PLURAL = ("en", "ir", "os")
"""By declension; the dative adds an n."""
PRONOUNS = {
    "he": ("er", "ihn", "ihm", "him"),
    "she": ("sie", "sie", "ihr", "her"),
    "they": ("si", "si", "ihnen", "them"),
}
"""Of the target in three cases, and of the source as an object."""
RELATIVE = ("dar", "die", "das", "dai")
VERB = (("et", "an"), ("te", "tan"))
"""Ending by tense (present, past) and number."""
INFINITIVE, FUTURE = "en", ("wil", "wollan")
PREPOSITIONS = (
    ("with", "mid", DATIVE), ("for", "fur", ACCUSATIVE), ("under", "untar", DATIVE), ("against", "gegan", ACCUSATIVE),
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
    ("subject adjective", 1, 2), ("object adjective", 1, 2), ("phrase", 3, 3), ("opening", 1, 1), ("adverb", 1, 1),
    ("negation", 1, 1), ("future", 1, 1), ("idiom", 4, 1), ("relative", 4, 1), ("phrase adjective", 1, 2),
)  # fmt: skip
"""What a clause may be extended with: name, words, how often at most."""
OFFERS = 14
"""Draws of an option for a clause; those that do not fit any more are left out."""
SPLIT_AT, FIRST_CLAUSE = 9, (4, 9)
"""Sentences of more words may have several clauses; words of each but the last."""


@cache
def words() -> Lexicon:
    """The words of both languages."""
    return lexicon(SOURCE_TAKEN, TARGET_TAKEN)


@dataclass
class Phrase:
    """Words of both languages that belong together."""

    source: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    pairs: list[tuple[str, str]] = field(default_factory=list)
    """Which word translates which: the lexicon that a translation word by word has."""

    def add(self, source: str, target: str) -> None:
        """A word and its translation at the end of each side."""
        self.source.append(source)
        self.target.append(target)
        self.pairs.append((source, target))


@dataclass(frozen=True)
class NounPhrase:
    """A noun phrase in its case."""

    words: Phrase
    plural: bool
    kind: int
    gender: int


@dataclass
class Clause:
    """The parts of a clause, before they are put in order."""

    opening: Phrase
    subject: NounPhrase
    rest: Phrase
    """Object, prepositional phrases, adverbs: in the same order in both languages."""
    verb: Verb
    sense: TargetVerb
    past: bool
    future: bool
    negated: bool

    def pairs(self) -> list[tuple[str, str]]:
        """Of all parts."""
        plain = self.finite()
        own = [(self.verb_form(), plain)] + ([("not", "nik")] if self.negated else [])
        own += [("will", FUTURE[self.subject.plural])] if self.future else []
        return [*self.opening.pairs, *self.subject.words.pairs, *own, *self.rest.pairs]

    def verb_form(self) -> str:
        """As the source has it."""
        if self.future or (self.subject.plural and not self.past):
            return self.verb.source
        return self.verb.source + ("ed" if self.past else "s")

    def finite(self) -> str:
        """The target's verb without its prefix, as an infinitive in the future."""
        return self.sense.stem + (INFINITIVE if self.future else VERB[self.past][self.subject.plural])

    def source(self) -> list[str]:
        """Words in the source's order."""
        verb = [*(["will"] if self.future else []), *(["not"] if self.negated else []), self.verb_form()]
        return [*self.opening.source, *self.subject.words.source, *verb, *self.rest.source]

    def main(self, inverted: bool = False) -> list[str]:
        """Target words with the verb second: after the opening, or first where something `inverted` it from before."""
        auxiliary = FUTURE[self.subject.plural]
        finite = auxiliary if self.future else self.finite()
        last = [self.sense.prefix + self.finite()] if self.future else [self.sense.prefix] if self.sense.prefix else []
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
        """Target words with the verb last."""
        negation, verb = ["nik"] if self.negated else [], [self.sense.prefix + self.finite()]
        auxiliary = [FUTURE[self.subject.plural]] if self.future else []
        subject, opening = self.subject.words.target, self.opening.target
        return [*subject, *opening, *self.rest.target, *negation, *verb, *auxiliary]


def sentence(draws: Draws, length: int) -> Phrase:
    """A sentence pair of about `length` source words, punctuation included and parted by spaces."""
    phrase = _clauses(draws, length - 1)
    phrase.source.append(".")
    phrase.target.append(".")
    return phrase


def _clauses(draws: Draws, length: int) -> Phrase:
    """One clause or several, joined."""
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
    """A clause of about `length` source words."""
    lexical = words()
    transitive = length > 4 and draws.chance(0.65)
    verb = lexical.verbs[transitive].choose(draws)
    wanted = _extensions(draws, length - (5 if transitive else 3), transitive)
    subject = _noun_phrase(draws, NOMINATIVE, verb, wanted["subject adjective"])
    object_phrase = _noun_phrase(draws, ACCUSATIVE, verb, wanted["object adjective"]) if transitive else None
    effective_settings = (object_phrase or subject).kind
    sense = verb.senses[effective_settings if len(verb.senses) > 1 else 0]
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
    return Clause(opening, subject, rest, verb, sense, past, bool(wanted["future"]), bool(wanted["negation"]))


def _extensions(draws: Draws, left: int, transitive: bool) -> Counter[str]:
    """Options drawn until a clause has its words."""
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
    """A pronoun, a name, or an article with a noun and its adjectives."""
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
        _with_article(draws, noun, target, plural, case, adjectives), plural, noun.kind, 3 if plural else target.gender
    )


def _with_article(draws: Draws, noun: Noun, target: TargetNoun, plural: bool, case: int, adjectives: int) -> Phrase:
    """Article or number, then in the source adjectives and noun, in the target noun and adjectives."""
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
    """Extend a subject by a clause about it: `who` verb object, in the target with the verb last and between commas."""
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
