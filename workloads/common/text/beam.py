"""Batched, framework-independent beam search on the host.

The search supports any model that implements `start` and `step` of `Decoder`.

The shapes use these symbols: B sentences, K hypotheses per sentence, N = B·K decoder rows, m
candidates per row, S source positions, V vocabulary size, T tokens.

    score = log p / ((5 + n) / 6)^α + β · Σ_s log min(Σ_t attention(t, s), 1)

The score follows Wu et al. 2016, section 7. n is the number of tokens including EOS. With
`counts_begin`, n also includes BOS. The sum over s includes only the source positions that received
attention.

The search of a sentence does not depend on the other sentences of its batch. The rows of a finished
sentence stay in the batch, so the decoder always gets the same shapes. The module implements two
search algorithms:

- tensor2tensor (Transformer): The search considers the best 2K candidates. Candidates that end with
  EOS leave the beam, and the search continues with the first K of the remaining candidates. The
  search of a sentence ends when no running hypothesis can exceed the best score of an ended
  hypothesis. The upper bound of a running hypothesis is its current log p, divided by the length
  penalty of the maximum length.
- GNMT reference (`keeps_finished`; mlcommons/training retired_benchmarks/gnmt,
  seq2seq/inference/beam_search.py): The search considers the best K candidates. Ended hypotheses
  stay in the beam until hypotheses with a higher log p displace them. The search of a sentence ends
  when all K hypotheses have ended. The hypothesis with the best score is then the translation. If
  the maximum length is reached first, the hypothesis with the highest log p is the translation.
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
    """Possible next tokens of each decoder row."""

    scores: npt.NDArray[np.floating]
    """Scores (N, m): log p of the m most probable tokens, in any order. m is at least min(2K,
    V).
    """
    tokens: Integers
    """Token ids (N, m) of the candidates."""
    attention: npt.NDArray[np.floating] | None = None
    """Attention weights (N, S) of this step, with 0 at padding. A coverage penalty requires the
    attention weights.
    """


class Decoder(Protocol[State]):
    """Model that extends N = B·K translations. The K rows of a sentence are adjacent."""

    def start(self, batch: Batch) -> State:
        """Encode a batch and return the decoder's hidden states before the first token."""
        ...

    def step(self, state: State, tokens: Int32s, parents: Int64s) -> tuple[Candidates, State]:
        """Extend the translations by one token.

        The method returns candidates for the next token, and the new hidden states of the decoder.

        Row n extends the translation in row `parents[n]` of `state` by the token `tokens[n]`. The
        arrays `parents` and `tokens` have the shape (N,).
        """
        ...


@dataclass(frozen=True)
class Beam:
    """Parameters of a beam search."""

    width: int
    """Number K of hypotheses per sentence."""
    length_penalty: float = 0.6
    """Exponent α ≥ 0 of the length penalty."""
    coverage_penalty: float = 0.0
    """Weight β ≥ 0 of the coverage penalty."""
    counts_begin: bool = False
    """Whether the number of tokens n in the score includes BOS, as in the GNMT reference."""
    keeps_finished: bool = False
    """True to use the search algorithm of the GNMT reference. False to use the search algorithm of
    tensor2tensor.
    """
    reorders_coverage: bool = True
    """Whether the summed attention weights are reordered together with their hypotheses.

    The GNMT reference does not reorder the sums: sum k always belongs to position k in the beam.
    """
    start: int = 2
    """Token that the decoder receives before the first token of the translation."""
    end: int = EOS

    def __post_init__(self) -> None:
        if self.width < 1 or self.length_penalty < 0 or self.coverage_penalty < 0:
            raise ValueError(
                f"beam width {self.width}, length penalty {self.length_penalty}, "
                f"coverage penalty {self.coverage_penalty}: "
                f"expected a width of at least 1 and penalties of at least 0"
            )

    def norm(self, tokens: npt.ArrayLike) -> Float64s:
        """Return the length penalty for numbers of tokens. log p is divided by this penalty."""
        length = np.asarray(tokens, np.float64) + self.counts_begin
        return np.asarray(
            ((NORM_CONSTANT + length) / (NORM_CONSTANT + 1)) ** self.length_penalty, np.float64
        )


@dataclass(frozen=True)
class Translations:
    """The best hypothesis of each sentence."""

    tokens: Int32s
    """Token ids (B, T), padded with PAD.

    A translation has no EOS if it reached the maximum length first.
    """
    counts: Int32s
    """Number (B,) of tokens of each translation, including EOS."""
    scores: Float64s
    """Score (B,) of each translation."""


