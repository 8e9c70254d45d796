"""GNMT in JAX.

Each LSTM processes the whole sequence in a single `lax.scan`, and attention is computed for all
steps at once. Matrix products use the data type of the activations, and all operations between the
products use fp32.

network.py describes the shapes and the names of parameters. A sequence has L positions, and a beam
search has N = B · K rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from workloads.api import Array, WorkerContext
from workloads.frameworks.jax.model import Model
from workloads.frameworks.jax.optimizers import Values
from workloads.frameworks.jax.text import Masks, TextTrainer, drawn, entropy, product
from workloads.gnmt import network
from workloads.gnmt.workload import GNMT


class Memory(NamedTuple):
    """Encoder outputs of B sentences, to which the decoder attends."""

    values: jax.Array
    """Encoder outputs (B, S, h)."""
    keys: jax.Array
    """Attention keys (B, S, h), which are projected encoder outputs."""
    padding: jax.Array
    """Padding mask (B, S), which is True at padding positions."""


class Translator(Model):
    """Translation network with its weights."""

    def __init__(self, weights: Values, layers: network.Network, dtype: Any) -> None:
        """Create the network.

        `dtype` is the data type of both inputs of matrix products.
        """
        super().__init__(weights, {})
        self.layers, self.dtype = layers, dtype

    def linear(self, name: str, x: jax.Array) -> jax.Array:
        """Apply the linear layer `name` without its bias: x (…, inputs) to fp32 (…, outputs)."""
        return product(x, self.weights[f"{name}.weight"], self.dtype)

    def words(self, ids: jax.Array) -> jax.Array:
        """Return the embeddings (…, h) of token ids (…)."""
        return self.weights["embedding.weight"][ids]

    def pre_activations(self, layer: network.Lstm, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return an LSTM's gate pre-activations (…, 4h) for x (…, inputs).

        The second result is the recurrent weight in the data type of matrix products.

        The pre-activations include the input and both biases, but not the recurrent product.
        """
        of_input, of_state, *biases = (
            self.weights[f"{layer.name}.{part}"] for part in network.PARTS
        )
        return product(x, of_input, self.dtype) + sum(biases), of_state.astype(self.dtype)

    def run(self, layer: network.Lstm, x: jax.Array) -> jax.Array:
        """Run an LSTM over x (L, B, inputs) and return its outputs (L, B, h).

        The initial hidden and cell states are 0.
        """
        hidden: jax.Array = recurrence(*self.pre_activations(layer, x))
        return hidden

    def encode(self, x: jax.Array, lengths: jax.Array, mask: jax.Array | None) -> Memory:
        """Encode embedded tokens (S, B, h) with sentence lengths (B,), and return the memory."""
        ahead, back, *further = self.layers.encoder
        x, position = dropped(x, mask, ahead), jnp.arange(len(x))[:, None]
        mirrored = jnp.where(position < lengths, lengths - 1 - position, position)[..., None]
        backward = self.run(back, jnp.take_along_axis(x, mirrored, 0))
        x = jnp.concatenate([self.run(ahead, x), jnp.take_along_axis(backward, mirrored, 0)], 2)
        for layer in further:
            y = self.run(layer, dropped(x, mask, layer))
            x = x + y if layer.residual else y
        values = x.swapaxes(0, 1)
        keys = self.linear("attention.key", values) + self.weights["attention.bias"]
        return Memory(values, keys, jnp.arange(values.shape[1]) >= lengths[:, None])

    def decode(self, x: jax.Array, memory: Memory, mask: jax.Array | None) -> jax.Array:
        """Return the classifier's inputs (T, B, h) for embedded tokens (T, B, h).

        All positions are computed at once.
        """
        first, *further = self.layers.decoder
        x = self.run(first, dropped(x, mask, first))
        context = self.attend(x.swapaxes(0, 1), memory)[0].swapaxes(0, 1)
        for layer in further:
            y = self.run(layer, dropped(jnp.concatenate([x, context], 2), mask, layer))
            x = x + y if layer.residual else y
        return x

    def attend(self, queries: jax.Array, memory: Memory) -> tuple[jax.Array, jax.Array]:
        """Return contexts (B, T, h) and attention weights (B, T, S) for queries (B, T, h)."""
        sums = jnp.tanh(self.linear("attention.query", queries)[:, :, None] + memory.keys[:, None])
        vector = self.weights["attention.vector"]
        scores = (sums * (self.weights["attention.scale"] * vector / jnp.linalg.norm(vector))).sum(
            -1
        )
        weights = jax.nn.softmax(jnp.where(memory.padding[:, None], network.MASKED_SCORE, scores))
        return (weights.astype(self.dtype) @ memory.values.astype(self.dtype)).astype(
            jnp.float32
        ), weights

    def classify(self, x: jax.Array) -> jax.Array:
        """Return logits (…, V) from the decoder's outputs (…, h)."""
        return self.linear("classifier", x) + self.weights["classifier.bias"]


def dropped(x: jax.Array, mask: jax.Array | None, layer: network.Lstm) -> jax.Array:
    """Return an LSTM's input (L, B, inputs) with dropout applied."""
    return x if mask is None else x * mask[..., layer.mask]


