"""Random models of translation, a search that tries every sentence, and a beam search of one
sentence with lists alone.
"""

import itertools
import math

import numpy as np

from workloads.common.text.beam import Beam, Candidates, top

END = 3


class RandomModel:
    """log p of the next token as a function of sentence and prefix; attention over its source
    places sums to 1.
    """

    def __init__(self, seed, words=5, places=(3, 4, 2), sharpness=2.0):
        self.seed, self.words, self.places, self.sharpness = seed, words, places, sharpness

    def next(self, sentence, prefix):
        """(V,) log p and (S,) attention."""
        generator = np.random.default_rng([self.seed, sentence, *(token + 1 for token in prefix)])
        logits = generator.normal(0, self.sharpness, self.words)
        logits -= np.log(np.exp(logits).sum())
        attention = generator.dirichlet(np.full(self.places[sentence], 0.5))
        return logits.astype(np.float32), attention.astype(np.float32)


class Rows:
    """A decoder of some sentences of a model, padded to the most source places."""

    def __init__(self, model, sentences, width, offered=None, padding=0):
        self.model, self.sentences, self.width = model, sentences, width
        self.offered = offered or 2 * width
        self.places = max(model.places[sentence] for sentence in sentences) + padding
        self.steps = 0

    def start(self, batch):
        return [(sentence, ()) for sentence in self.sentences for _ in range(self.width)]

    def step(self, state, tokens, parents):
        self.steps += 1
        assert tokens.shape == parents.shape == (len(self.sentences) * self.width,)
        first = self.steps == 1
        rows = [state[parent] for parent in parents]
        state = [
            (sentence, () if first else (*prefix, int(token)))
            for (sentence, prefix), token in zip(rows, tokens, strict=True)
        ]
        scores, attention = (
            np.empty((len(state), self.model.words)),
            np.zeros((len(state), self.places), np.float32),
        )
        for row, (sentence, prefix) in enumerate(state):
            scores[row], weights = self.model.next(sentence, prefix)
            attention[row, : len(weights)] = weights
        return Candidates(*top(scores, self.offered), attention), state


def total(beam: Beam, log_p, tokens, covered):
    """The score of a hypothesis, written out."""
    norm = ((5 + tokens + beam.counts_begin) / 6) ** beam.length_penalty
    coverage = sum(math.log(min(float(place), 1.0)) for place in covered if place > 0)
    return log_p / norm + beam.coverage_penalty * coverage


def exhaustive(model, sentence, beam, longest):
    """(score, tokens) of the best of all sentences that end within `longest` tokens."""
    best = (-math.inf, ())
    words = [token for token in range(model.words) if token != END]
    for count in range(longest):
        for prefix in itertools.product(words, repeat=count):
            tokens, log_p, covered = (*prefix, END), 0.0, np.zeros(model.places[sentence])
            for place, token in enumerate(tokens):
                scores, attention = model.next(sentence, tokens[:place])
                log_p += float(scores[token])
                covered += attention
            best = max(best, (total(beam, log_p, len(tokens), covered), tokens))
    return best


def one_sentence(model, sentence, beam, longest):
    """(score, tokens) by beam search to the very end, without stopping early; what ends lies aside."""
    alive = [(0.0, (), np.zeros(model.places[sentence]))]
    best = (-math.inf, ())
    for _ in range(longest):
        offers = []
        for number, (log_p, tokens, covered) in enumerate(alive):
            scores, attention = model.next(sentence, tokens)
            for token in range(model.words):
                offer = (
                    -(log_p + float(scores[token])),
                    number,
                    token,
                    (*tokens, token),
                    covered + attention,
                )
                offers.append(offer)
        offers.sort(key=lambda offer: offer[:3])
        alive = []
        for minus, _, token, tokens, covered in offers[: 2 * beam.width]:
            if token == END:
                best = max(best, (total(beam, -minus, len(tokens), covered), tokens))
            elif len(alive) < beam.width:
                alive.append((-minus, tokens, covered))
    if best[0] == -math.inf:
        return max(
            (total(beam, log_p, len(tokens), covered), tokens) for log_p, tokens, covered in alive
        )
    return best


def reference_search(model, sentence, beam, longest):
    """(score, tokens) as GNMT's reference finds them (mlcommons/training aa344c7,
    retired_benchmarks/gnmt, beam_search.py).

    Places hold hypotheses, best first. Sums of attention belong to the places. When all have ended,
    a further step only finds that out, and scores them; if there is no step left for it, the
    highest log p wins.
    """
    places, covered = [(0.0, ())], [np.zeros(model.places[sentence]) for _ in range(beam.width)]
    for step in range(longest):
        if all(tokens[-1:] == (END,) for _, tokens in places):
            scored = [
                (total(beam, log_p, len(tokens), sums), tokens)
                for (log_p, tokens), sums in zip(places, covered, strict=True)
            ]
            return max(scored, key=lambda one: one[0])
        offers = []
        for place, (log_p, tokens) in enumerate(places):
            if tokens[-1:] == (END,):
                offers.append((-log_p, place, END, tokens))
                continue
            scores, attention = model.next(sentence, tokens)
            for of in (
                range(beam.width) if step == 0 else (place,)
            ):  # at first all places hold the same
                covered[of] += attention
            for token in range(model.words):
                offers.append((-(log_p + float(scores[token])), place, token, (*tokens, token)))
        offers = sorted(offers)[: beam.width]
        places = [(-minus, tokens) for minus, *_, tokens in offers]
        if beam.reorders_coverage:
            covered = [covered[place].copy() for _, place, *_ in offers]
    return max(places, key=lambda one: one[0])
