"""Beam search on the host, for any model: batched, framework-free, over `start` and `step` of a decoder.

Shapes: B sentences, K hypotheses of each, N = B·K rows of the decoder, m candidates that a row offers, S source places,
V words, T tokens.

    score = log p / ((5 + n) / 6)^α + β · Σ_s log min(Σ_t attention(t, s), 1)        n: tokens with EOS (and BOS if that counts)

(Wu et al. 2016, section 7.) s: places that anything was attended to. A sentence's search depends on nothing of its batch mates:
one that is done is frozen, and there are as many rows as before, so a decoder sees one shape. There are two kinds of search:

- tensor2tensor's (Transformer): 2K candidates; those that end lie aside, and the first K others go on. A sentence is done when
  no hypothesis can win any more: log p only falls and the penalty of the longest allowed length is the mildest, which bounds
  what the others can reach.
- `keeps_finished`, GNMT's reference (mlcommons/training retired_benchmarks/gnmt, seq2seq/inference/beam_search.py): K
  candidates; those that end hold their places by log p, until better ones push them out. A sentence is done when all K have
  ended, and the best score wins; where the longest allowed length comes first, the highest log p.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from workloads.api import Batch
from workloads.common.arrays import Bools, Float32s, Float64s, Int32s, Int64s, Integers
from workloads.common.text.vocabulary import EOS, PAD

State = TypeVar("State")


NORM_CONSTANT = 5.0
"""In the length penalty (Wu et al. 2016, equation 14)."""


@dataclass(frozen=True)
class Candidates:
    """What each row could say next."""

    scores: npt.NDArray[np.floating]
    """(N, m) log p, of the m most probable tokens in any order; m ≥ 2K, or the whole vocabulary."""
    tokens: Integers
    """(N, m)"""
    attention: npt.NDArray[np.floating] | None = None
    """(N, S) weights of this step; needed for a coverage penalty, 0 at padding."""


class Decoder(Protocol[State]):
    """A model that continues N = B·K translations, K rows of each sentence side by side."""

    def start(self, batch: Batch) -> State:
        """Encode a batch; the state before the first token."""
        ...

    def step(self, state: State, tokens: Int32s, parents: Int64s) -> tuple[Candidates, State]:
        """Row n goes on from what row `parents[n]` of `state` was, with `tokens[n]` (N,) said."""
        ...


@dataclass(frozen=True)
class Beam:
    """Parameters of a search."""

    width: int
    """K"""
    length_penalty: float = 0.6
    """α ≥ 0"""
    coverage_penalty: float = 0.0
    """β ≥ 0"""
    counts_begin: bool = False
    """Whether BOS counts in n (GNMT's reference)."""
    keeps_finished: bool = False
    """Which kind of search: GNMT's reference's, or tensor2tensor's."""
    reorders_coverage: bool = True
    """Whether sums of attention move with their hypotheses; in GNMT's reference they stay in their places among the K."""
    start: int = 2
    """The token before the first."""
    end: int = EOS

    def __post_init__(self) -> None:
        if self.width < 1 or self.length_penalty < 0 or self.coverage_penalty < 0:
            raise ValueError(
                f"beam width {self.width}, length penalty {self.length_penalty}, coverage penalty {self.coverage_penalty}: "
                f"a width of at least 1 and penalties of at least 0 are needed"
            )

    def norm(self, tokens: npt.ArrayLike) -> Float64s:
        """What log p of so many tokens is divided by."""
        length = np.asarray(tokens, np.float64) + self.counts_begin
        return np.asarray(((NORM_CONSTANT + length) / (NORM_CONSTANT + 1)) ** self.length_penalty, np.float64)


@dataclass(frozen=True)
class Translations:
    """The best hypothesis of each sentence."""

    tokens: Int32s
    """(B, T) with EOS unless the longest allowed length came first, PAD after it."""
    counts: Int32s
    """(B,) tokens, EOS included."""
    scores: Float64s
    """(B,)"""


def search(decoder: Decoder[State], batch: Batch, beam: Beam, longest: npt.ArrayLike, live: Any = None) -> Translations:
    """Translate a batch. `longest` (B,) or a number: tokens of a translation, EOS included; `live` (B,) bool: the others are
    left empty and cost nothing but their rows.
    """
    count = len(batch.arrays["source"])
    limits = np.broadcast_to(np.asarray(longest, np.int64), (count,))
    state = decoder.start(batch)
    running = _Search(beam, limits, np.ones(count, bool) if live is None else np.asarray(live, bool))
    while running.open.any():
        candidates, state = decoder.step(state, running.tokens, running.parents)
        running.advance(candidates)
    return running.result()


class _Search:
    """The hypotheses of a batch, between two steps."""

    def __init__(self, beam: Beam, limits: Int64s, live: Bools) -> None:
        count, width = len(limits), beam.width
        self.beam, self.limits, self.step = beam, limits, 0
        self.open = live & (limits > 0)
        """(B,) sentences whose search goes on."""
        self.scores = np.full((count, width), -np.inf)
        self.scores[:, 0] = 0.0
        """(B, K) log p; at first all hypotheses are one."""
        self.finished = np.zeros((count, width), bool)
        self.tokens: Int32s = np.full(count * width, beam.start, np.int32)
        self.parents: Int64s = np.arange(count * width)
        self.coverage: Float64s | None = None
        """(B, K, S) attention summed over the tokens."""
        self.counts = np.zeros((count, width), np.int64)
        """(B, K) tokens, EOS included."""
        self.said: list[Int32s] = []
        self.from_: list[npt.NDArray[np.intp]] = []
        """For each step (B, K): a hypothesis' token, and which hypothesis it continues."""
        self.best = np.full(count, -np.inf)
        """(B,) score of the best translation so far."""
        self.best_count, self.best_slot = np.zeros(count, np.int64), np.zeros(count, np.intp)
        """(B,) its tokens, and the hypothesis that it is, or was before it ended."""
        self.best_step = np.zeros(count, np.int64)
        """(B,) steps after which it was that hypothesis; one less than its tokens where it then ended and lay aside."""

    def advance(self, candidates: Candidates) -> None:
        """Take a step of every open sentence."""
        beam, (count, width) = self.beam, self.scores.shape
        offered = np.asarray(candidates.tokens).reshape(count, width, -1)
        said = np.asarray(candidates.scores, np.float64).reshape(offered.shape)
        # Weights that are not set yet, or have diverged, give NaN: nothing may be said then, and the search still ends.
        scores = self.scores[:, :, None] + np.where(np.isnan(said), -np.inf, said)
        self._add_coverage(candidates)
        offered, scores = self._with_finished(offered, scores)
        order = self._best(scores, offered, width if beam.keeps_finished else 2 * width)
        slot, choice = np.divmod(order, offered.shape[2])
        rows = np.arange(count)[:, None]
        chosen, tokens = scores[rows, slot, choice], offered[rows, slot, choice].astype(np.int32)
        ends = (tokens == beam.end) & (chosen > -np.inf)
        self.step += 1
        picked = np.broadcast_to(np.arange(width), (count, width))
        if not beam.keeps_finished:  # the first K that do not end
            self._record(slot, chosen, ends)
            picked = np.argsort(ends, axis=1, kind="stable")[:, :width]
        pick = (rows, picked)
        self._move(slot[pick], chosen[pick], tokens[pick], ends[pick])
        self._close()

    def _add_coverage(self, candidates: Candidates) -> None:
        if not self.beam.coverage_penalty:
            return
        assert candidates.attention is not None, "a coverage penalty needs attention weights"
        attention = np.asarray(candidates.attention, np.float64).reshape(*self.scores.shape, -1)
        attention = np.where(self.finished[:, :, None], 0.0, attention)
        self.coverage = attention if self.coverage is None else self.coverage + attention

    def _with_finished(self, offered: npt.NDArray[Any], scores: Float64s) -> tuple[npt.NDArray[Any], Float64s]:
        """Finished hypotheses offer their own end again, at no cost, and nothing else."""
        if not self.finished.any():
            return offered, scores
        held = self.finished[:, :, None]
        first = np.arange(offered.shape[2]) == 0
        own = np.where(first, self.scores[:, :, None], -np.inf)
        return np.where(held, self.beam.end, offered), np.where(held, own, scores)

    @staticmethod
    def _best(scores: Float64s, offered: npt.NDArray[Any], most: int) -> npt.NDArray[np.intp]:
        """(B, most) places of the best candidates, best first; of equal ones the earlier hypothesis, then the smaller token."""
        count, _, choices = scores.shape
        flat = scores.reshape(count, -1)
        most = min(most, flat.shape[1])
        if most < flat.shape[1]:
            # All that tie with the last one stay in the race, so that ties are broken by what they say.
            least = -np.partition(-flat, most - 1, axis=1)[:, most - 1]
            kept = int((flat >= least[:, None]).sum(1).max())
            some = np.argpartition(-flat, min(kept, flat.shape[1] - 1), axis=1)[:, :kept]
        else:
            some = np.broadcast_to(np.arange(flat.shape[1]), flat.shape)
        rows = np.arange(count)[:, None]
        keys = (offered.reshape(count, -1)[rows, some], some // choices, -flat[rows, some])
        order = np.lexsort(keys, axis=1)[:, :most]
        return np.asarray(some[rows, order])

    def _record(self, slot: npt.NDArray[np.intp], scores: Float64s, ends: Bools) -> None:
        """Keep each sentence's best translation that has just ended, if it beats the earlier ones."""
        ends = ends & self.open[:, None]
        if not ends.any():
            return
        totals = np.where(ends, scores / self.beam.norm(self.step) + self._coverage_of(slot), -np.inf)
        counts = np.full(totals.shape, self.step)
        self._take_over(totals.max(axis=1) > self.best, totals, slot, counts, self.step - 1)

    def _take_over(self, where: Bools, totals: Float64s, slot: npt.NDArray[np.intp], counts: Int64s, step: int) -> None:
        """The best translations of some sentences are now the best of (B, …) that were hypotheses `slot` after `step` steps."""
        best = np.arange(len(totals)), np.argmax(totals, axis=1)
        self.best = np.where(where, totals[best], self.best)
        self.best_count = np.where(where, counts[best], self.best_count)
        self.best_slot = np.where(where, slot[best], self.best_slot)
        self.best_step = np.where(where, step, self.best_step)

    def _coverage_of(self, slot: npt.NDArray[np.intp]) -> Float64s:
        """(B, …) the penalty of hypotheses; places that nothing was attended to count nothing."""
        if self.coverage is None:
            return np.zeros(slot.shape)
        some = np.where(self.coverage > 0, self.coverage, 1.0)
        of_each = np.log(np.minimum(some, 1.0)).sum(-1)
        return np.asarray(self.beam.coverage_penalty * of_each[np.arange(len(slot))[:, None], slot])

    def _move(self, slot: npt.NDArray[np.intp], scores: Float64s, tokens: Int32s, ends: Bools) -> None:
        """The chosen candidates become the hypotheses; the decoder's rows of sentences that are done stay where they are."""
        count, width = self.scores.shape
        still = self.open[:, None]
        slot = np.where(still, slot, np.arange(width))
        tokens = np.where(still, tokens, PAD).astype(np.int32)
        rows = np.arange(count)[:, None]
        if not self.beam.keeps_finished:
            scores = np.where(ends, -np.inf, scores)
        self.counts = np.where(self.finished[rows, slot], self.counts[rows, slot], self.step)
        self.scores, self.finished = scores, ends & self.beam.keeps_finished
        if self.coverage is not None and self.beam.reorders_coverage:
            self.coverage = self.coverage[rows, slot]
        self.said.append(tokens)
        self.from_.append(slot)
        self.tokens = tokens.reshape(-1)
        self.parents = (slot + rows * width).reshape(-1)

    def _close(self) -> None:
        """End the search of sentences that are done, or as long as they may be."""
        last = self.step >= self.limits
        if self.beam.keeps_finished:
            done = (self.finished | np.isneginf(self.scores)).all(axis=1)
            decided = self.open & (done | last)
        else:
            done = self.scores.max(axis=1) / self.beam.norm(self.limits) <= self.best
            decided = self.open & last & (self.best == -np.inf)  # nothing ended: the best of what there is
        if decided.any():
            slot = np.indices(self.scores.shape)[1]
            totals = self.scores / self.beam.norm(self.counts) + self._coverage_of(slot)
            if self.beam.keeps_finished:
                totals = np.where(last[:, None], self.scores, totals)
            self._take_over(decided, totals, slot, self.counts, self.step)
        self.open = self.open & ~last & ~done

    def result(self) -> Translations:
        """Follow each best translation back to its beginning."""
        rows, slot = np.arange(len(self.best)), self.best_slot
        tokens = np.full((len(rows), max(1, self.step)), PAD, np.int32)
        aside = self.best_count > self.best_step
        tokens[rows[aside], self.best_step[aside]] = self.beam.end
        for step in range(self.step - 1, -1, -1):
            within = self.best_step > step
            tokens[within, step] = self.said[step][rows, slot][within]
            slot = np.where(within, self.from_[step][rows, slot], slot)
        tokens[np.arange(tokens.shape[1]) >= self.best_count[:, None]] = PAD
        return Translations(tokens, self.best_count.astype(np.int32), self.best)


def top(log_probabilities: npt.NDArray[np.floating], most: int) -> tuple[Float32s, Int32s]:
    """(N, m) scores and tokens of the m = min(most, V) most probable of (N, V): for decoders that have NumPy arrays."""
    most = min(most, log_probabilities.shape[1])
    tokens = np.argsort(-log_probabilities, axis=1, kind="stable")[:, :most]
    return np.take_along_axis(log_probabilities, tokens, 1).astype(np.float32), tokens.astype(np.int32)
