"""Random translation models, and searches for a single sentence in plain Python.

There are an exhaustive search, a beam search with lists, and the search of GNMT's reference.
"""

import itertools
import math

import numpy as np

from workloads.common.text.beam import Beam, Candidates, top

END = 3


class RandomModel:
    """Model whose log p of the next token is a random function of sentence and prefix.

    The attention over the source positions of a sentence sums to 1.
    """

    def __init__(self, seed, words=5, places=(3, 4, 2), sharpness=2.0):
        self.seed, self.words, self.places, self.sharpness = seed, words, places, sharpness

    def next(self, sentence, prefix):
        """Return log p (V,) and attention (S,)."""
        generator = np.random.default_rng([self.seed, sentence, *(token + 1 for token in prefix)])
        logits = generator.normal(0, self.sharpness, self.words)
        logits -= np.log(np.exp(logits).sum())
        attention = generator.dirichlet(np.full(self.places[sentence], 0.5))
        return logits.astype(np.float32), attention.astype(np.float32)


class Rows:
    """Decoder of some sentences of a model, padded to the largest number of source positions."""

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
    """Return the score of a hypothesis, computed from its definition."""
    norm = ((5 + tokens + beam.counts_begin) / 6) ** beam.length_penalty
    coverage = sum(math.log(min(float(place), 1.0)) for place in covered if place > 0)
    return log_p / norm + beam.coverage_penalty * coverage


def exhaustive(model, sentence, beam, longest):
    """Return (score, tokens) of the best of all sentences that end within `longest` tokens."""
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


def plain_search(model, sentence, beam, longest):
    """Return (score, tokens) of a beam search that does not stop early.

    Finished hypotheses are kept separately and take no place in the beam.
    """
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
    """Return (score, tokens) as GNMT's reference does.

    The reference is beam_search.py (mlcommons/training aa344c7, retired_benchmarks/gnmt). Places
    hold hypotheses, best first. Sums of attention belong to the places. When all hypotheses have
    ended, a further step detects this and scores them. If no step is left for that, the hypothesis
    with the highest log p wins.
    """
    places, covered = [(0.0, ())], [np.zeros(model.places[sentence]) for _ in range(beam.width)]
    for step in range(longest):
        if all(tokens[-1:] == (END,) for _, tokens in places):
            scored = [
                (total(beam, log_p, len(tokens), sums), tokens)
                for (log_p, tokens), sums in zip(places, covered, strict=True)
            ]
            return max(scored, key=lambda hypothesis: hypothesis[0])
        offers = []
        for place, (log_p, tokens) in enumerate(places):
            if tokens[-1:] == (END,):
                offers.append((-log_p, place, END, tokens))
                continue
            scores, attention = model.next(sentence, tokens)
            # In the first step all places hold the same hypothesis.
            for target in range(beam.width) if step == 0 else (place,):
                covered[target] += attention
            for token in range(model.words):
                offers.append((-(log_p + float(scores[token])), place, token, (*tokens, token)))
        offers = sorted(offers)[: beam.width]
        places = [(-minus, tokens) for minus, *_, tokens in offers]
        if beam.reorders_coverage:
            covered = [covered[place].copy() for _, place, *_ in offers]
    return max(places, key=lambda hypothesis: hypothesis[0])
