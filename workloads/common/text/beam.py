"""Batched, framework-independent beam search on the host.

It works with any model that implements `start` and `step` of `Decoder`.

Shapes: B sentences, K hypotheses per sentence, N = B·K decoder rows, m candidates per row, S source
positions, V vocabulary size, T tokens.

    score = log p / ((5 + n) / 6)^α + β · Σ_s log min(Σ_t attention(t, s), 1)

(Wu et al. 2016, section 7). n is the number of tokens with EOS, and with BOS if `counts_begin` is
set. The sum over s includes only the source positions that received attention.

The search of a sentence does not depend on the other sentences of its batch. A finished sentence is
frozen but keeps its rows, so the decoder always sees the same shape. There are two kinds of search:

- tensor2tensor (Transformer): The search looks at the best 2K candidates. Candidates that end with
  EOS leave the beam, and the search continues with the first K of the remaining candidates. A
  sentence is finished when no running hypothesis can still win. Its score is bounded, because log p
  only falls and the penalty is mildest at the longest allowed length.
- GNMT reference (`keeps_finished`; mlcommons/training retired_benchmarks/gnmt,
  seq2seq/inference/beam_search.py): The search looks at the best K candidates. Finished hypotheses
  stay in the beam until hypotheses with a higher log p displace them. A sentence is finished when
  all K hypotheses have ended, and the best score wins. If the longest allowed length is reached
  first, the highest log p wins.
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
"""Constant of the length penalty (Wu et al. 2016, equation 14)."""


@dataclass(frozen=True)
class Candidates:
    """Possible next tokens of each row."""

    scores: npt.NDArray[np.floating]
    """(N, m) log p of the m most probable tokens in any order. m is at least min(2K, V)."""
    tokens: Integers
    """(N, m)"""
    attention: npt.NDArray[np.floating] | None = None
    """(N, S) attention weights of this step, 0 at padding. A coverage penalty needs them."""


class Decoder(Protocol[State]):
    """A model that extends N = B·K translations. The K rows of a sentence are adjacent."""

    def start(self, batch: Batch) -> State:
        """Encode a batch and return the state before the first token."""
        ...

    def step(self, state: State, tokens: Int32s, parents: Int64s) -> tuple[Candidates, State]:
        """Extend the translations by one token.

        Returns candidates for the next token, and the new state.

        Row n extends the translation in row `parents[n]` of `state` by `tokens[n]`. Both have the
        shape (N,).
        """
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
    """Whether BOS counts in n, as in the GNMT reference."""
    keeps_finished: bool = False
    """Whether to search like the GNMT reference, instead of like tensor2tensor."""
    reorders_coverage: bool = True
    """Whether the sums of attention weights are reordered together with their hypotheses.

    The GNMT reference does not reorder them: sum k always belongs to row k of the K hypotheses.
    """
    start: int = 2
    """Token that the decoder gets before the first token of the translation."""
    end: int = EOS

    def __post_init__(self) -> None:
        if self.width < 1 or self.length_penalty < 0 or self.coverage_penalty < 0:
            raise ValueError(
                f"beam width {self.width}, length penalty {self.length_penalty}, "
                f"coverage penalty {self.coverage_penalty}: "
                f"expected a width of at least 1 and penalties of at least 0"
            )

    def norm(self, tokens: npt.ArrayLike) -> Float64s:
        """Return the length penalty (the divisor of log p) for these numbers of tokens."""
        length = np.asarray(tokens, np.float64) + self.counts_begin
        return np.asarray(
            ((NORM_CONSTANT + length) / (NORM_CONSTANT + 1)) ** self.length_penalty, np.float64
        )


@dataclass(frozen=True)
class Translations:
    """The best hypothesis of each sentence."""

    tokens: Int32s
    """(B, T) tokens, padded with PAD.

    EOS is missing if the longest allowed length was reached first.
    """
    counts: Int32s
    """(B,) number of tokens, EOS included."""
    scores: Float64s
    """(B,)"""


def search(
    decoder: Decoder[State], batch: Batch, beam: Beam, longest: npt.ArrayLike, live: Any = None
) -> Translations:
    """Translate a batch.

    Args:
        decoder: Decoder of the model.
        batch: Batch of sentences.
        beam: Settings of the search.
        longest: Longest allowed length of each translation (B,), or one number for all. EOS counts.
        live: Sentences to translate, (B,) bool. Default: all. The remaining sentences get an empty
            translation. They still occupy rows of the decoder.
    """
    count = len(batch.arrays["source"])
    limits = np.broadcast_to(np.asarray(longest, np.int64), (count,))
    state = decoder.start(batch)
    running = _Search(
        beam, limits, np.ones(count, bool) if live is None else np.asarray(live, bool)
    )
    while running.open.any():
        candidates, state = decoder.step(state, running.tokens, running.parents)
        running.advance(candidates)
    return running.result()


class _Search:
    """The hypotheses of a batch between two steps."""

    def __init__(self, beam: Beam, limits: Int64s, live: Bools) -> None:
        count, width = len(limits), beam.width
        self.beam, self.limits, self.step = beam, limits, 0
        self.open = live & (limits > 0)
        """(B,) whether the search of a sentence continues."""
        self.scores = np.full((count, width), -np.inf)
        self.scores[:, 0] = 0.0
        """(B, K) log p. Only the first hypothesis counts at the start, because all K are equal."""
        self.finished = np.zeros((count, width), bool)
        self.tokens: Int32s = np.full(count * width, beam.start, np.int32)
        self.parents: Int64s = np.arange(count * width)
        self.coverage: Float64s | None = None
        """(B, K, S) attention summed over the tokens."""
        self.counts = np.zeros((count, width), np.int64)
        """(B, K) number of tokens, EOS included."""
        self.step_tokens: list[Int32s] = []
        """(B, K) for each step: the token that each hypothesis appended."""
        self.step_parents: list[npt.NDArray[np.intp]] = []
        """(B, K) for each step: the slot of the hypothesis that each hypothesis extends."""
        self.best = np.full(count, -np.inf)
        """(B,) score of the best translation so far."""
        self.best_count = np.zeros(count, np.int64)
        """(B,) number of tokens of the best translation, EOS included."""
        self.best_slot = np.zeros(count, np.intp)
        """(B,) slot of the best translation among the K hypotheses, after `best_step` steps."""
        self.best_step = np.zeros(count, np.int64)
        """(B,) number of steps after which the best translation occupied `best_slot`.

        It is one less than `best_count` if the translation then ended with EOS and left the beam.
        """

    def advance(self, candidates: Candidates) -> None:
        """Append a token to the hypotheses of every open sentence."""
        beam, (count, width) = self.beam, self.scores.shape
        offered = np.asarray(candidates.tokens).reshape(count, width, -1)
        step_scores = np.asarray(candidates.scores, np.float64).reshape(offered.shape)
        # Uninitialized or diverged weights give NaN. Such candidates cannot be chosen, and the
        # search still ends.
        scores = self.scores[:, :, None] + np.where(np.isnan(step_scores), -np.inf, step_scores)
        self._add_coverage(candidates)
        offered, scores = self._with_finished(offered, scores)
        order = self._best(scores, offered, width if beam.keeps_finished else 2 * width)
        slot, choice = np.divmod(order, offered.shape[2])
        rows = np.arange(count)[:, None]
        chosen, tokens = scores[rows, slot, choice], offered[rows, slot, choice].astype(np.int32)
        ends = (tokens == beam.end) & (chosen > -np.inf)
        self.step += 1
        picked = np.broadcast_to(np.arange(width), (count, width))
        if not beam.keeps_finished:  # continue with the first K candidates that do not end
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

    def _with_finished(
        self, offered: npt.NDArray[Any], scores: Float64s
    ) -> tuple[npt.NDArray[Any], Float64s]:
        """Replace the candidates of finished hypotheses: EOS at no cost is their only candidate."""
        if not self.finished.any():
            return offered, scores
        held = self.finished[:, :, None]
        first = np.arange(offered.shape[2]) == 0
        end_scores = np.where(first, self.scores[:, :, None], -np.inf)
        return np.where(held, self.beam.end, offered), np.where(held, end_scores, scores)

    @staticmethod
    def _best(scores: Float64s, offered: npt.NDArray[Any], most: int) -> npt.NDArray[np.intp]:
        """Return the indices (B, most) of the best candidates, best first.

        Candidates with equal scores are sorted by hypothesis, then by token.
        """
        count, _, choices = scores.shape
        flat = scores.reshape(count, -1)
        most = min(most, flat.shape[1])
        if most < flat.shape[1]:
            # Keep all candidates that tie with the last, so that hypothesis and token decide.
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
        """Record translations that have just ended and beat the best translation so far."""
        ends = ends & self.open[:, None]
        if not ends.any():
            return
        totals = np.where(
            ends, scores / self.beam.norm(self.step) + self._coverage_of(slot), -np.inf
        )
        counts = np.full(totals.shape, self.step)
        self._take_over(totals.max(axis=1) > self.best, totals, slot, counts, self.step - 1)

    def _take_over(
        self, where: Bools, totals: Float64s, slot: npt.NDArray[np.intp], counts: Int64s, step: int
    ) -> None:
        """Replace the best translations of the sentences selected by `where`.

        Args:
            where: (B,) sentences whose best translation is replaced.
            totals: (B, …) scores of the candidates. The highest score wins.
            slot: (B, …) slots of the candidates among the K hypotheses, after `step` steps.
            counts: (B, …) numbers of tokens of the candidates.
            step: Number of steps after which the candidates occupied `slot`.
        """
        best = np.arange(len(totals)), np.argmax(totals, axis=1)
        self.best = np.where(where, totals[best], self.best)
        self.best_count = np.where(where, counts[best], self.best_count)
        self.best_slot = np.where(where, slot[best], self.best_slot)
        self.best_step = np.where(where, step, self.best_step)

    def _coverage_of(self, slot: npt.NDArray[np.intp]) -> Float64s:
        """Return the coverage penalty (B, …) of the hypotheses `slot`.

        Source positions that received no attention do not count.
        """
        if self.coverage is None:
            return np.zeros(slot.shape)
        some = np.where(self.coverage > 0, self.coverage, 1.0)
        log_sums = np.log(np.minimum(some, 1.0)).sum(-1)
        return np.asarray(
            self.beam.coverage_penalty * log_sums[np.arange(len(slot))[:, None], slot]
        )

    def _move(
        self, slot: npt.NDArray[np.intp], scores: Float64s, tokens: Int32s, ends: Bools
    ) -> None:
        """Make the chosen candidates the hypotheses.

        Finished sentences keep the order of their decoder rows.
        """
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
        self.step_tokens.append(tokens)
        self.step_parents.append(slot)
        self.tokens = tokens.reshape(-1)
        self.parents = (slot + rows * width).reshape(-1)

    def _close(self) -> None:
        """End the search of sentences that are finished or have the longest allowed length."""
        last = self.step >= self.limits
        if self.beam.keeps_finished:
            done = (self.finished | np.isneginf(self.scores)).all(axis=1)
            decided = self.open & (done | last)
        else:
            done = self.scores.max(axis=1) / self.beam.norm(self.limits) <= self.best
            # If no hypothesis has ended, choose the best running hypothesis.
            decided = self.open & last & (self.best == -np.inf)
        if decided.any():
            slot = np.indices(self.scores.shape)[1]
            totals = self.scores / self.beam.norm(self.counts) + self._coverage_of(slot)
            if self.beam.keeps_finished:
                totals = np.where(last[:, None], self.scores, totals)
            self._take_over(decided, totals, slot, self.counts, self.step)
        self.open = self.open & ~last & ~done

    def result(self) -> Translations:
        """Return the best translations, by following each of them back to its first token."""
        rows, slot = np.arange(len(self.best)), self.best_slot
        tokens = np.full((len(rows), max(1, self.step)), PAD, np.int32)
        left_beam = self.best_count > self.best_step
        tokens[rows[left_beam], self.best_step[left_beam]] = self.beam.end
        for step in range(self.step - 1, -1, -1):
            within = self.best_step > step
            tokens[within, step] = self.step_tokens[step][rows, slot][within]
            slot = np.where(within, self.step_parents[step][rows, slot], slot)
        tokens[np.arange(tokens.shape[1]) >= self.best_count[:, None]] = PAD
        return Translations(tokens, self.best_count.astype(np.int32), self.best)


def top(log_probabilities: npt.NDArray[np.floating], most: int) -> tuple[Float32s, Int32s]:
    """Return scores and tokens (N, m) of the m = min(most, V) most probable tokens.

    For decoders that return their log probabilities (N, V) as NumPy arrays.
    """
    most = min(most, log_probabilities.shape[1])
    tokens = np.argsort(-log_probabilities, axis=1, kind="stable")[:, :most]
    return np.take_along_axis(log_probabilities, tokens, 1).astype(np.float32), tokens.astype(
        np.int32
    )
