"""Base of the JAX translation trainers.

The module contains hashed dropout masks, the token loss, and a compiled beam search.

The shapes use these symbols: B sentences of a replica, T positions of a target with padding, V
words of the vocabulary, K hypotheses, and N = B · K rows of a search. Padding also has rows, so
that JAX traces static shapes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workloads.api import Arrays, Batch
from workloads.common import dropout
from workloads.common.arrays import Int32s, Int64s
from workloads.common.randomness import GAMMA, MULTIPLIER_1, MULTIPLIER_2, stream
from workloads.common.text import beam
from workloads.common.text.vocabulary import PAD
from workloads.common.text.workload import TranslationWorkload
from workloads.frameworks.jax.model import ModelTrainer, words
from workloads.frameworks.jax.optimizers import Values

ROOM = 16
"""Initial number of tokens for which a beam search allocates arrays. The number is doubled when
necessary, so that JAX compiles only a few shapes.
"""
Kept = Any
"""Hidden states that a decoder keeps from token to token. The rows of a search are the first
axis of the arrays.
"""
Masks = dict[str, jax.Array]
"""Dropout masks of a batch by label. A mask contains the factors (B, positions, width) for the
activations.
"""


def product(x: jax.Array, weight: jax.Array, dtype: Any) -> jax.Array:
    """Return x (…, inputs) times the transposed weight (outputs, inputs).

    The product is computed in `dtype` and returned in fp32.
    """
    return (x.astype(dtype) @ weight.astype(dtype).T).astype(jnp.float32)


def drawn(keys: jax.Array, positions: int, widths: Mapping[str, int], rate: float) -> Masks:
    """Compute `workloads.common.dropout.multipliers` of all labels on the device.

    `keys` (B, 2) contains the samples' 64-bit keys, each as two 32-bit words. All labels share one
    hash computation, because separate hash computations would take as long to compile as the model.
    """
    counts = [width // dropout.DRAWS for width in widths.values()]
    with jax.enable_x64(True):  # Outside of this block, 64-bit numbers are disabled in JAX.
        state = jnp.array([stream(0, f"dropout/{label}") for label in widths])
        state = _mixed(state, jax.lax.bitcast_convert_type(keys, jnp.uint64)[:, None, None])
        state = _mixed(state, jnp.arange(positions, dtype=jnp.uint64)[:, None])
        state = state[..., np.repeat(np.arange(len(counts)), counts)]
        state = _mixed(
            state,
            jnp.array(np.concatenate([np.arange(count, dtype=np.uint64) for count in counts])),
        )
        draws = jax.lax.bitcast_convert_type(state, jnp.uint16)
        kept = draws.reshape(*state.shape[:2], -1) >= jnp.uint16(dropout.threshold(rate))
    factors = jnp.where(
        jax.lax.optimization_barrier(kept), np.float32(1 / (1 - rate)), np.float32(0)
    )
    return dict(
        zip(widths, jnp.split(factors, np.cumsum(list(widths.values()))[:-1], 2), strict=True)
    )


def _mixed(state: jax.Array, coordinate: jax.Array) -> jax.Array:
    """Apply one step of the hash (workloads/common/randomness.py)."""
    state = state + (coordinate + jnp.uint64(1)) * jnp.uint64(GAMMA)
    for shift, multiplier in ((30, MULTIPLIER_1), (27, MULTIPLIER_2)):
        state = (state ^ (state >> jnp.uint64(shift))) * jnp.uint64(multiplier)
    return state ^ (state >> jnp.uint64(31))


def entropy(logits: jax.Array, labels: jax.Array, on_label: float, on_mean: float) -> jax.Array:
    """Return the smoothed cross-entropy (…) of logits (…, V) and labels (…).

    The formula is -(on_label · log p of the label + on_mean · mean over V of log p). At padding,
    the cross-entropy is 0.
    """
    vocabulary = logits.shape[-1]
    soft_targets = jax.nn.one_hot(labels, vocabulary) * on_label + on_mean / vocabulary
    return jnp.where(
        labels != PAD, -(soft_targets * jax.nn.log_softmax(logits.astype(jnp.float32))).sum(-1), 0.0
    )


class TextTrainer(ModelTrainer):
    """Trainer of a translation model on a single device.

    Subclasses define `loss`, `logits`, and the initial hidden states and the step of a decoder.
    """

    workload: TranslationWorkload
    inputs = ("source", "source_length", "target", "label", "dropout_key")
    evaluation_inputs = ("source", "source_length", "target", "label")

    # -- for subclasses
    # -------------------------------------------------------------------------------------------

    @abstractmethod
    def logits(self, model: Any, batch: Mapping[str, jax.Array], masks: Masks | None) -> jax.Array:
        """Return the logits (B, T, V) of a batch."""

    @abstractmethod
    def encoded(self, weights: Values, source: jax.Array, lengths: jax.Array) -> Any:
        """Return the encoder's outputs, to which the decoder attends during a search.

        The source sentences are (B, S) with lengths (B,).
        """

    @abstractmethod
    def begun(self, rows: int) -> Kept:
        """Return the decoder's hidden states at the start of a search: zeros in host memory.

        The arrays have `rows` rows and space for ROOM tokens.
        """

    def grown(self, kept: Kept) -> Kept:
        """Double the number of tokens for which `kept` has space.

        By default, `kept` is returned unchanged. The default is correct for decoders whose hidden
        states do not grow with the number of tokens.
        """
        return kept

    @abstractmethod
    def advanced(
        self, weights: Values, memory: Any, kept: Kept, tokens: jax.Array, place: jax.Array
    ) -> tuple[jax.Array, jax.Array | None, Kept]:
        """Run a step of the decoder.

        Args:
            weights: Weights of the model.
            memory: Result of `encoded`.
            kept: Hidden states of the decoder.
            tokens: Current tokens (N,) of the rows.
            place: Position of the current tokens in their sentences.

        Returns:
            Logits (N, V), attention weights (N, S) for a coverage penalty or None, and the new
            hidden states.
        """

    # -- a step
    # ----------------------------------------------------------------------------------------------

    def host_arrays(self, batch: Batch, training: bool) -> Arrays:
        arrays = super().host_arrays(batch, training)
        return {**arrays, "dropout_key": words(arrays["dropout_key"])} if training else arrays

    def outputs(self, model: Any, batch: Mapping[str, jax.Array]) -> Values:
        """Return the `loss` (B,) of each sentence: -log p summed over the sentence's tokens."""
        return {"loss": entropy(self.logits(model, batch, None), batch["label"], 1.0, 0.0).sum(1)}

    # -- translation
    # ----------------------------------------------------------------------------------------------

    def _build(self) -> None:
        super()._build()
        # Each process searches independently of all other processes, so these functions run only on
        # the local device.
        self.encode, self.grow = jax.jit(self.encoded), jax.jit(self.grown)
        self.advance = jax.jit(self._advance, donate_argnums=2)

    def run_outputs(self, batch: Batch) -> dict[str, jax.Array]:
        """Return the losses of a batch with labels, or the translations of any other batch.

        Losses are the result of `outputs`. Translations are `tokens` (B, T) and `token_count` (B,).
        """
        if "label" in batch.arrays:
            return super().run_outputs(batch)
        search = Search(self)
        if "valid" not in batch.arrays:
            search.rehearse(batch)
        translated = self.workload.translated(search, batch)
        return {name: jax.device_put(value, self.device) for name, value in translated.items()}

    def _advance(
        self,
        weights: Values,
        memory: Any,
        kept: Kept,
        tokens: jax.Array,
        parents: jax.Array,
        place: jax.Array,
    ) -> tuple[list[jax.Array], Kept]:
        """Run a decoder step in which row n continues the hypothesis in row `parents[n]`.

        Returns:
            A list with log p and ids (N, m) of the most probable tokens and, if available, the
            attention weights. The second result is the new hidden states.
        """
        before = jax.tree.map(lambda array: array[parents], kept)
        logits, attention, after = self.advanced(weights, memory, before, tokens, place)
        most = min(2 * self.workload.beam.width, logits.shape[1])
        best = jax.lax.top_k(jax.nn.log_softmax(logits.astype(jnp.float32)), most)
        return [*best, *([] if attention is None else [attention])], after