def cell(
    pre_activations: jax.Array, state: tuple[jax.Array, jax.Array], weight: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Run a step of an LSTM and return its new hidden and cell states, (N, h) each.

    Args:
        pre_activations: Gate pre-activations without the recurrent product, (N, 4h).
        state: Hidden and cell states before the step, (N, h) each.
        weight: Recurrent weight, (4h, h).
    """
    hidden, held = state
    i, f, g, o = jnp.split(
        pre_activations + product(hidden, weight, weight.dtype), network.GATES, -1
    )
    held = jax.nn.sigmoid(f) * held + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(held), held


def _scanned(pre_activations: jax.Array, weight: jax.Array) -> jax.Array:
    """Return an LSTM's hidden states (L, B, h).

    `pre_activations` (L, B, 4h) are the gate pre-activations without the recurrent product.
    `weight` is the recurrent weight (4h, h).
    """
    zeros = jnp.zeros((pre_activations.shape[1], weight.shape[1]), pre_activations.dtype)

    def step(
        state: tuple[jax.Array, jax.Array], now: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        state = cell(now, state, weight)
        return state, state[0]

    return jax.lax.scan(step, (zeros, zeros), pre_activations)[1]


def _forwards(pre_activations: jax.Array, weight: jax.Array) -> tuple[jax.Array, tuple[Any, ...]]:
    hidden, pull = jax.vjp(
        lambda pre_activations: _scanned(pre_activations, weight), pre_activations
    )
    return hidden, (pull, hidden, weight)


def _backwards(kept: tuple[Any, ...], by_hidden: jax.Array) -> tuple[jax.Array, jax.Array]:
    pull, hidden, weight = kept
    (by_given,) = pull(by_hidden)
    before = jnp.concatenate([jnp.zeros_like(hidden[:1]), hidden[:-1]])
    factors = (x.reshape(-1, x.shape[-1]).astype(weight.dtype) for x in (by_given, before))
    return by_given, jax.lax.dot(next(factors).T, next(factors))


recurrence = jax.custom_vjp(_scanned)
recurrence.defvjp(_forwards, _backwards)
"""LSTM recurrence. The gradient of the recurrent weight is a single matrix product at the end.

JAX's automatic gradient of a scan would accumulate the weight gradient in each step.
"""


class GNMTTrainer(TextTrainer):
    """GNMT trainer for one device.

    With several processes, the gradients are summed over the processes (all-reduce).
    """

    workload: GNMT

    def __init__(self, workload: GNMT, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        self.layers = workload.network
        self.parameters = network.shapes(self.layers)

    def build_model(self, weights: Values, statistics: Values) -> Translator:
        """Return the network of the workload with these weights."""
        return Translator(weights, self.layers, self.dtype)

    def loss(self, model: Translator, batch: Mapping[str, jax.Array]) -> jax.Array:
        """Return the cross-entropy with smoothed labels, summed over the target tokens."""
        logits = self.logits(model, batch, self._masks(batch) if self.layers.dropout else None)
        smoothing = self.workload.options.label_smoothing
        return entropy(logits, batch["label"], 1 - smoothing, smoothing).sum()

    def logits(
        self, model: Translator, batch: Mapping[str, jax.Array], masks: Masks | None
    ) -> jax.Array:
        source, target = batch["source"], batch["target"]
        # Source and target tokens share a single embedding look-up, because the gradient of each
        # look-up is an array as large as the embedding table.
        embedded, previous = jnp.split(
            model.words(jnp.concatenate([source, target], 1).T), [source.shape[1]]
        )
        memory = model.encode(
            embedded, batch["source_length"], masks and masks["source"].swapaxes(0, 1)
        )
        decoded = model.decode(previous, memory, masks and masks["target"].swapaxes(0, 1))
        return model.classify(decoded).swapaxes(0, 1)

    def _masks(self, batch: Mapping[str, jax.Array]) -> Masks:
        masks: Masks = {}
        for side, width in zip(("source", "target"), self.layers.mask_widths, strict=True):
            masks |= drawn(
                batch["dropout_key"], batch[side].shape[1], {side: width}, self.layers.dropout
            )
        return masks

    # -- a search
    # ----------------------------------------------------------------------------------------------

    def encoded(self, weights: Values, source: jax.Array, lengths: jax.Array) -> Memory:
        model = self.build_model(weights, {})
        return model.encode(model.words(source.T), lengths, None)

    def begun(self, rows: int) -> list[Array]:
        """Return zeros for the hidden states of all layers, then for the cell states.

        Each array has the shape (N, h).
        """
        return [
            np.zeros((rows, self.layers.hidden), np.float32)
            for _ in range(2 * len(self.layers.decoder))
        ]

    def advanced(
        self,
        weights: Values,
        memory: Memory,
        kept: list[jax.Array],
        tokens: jax.Array,
        position: jax.Array,
    ) -> tuple[jax.Array, jax.Array, list[jax.Array]]:
        model, layers = self.build_model(weights, {}), self.layers.decoder
        hidden, cells = kept[: len(layers)], kept[len(layers) :]
        x = context = attention = model.words(tokens)
        for number, layer in enumerate(layers):
            pre_activations, weight = model.pre_activations(
                layer, jnp.concatenate([x, context], 1) if number else x
            )
            hidden[number], cells[number] = cell(
                pre_activations, (hidden[number], cells[number]), weight
            )
            x = x + hidden[number] if layer.residual else hidden[number]
            if not number:  # The hypotheses of a sentence are adjacent rows.
                attended = model.attend(x.reshape(len(memory.values), -1, x.shape[1]), memory)
                context, attention = (part.reshape(len(x), -1) for part in attended)
        return model.classify(x), attention, [*hidden, *cells]
