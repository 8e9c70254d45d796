"""The Transformer in JAX.

Matrix products use the data type of the activations, and all operations between the products use
fp32. Padding positions are computed in the same way as tokens.

network.py describes the shapes and the names of parameters. A sequence has L positions, and a beam
search has N = B · K rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workloads.api import Array, WorkerContext
from workloads.common.text.vocabulary import PAD
from workloads.frameworks.jax.model import Model
from workloads.frameworks.jax.optimizers import Values
from workloads.frameworks.jax.text import ROOM, Masks, TextTrainer, drawn, entropy, product
from workloads.transformer import network
from workloads.transformer.workload import Transformer

NOT_SEEN = -1e9
"""Number added to masked attention scores (reference model_utils.py)."""
Parts = tuple[jax.Array, ...]
"""Queries, keys, and values, or only some of these tensors, (B, H, L, e) each."""


class Translator(Model):
    """Translation network with its weights."""

    def __init__(self, weights: Values, sizes: network.Network, dtype: Any) -> None:
        """Create the network.

        `dtype` is the data type of both inputs of matrix products.
        """
        super().__init__(weights, {})
        self.sizes, self.dtype = sizes, dtype
        self.masks: Masks | None = None
        """Dropout masks of the current batch, or None without dropout."""

    def layers(self, side: str) -> list[str]:
        """Return the names of the layers of `side`, which is `encoder` or `decoder`."""
        return [f"{side}{number}" for number in range(1, self.sizes.layers + 1)]

    def linear(self, name: str, x: jax.Array) -> jax.Array:
        """Apply the linear layer `name` without its bias to x (…, inputs).

        The returned array is fp32 (…, outputs).
        """
        return product(x, self.weights[f"{name}.weight"], self.dtype)

    def norm(self, name: str, x: jax.Array) -> jax.Array:
        """Apply the layer norm `name` to x (…, d)."""
        centered = x - x.mean(-1, keepdims=True)
        inverse = jax.lax.rsqrt(jnp.square(centered).mean(-1, keepdims=True) + network.EPSILON)
        return centered * inverse * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def dropped(self, x: jax.Array, label: str) -> jax.Array:
        """Apply dropout with the mask `label` to x (B, L, …)."""
        if self.masks is None:
            return x
        return x * self.masks[label].reshape(x.shape)

    def embed(self, words: jax.Array) -> jax.Array:
        """Return the embeddings (…, d) of tokens (…).

        The embedding of padding is zeros. Padding precedes the first token of a target.
        """
        rows = self.weights["embedding.weight"][words]
        return rows * jnp.where(words != PAD, self.sizes.scale, 0.0)[..., None]

    def encode(self, x: jax.Array, seen: jax.Array) -> jax.Array:
        """Return the encoder's outputs (B, S, d), which are called the memory.

        The argument x contains embedded tokens with position encodings (B, S, d).
        """
        x = self.dropped(x, "source/embedding")
        for layer in self.layers("encoder"):
            x = self.attended(x, f"{layer}.self", self.self_attention_parts(layer, x), seen)
            x = self.fed_forward(x, layer)
        return self.norm("encoder_norm", x)

    def decode(self, x: jax.Array, memory: jax.Array, seen: jax.Array) -> jax.Array:
        """Return logits (B, T, V), for all positions at once.

        The argument x contains embedded tokens with position encodings (B, T, d).
        """
        x = self.dropped(x, "target/embedding")
        places = jnp.arange(x.shape[1])
        earlier = not_seen(
            places <= places[:, None]
        )  # Padding follows the tokens, so the causal mask also hides the padding.
        for layer in self.layers("decoder"):
            x = self.attended(x, f"{layer}.self", self.self_attention_parts(layer, x), earlier)
            x = self.attended(
                x, f"{layer}.cross", self.asked(layer, x) + self.remembered(layer, memory), seen
            )
            x = self.fed_forward(x, layer)
        return self.classify(x)

    def heads(self, name: str, x: jax.Array, parts: int) -> Parts:
        """Apply the linear layer `name` to x (B, L, d), and split the output.

        The method returns `parts` tensors (B, H, L, e).
        """
        y = (
            self.linear(name, x)
            .astype(self.dtype)
            .reshape(*x.shape[:2], parts, self.sizes.heads, -1)
        )
        return tuple(y.transpose(2, 0, 3, 1, 4))

    def self_attention_parts(self, layer: str, x: jax.Array) -> Parts:
        """Return the queries, keys, and values of x (B, L, d) for self-attention."""
        name = f"{layer}.self_attention"
        return self.heads(f"{name}.query_key_value", self.norm(f"{name}.norm", x), 3)

    def asked(self, layer: str, x: jax.Array) -> Parts:
        """Return the queries of x (B, T, d) for attention to the encoder's outputs."""
        name = f"{layer}.cross_attention"
        return self.heads(f"{name}.query", self.norm(f"{name}.norm", x), 1)

    def remembered(self, layer: str, memory: jax.Array) -> Parts:
        """Return the keys and values of the encoder's outputs (B, S, d)."""
        return self.heads(f"{layer}.cross_attention.key_value", memory, 2)

    def attended(self, x: jax.Array, name: str, parts: Parts, seen: jax.Array) -> jax.Array:
        """Apply an attention sub-layer to x (B, T, d).

        The mask `seen` is added to the attention scores (B, H, T, S).
        """
        query, key, value = parts
        label = name.replace(".", "/")
        scores = query * query.shape[-1] ** -0.5 @ key.swapaxes(-1, -2)
        weights = jax.nn.softmax(scores.astype(jnp.float32) + seen)
        weights = self.dropped(weights.transpose(0, 2, 3, 1), f"{label}/weights").transpose(
            0, 3, 1, 2
        )
        y = (weights.astype(self.dtype) @ value).transpose(0, 2, 1, 3).reshape(x.shape)
        return x + self.dropped(self.linear(f"{name}_attention.output", y), label)

    def fed_forward(self, x: jax.Array, layer: str) -> jax.Array:
        """Apply the feed-forward sub-layer to x (B, L, d)."""
        name = f"{layer}.feed_forward"
        inner = (
            self.linear(f"{name}.inner", self.norm(f"{name}.norm", x))
            + self.weights[f"{name}.inner.bias"]
        )
        inner = self.dropped(jax.nn.relu(inner), f"{layer}/relu")
        y = self.linear(f"{name}.outer", inner) + self.weights[f"{name}.outer.bias"]
        return x + self.dropped(y, f"{layer}/feed_forward")

    def classify(self, x: jax.Array) -> jax.Array:
        """Return logits (…, V) for the decoder's outputs (…, d).

        The weight of the classifier is the embedding table.
        """
        return self.linear("embedding", self.norm("decoder_norm", x))