def search(
    decoder: Decoder[State], batch: Batch, beam: Beam, longest: npt.ArrayLike, live: Any = None
) -> Translations:
    """Translate a batch with beam search.

    Args:
        decoder: Decoder of the model.
        batch: Batch of sentences.
        beam: Parameters of the search.
        longest: Maximum length of each translation (B,), or a single maximum for all translations.
            The length includes EOS.
        live: Flags (B,) of the sentences to translate. By default, all sentences are translated.
            Sentences without a flag get an empty translation but still occupy rows of the decoder.
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
        """Flags (B,) of the sentences whose search continues."""
        self.scores = np.full((count, width), -np.inf)
        self.scores[:, 0] = 0.0
        """log p (B, K) of each hypothesis. At the start, all K hypotheses are equal, so only the
        first hypothesis has a finite log p.
        """
        self.finished = np.zeros((count, width), bool)
        self.tokens: Int32s = np.full(count * width, beam.start, np.int32)
        self.parents: Int64s = np.arange(count * width)
        self.coverage: Float64s | None = None
        """Attention weights (B, K, S), summed over the tokens of each hypothesis."""
        self.counts = np.zeros((count, width), np.int64)
        """Number (B, K) of tokens of each hypothesis, including EOS."""
        self.step_tokens: list[Int32s] = []
        """Token (B, K) that was appended to each hypothesis, for each step."""
        self.step_parents: list[npt.NDArray[np.intp]] = []
        """Index (B, K) of the previous hypothesis that each hypothesis extends, for each step."""
        self.best = np.full(count, -np.inf)
        """Score (B,) of the best ended hypothesis of each sentence."""
        self.best_count = np.zeros(count, np.int64)
        """Number (B,) of tokens of the best translation, including EOS."""
        self.best_slot = np.zeros(count, np.intp)
        """Index (B,) of the best translation among the K hypotheses after `best_step` steps."""
        self.best_step = np.zeros(count, np.int64)
        """Number (B,) of steps after which the best translation had the index `best_slot`.

        `best_step` is `best_count` - 1 if the translation ended with EOS in the next step and left
        the beam.
        """

    def advance(self, candidates: Candidates) -> None:
        """Append a token to the hypotheses of every sentence whose search continues."""
        beam, (count, width) = self.beam, self.scores.shape
        offered = np.asarray(candidates.tokens).reshape(count, width, -1)
        step_scores = np.asarray(candidates.scores, np.float64).reshape(offered.shape)
        # Uninitialized or diverged weights can produce NaN scores. Candidates with a NaN score are
        # never chosen, so the search still ends.
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
        # The search continues with the first K candidates that do not end with EOS.
        if not beam.keeps_finished:
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
        """Replace the candidates of each ended hypothesis by a single EOS with log p 0."""
        if not self.finished.any():
            return offered, scores
        held = self.finished[:, :, None]
        first = np.arange(offered.shape[2]) == 0
        end_scores = np.where(first, self.scores[:, :, None], -np.inf)
        return np.where(held, self.beam.end, offered), np.where(held, end_scores, scores)

    @staticmethod
    def _best(scores: Float64s, offered: npt.NDArray[Any], most: int) -> npt.NDArray[np.intp]:
        """Return the indices (B, most) of the best candidates, best first.

        Candidates with equal scores are sorted by hypothesis, then by token id.
        """
        count, _, choices = scores.shape
        flat = scores.reshape(count, -1)
        most = min(most, flat.shape[1])
        if most < flat.shape[1]:
            # All candidates with the same score as the last chosen candidate are kept. The sort by
            # hypothesis and token id then selects among these candidates.
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
        """Record hypotheses that end in this step if they exceed the best score of a sentence."""
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
            where: Flags (B,) of the sentences whose best translation is replaced.
            totals: Scores (B, …) of the candidates. The candidate with the highest score is
                selected.
            slot: Indices (B, …) of the candidates among the K hypotheses after `step` steps.
            counts: Numbers (B, …) of tokens of the candidates.
            step: Number of steps after which the candidates had the indices `slot`.
        """
        best = np.arange(len(totals)), np.argmax(totals, axis=1)
        self.best = np.where(where, totals[best], self.best)
        self.best_count = np.where(where, counts[best], self.best_count)
        self.best_slot = np.where(where, slot[best], self.best_slot)
        self.best_step = np.where(where, step, self.best_step)

    def _coverage_of(self, slot: npt.NDArray[np.intp]) -> Float64s:
        """Return the coverage penalty (B, …) of the hypotheses with the indices `slot`.

        Source positions that received no attention are ignored.
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
        """Replace the hypotheses with the chosen candidates.

        The decoder rows of finished sentences keep their order.
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
        """End the search of sentences that are finished or have reached the maximum length."""
        last = self.step >= self.limits
        if self.beam.keeps_finished:
            done = (self.finished | np.isneginf(self.scores)).all(axis=1)
            decided = self.open & (done | last)
        else:
            done = self.scores.max(axis=1) / self.beam.norm(self.limits) <= self.best
            # If no hypothesis has ended, the best running hypothesis becomes the translation.
            decided = self.open & last & (self.best == -np.inf)
        if decided.any():
            slot = np.indices(self.scores.shape)[1]
            totals = self.scores / self.beam.norm(self.counts) + self._coverage_of(slot)
            if self.beam.keeps_finished:
                totals = np.where(last[:, None], self.scores, totals)
            self._take_over(decided, totals, slot, self.counts, self.step)
        self.open = self.open & ~last & ~done

    def result(self) -> Translations:
        """Return the best translations by following each translation back to its first token."""
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
    """Return scores and tokens (N, m) of the m = min(`most`, V) most probable tokens.

    Decoders that return log probabilities (N, V) as NumPy arrays use this function.
    """
    most = min(most, log_probabilities.shape[1])
    tokens = np.argsort(-log_probabilities, axis=1, kind="stable")[:, :most]
    return np.take_along_axis(log_probabilities, tokens, 1).astype(np.float32), tokens.astype(
        np.int32
    )