@dataclass(frozen=True)
class State:
    """Encoder outputs and hidden states of a beam search on the device."""

    memory: Any
    kept: Kept
    length: int = 0
    room: int = ROOM
    """Number of tokens for which `kept` has space. `length` is the current number of tokens."""


class Search:
    """Decoder (`workloads.common.text.beam.Decoder`) that calls a trainer's functions."""

    def __init__(self, trainer: TextTrainer) -> None:
        self.trainer = trainer
        local = {name: value.addressable_shards[0].data for name, value in trainer.values.items()}
        self.weights = jax.device_put(local, trainer.device)
        """Copy of the weights on the local device, outside of the mesh. If the weights were on the
        mesh, JAX would recompile a function for each function that returned the weights.
        """

    def start(self, batch: Batch) -> State:
        source, lengths = (batch.arrays[name] for name in ("source", "source_length"))
        rows = len(source) * self.trainer.workload.beam.width
        # Each step overwrites the hidden states, so their arrays must not alias host memory.
        kept = jax.device_put(self.trainer.begun(rows), self.trainer.device, may_alias=False)
        return State(self.trainer.encode(self.weights, source, lengths), kept)

    def step(self, state: State, tokens: Int32s, parents: Int64s) -> tuple[beam.Candidates, State]:
        if state.length == state.room:
            state = replace(state, kept=self.trainer.grow(state.kept), room=2 * state.room)
        place = np.int32(state.length)
        best, kept = self.trainer.advance(
            self.weights, state.memory, state.kept, tokens, parents, place
        )
        return beam.Candidates(*(np.asarray(array) for array in best)), replace(
            state, kept=kept, length=state.length + 1
        )

    def rehearse(self, batch: Batch) -> None:
        """Compile the decoder steps for all array sizes that translations of a batch may need."""
        state, longest = (
            self.start(batch),
            int(self.trainer.workload.longest_translation(batch).max()),
        )
        rows = np.arange(len(batch.arrays["source"]) * self.trainer.workload.beam.width)
        while state.room < longest:
            _, state = self.step(
                replace(state, length=state.room), np.zeros(len(rows), np.int32), rows
            )