def not_seen(mask: jax.Array) -> jax.Array:
    """Return the mask that is added to scores: 0 if `mask` is True, otherwise `NOT_SEEN`."""
    return jnp.where(mask, 0.0, NOT_SEEN)


def within(lengths: jax.Array, places: int) -> jax.Array:
    """Return the padding mask (B, 1, 1, places) that is added to attention scores.

    `lengths` (B,) contains the sentence lengths.
    """
    return not_seen(jnp.arange(places) < lengths[:, None])[:, None, None]


class TransformerTrainer(TextTrainer):
    """Transformer trainer for one device.

    With several processes, the gradients are summed over the processes (all-reduce).
    """

    workload: Transformer

    def __init__(self, workload: Transformer, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        self.sizes = workload.network
        self.parameters = network.shapes(self.sizes)
        self.positions = network.positions(workload.longest, self.sizes.hidden)

    def build_model(self, weights: Values, statistics: Values) -> Translator:
        """Return the network of the workload with these weights."""
        return Translator(weights, self.sizes, self.dtype)

    def loss(self, model: Translator, batch: Mapping[str, jax.Array]) -> jax.Array:
        """Return the cross-entropy with smoothed labels, minus its minimum.

        The cross-entropy is summed over the target tokens.
        """
        logits = self.logits(model, batch, self._masks(batch) if self.sizes.dropout else None)
        least = self.workload.least_loss * (batch["label"] != PAD).sum()
        return entropy(logits, batch["label"], *self.workload.label_shares).sum() - least

    def logits(
        self, model: Translator, batch: Mapping[str, jax.Array], masks: Masks | None
    ) -> jax.Array:
        model.masks = masks
        source, target = batch["source"], batch["target"]
        # Source and target tokens share a single embedding look-up, because the gradient of each
        # look-up is an array as large as the embedding table.
        both = jnp.split(model.embed(jnp.concatenate([source, target], 1)), [source.shape[1]], 1)
        embedded, previous = (x + self.positions[: x.shape[1]] for x in both)
        seen = within(batch["source_length"], source.shape[1])
        return model.decode(previous, model.encode(embedded, seen), seen)

    def _masks(self, batch: Mapping[str, jax.Array]) -> Masks:
        """Return the dropout masks of a batch.

        A mask of attention weights is drawn as S · H factors per query.
        """
        edge = {side: batch[side].shape[1] for side in ("source", "target")}
        widths: dict[str, dict[str, int]] = {side: {} for side in edge}
        for label, width in network.mask_widths(self.sizes).items():
            side = "source" if label.startswith(("source", "encoder")) else "target"
            widths[side][label] = (
                width or self.sizes.heads * edge["source" if "/cross/" in label else side]
            )
        of_sides = (
            drawn(batch["dropout_key"], edge[side], widths[side], self.sizes.dropout)
            for side in edge
        )
        return next(of_sides) | next(of_sides)

    # -- a search
    # ----------------------------------------------------------------------------------------------

    def encoded(
        self, weights: Values, source: jax.Array, lengths: jax.Array
    ) -> tuple[list[Parts], jax.Array]:
        """Return the source's keys and values for each decoder layer, and the padding mask.

        The padding mask (B, 1, 1, S) is added to attention scores.
        """
        model, seen = self.build_model(weights, {}), within(lengths, source.shape[1])
        memory = model.encode(model.embed(source) + self.positions[: source.shape[1]], seen)
        return [model.remembered(layer, memory) for layer in model.layers("decoder")], seen

    def begun(self, rows: int) -> list[Array]:
        """Return zeros for the keys and values of each decoder layer, (N, 2, H, ROOM, e)."""
        heads = self.sizes.heads
        shape = (rows, 2, heads, ROOM, self.sizes.hidden // heads)
        return [np.zeros(shape, self.dtype) for _ in range(self.sizes.layers)]

    def grown(self, kept: list[jax.Array]) -> list[jax.Array]:
        return [jnp.concatenate([array, jnp.zeros_like(array)], 3) for array in kept]

    def advanced(
        self, weights: Values, memory: tuple[list[Parts], jax.Array], kept: list[jax.Array],
        tokens: jax.Array,
        position: jax.Array,
    ) -> tuple[jax.Array, None, list[jax.Array]]:  # fmt: skip
        model, (remembered, seen), after = self.build_model(weights, {}), memory, []
        unsaid = not_seen(jnp.arange(kept[0].shape[3]) <= position)
        x = (model.embed(tokens) + jnp.asarray(self.positions)[position])[:, None]  # (N, 1, d)
        for layer, before, source in zip(model.layers("decoder"), kept, remembered, strict=True):
            query, *new = model.self_attention_parts(layer, x)
            past = jax.lax.dynamic_update_slice_in_dim(before, jnp.stack(new, 1), position, 3)
            after.append(past)
            x = model.attended(x, f"{layer}.self", (query, past[:, 0], past[:, 1]), unsaid)
            # The hypotheses of a sentence are adjacent rows, so a single attention operation per
            # sentence computes all hypotheses.
            y = x.reshape(len(seen), -1, x.shape[2])
            y = model.attended(y, f"{layer}.cross", model.asked(layer, y) + source, seen)
            x = model.fed_forward(y.reshape(x.shape), layer)
        return model.classify(x[:, 0]), None, after
