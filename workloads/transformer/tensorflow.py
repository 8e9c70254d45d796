"""The Transformer in TensorFlow.

Linear layers, layer norms, and logits are computed on rows without padding. Attention is computed
on padded sentences.

A single trace is used for batches of any size, because the graph computes the numbers of rows,
positions, and sentences. XLA requires static shapes. With XLA, padding positions therefore also
have rows, and each shape is compiled separately.

network.py describes the shapes and the names of parameters. A beam search has N = B · K rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from workloads.api import Batch
from workloads.common.arrays import Int32s, Int64s
from workloads.common.text import beam
from workloads.common.text.vocabulary import PAD
from workloads.frameworks.tensorflow.dropout import multipliers_at
from workloads.frameworks.tensorflow.entropy import smoothed_entropy
from workloads.frameworks.tensorflow.layers import layer_norm, looked_up
from workloads.frameworks.tensorflow.model import ModelTrainer
from workloads.frameworks.tensorflow.rows import Rows
from workloads.frameworks.tensorflow.variables import Model, Tensors
from workloads.transformer import network
from workloads.transformer.workload import Transformer

NOT_SEEN = -1e9
"""Number added to masked attention scores (reference model_utils.py)."""


@dataclass(frozen=True)
class Masks:
    """Dropout masks of a batch, which multiply activations (workloads/common/dropout.py)."""

    keys: tf.Tensor
    """Hash keys of the sentences, (B,)."""
    rate: float
    on_host: bool
    """True if NumPy computes the masks on the host. False if the TensorFlow graph computes the
    masks.
    """

    def of_rows(self, rows: Rows, label: str, width: int) -> tf.Tensor:
        """Return the mask of activations (R, width), one row per valid position."""
        keys = tf.gather(self.keys, rows.sequence)
        return multipliers_at(keys, rows.position, label, width, self.rate, self.on_host)

    def of_weights(self, label: str, heads: int, queries: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """Return the mask of attention weights, (B, H, T, S).

        The mask is drawn as S · H factors per query. Padding therefore does not change any factor.
        """
        places = tf.range(queries)
        factors = multipliers_at(
            self.keys[:, None], places, label, keys * heads, self.rate, self.on_host
        )
        return tf.transpose(tf.reshape(factors, [-1, queries, keys, heads]), [0, 3, 1, 2])


def attend(
    query: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    seen: tf.Tensor | None,
    mask: tf.Tensor | None,
) -> tf.Tensor:
    """Return the attention outputs (…, T, e).

    The queries are (…, T, e), the keys (…, S, e), and the values (…, S, e).

    `seen` (…, T, S) is added to the scores, and `mask` (…, T, S) multiplies the attention weights.
    """
    scores = tf.matmul(query * query.shape[-1] ** -0.5, key, transpose_b=True)
    weights = tf.nn.softmax(scores if seen is None else scores + seen)
    return tf.matmul(weights if mask is None else weights * mask, value)


class Translator(Model):
    """Translation network."""

    def __init__(self, sizes: network.Network, longest: int, compiled: bool, on_gpu: bool) -> None:
        """Create the network.

        Args:
            sizes: Sizes of the network.
            longest: Maximum number of positions.
            compiled: Whether XLA compiles the network.
            on_gpu: Whether the device is a GPU.
        """
        super().__init__(network.shapes(sizes))
        self.sizes, self.compiled, self.host_draws = sizes, compiled, not compiled and not on_gpu
        self.positions = tf.constant(network.positions(longest, sizes.hidden))

    def weight(self, name: str) -> tf.Tensor:
        return tf.convert_to_tensor(self.parameters[name])

    def layers(self, side: str) -> list[str]:
        """Return the names of the layers of `side`, which is `encoder` or `decoder`."""
        return [f"{side}{number}" for number in range(1, self.sizes.layers + 1)]

    def linear(self, name: str, x: tf.Tensor, bias: bool = False) -> tf.Tensor:
        """Return x (R, inputs) · weightᵀ, plus the layer's bias with `bias`."""
        y = tf.matmul(x, self.weight(f"{name}.weight"), transpose_b=True)
        return tf.nn.bias_add(y, self.weight(f"{name}.bias")) if bias else y

    def norm(self, name: str, x: tf.Tensor) -> tf.Tensor:
        """Apply the layer norm `name` to x (R, d)."""
        return layer_norm(
            x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"), network.EPSILON
        )

    # -- on rows
    # ----------------------------------------------------------------------------------------------

    def rows(self, lengths: tf.Tensor, array: tf.Tensor) -> Rows:
        """Return the rows of sequences with these lengths (B,).

        The sequences are padded like `array` (B, L).
        """
        return Rows(lengths, array.shape[1] or tf.shape(array)[1], self.sizes.heads, self.compiled)

    def __call__(
        self,
        source: tf.Tensor,
        source_rows: Rows,
        target: tf.Tensor,
        target_rows: Rows,
        keys: tf.Tensor | None,
    ) -> tf.Tensor:
        """Return logits (R_t, V) for source (B, S) and target (B, T).

        `keys` (B,) contains the dropout keys. None disables dropout.
        """
        masks = None if keys is None else Masks(keys, self.sizes.dropout, self.host_draws)
        # Source and target tokens share a single embedding look-up, because the gradient of each
        # look-up is an array as large as the embedding table.
        words = tf.concat([source_rows.of(source), target_rows.of(target)], 0)
        count = tf.shape(source_rows.sequence)[0]
        embedded = self.embed(words)
        memory = self.encode(
            self.placed(embedded[:count], source_rows, "source", masks), source_rows, masks
        )
        x = self.placed(embedded[count:], target_rows, "target", masks)
        later = later_ones(target_rows.length)
        padding = padded_ones(source_rows.mask)
        for name in self.layers("decoder"):
            parts = self.self_attention_heads(f"{name}.self_attention", x, target_rows)
            x = self.attended(x, f"{name}.self", parts, target_rows, target_rows, later, masks)
            parts = [*self.queries(name, x, target_rows), *self.memories(name, memory, source_rows)]
            x = self.attended(x, f"{name}.cross", parts, target_rows, source_rows, padding, masks)
            x = self.fed_forward(x, name, target_rows, masks)
        return self.classify(x)

    def embed(self, words: tf.Tensor) -> tf.Tensor:
        """Return the embeddings (R, d) of tokens (R,).

        The embedding of padding is zeros. Padding precedes the first token of a target.
        """
        rows = looked_up(self.weight("embedding.weight"), words)
        return rows * tf.where(words != PAD, self.sizes.scale, 0.0)[:, None]

    def placed(self, x: tf.Tensor, rows: Rows, side: str, masks: Masks | None) -> tf.Tensor:
        """Add the position encodings to embedded tokens (R, d) and apply dropout."""
        x = x + tf.gather(self.positions, rows.position)
        return x if masks is None else x * masks.of_rows(rows, f"{side}/embedding", x.shape[1])

    def encode(self, x: tf.Tensor, rows: Rows, masks: Masks | None) -> tf.Tensor:
        """Return the encoder's outputs (R, d), which are called the memory.

        The argument x contains embedded tokens with position encodings (R, d).
        """
        padding = padded_ones(rows.mask)
        for name in self.layers("encoder"):
            parts = self.self_attention_heads(f"{name}.self_attention", x, rows)
            x = self.attended(x, f"{name}.self", parts, rows, rows, padding, masks)
            x = self.fed_forward(x, name, rows, masks)
        return self.norm("encoder_norm", x)

    def self_attention_heads(self, name: str, x: tf.Tensor, rows: Rows) -> list[tf.Tensor]:
        """Return the queries, keys, and values (B, H, L, e) of x (R, d) for self-attention."""
        return rows.padded(self.linear(f"{name}.query_key_value", self.norm(f"{name}.norm", x)), 3)

    def queries(self, layer: str, x: tf.Tensor, rows: Rows) -> list[tf.Tensor]:
        """Return the queries (B, H, T, e) of x (R, d) for attention to the encoder's outputs."""
        name = f"{layer}.cross_attention"
        return rows.padded(self.linear(f"{name}.query", self.norm(f"{name}.norm", x)), 1)

    def memories(self, layer: str, memory: tf.Tensor, rows: Rows) -> list[tf.Tensor]:
        """Return the keys and values (B, H, S, e) of the encoder's outputs (R, d)."""
        return rows.padded(self.linear(f"{layer}.cross_attention.key_value", memory), 2)

    def attended(
        self, x: tf.Tensor, name: str, parts: list[tf.Tensor], rows: Rows, memory_rows: Rows,
        seen: tf.Tensor,
        masks: Masks | None,
    ) -> tf.Tensor:  # fmt: skip
        """Apply an attention sub-layer to x (R, d).

        `parts` contains the queries, keys, and values (B, H, …, e) of the sub-layer.
        """
        label, drawn = name.replace(".", "/"), None
        if masks is not None:
            drawn = masks.of_weights(
                f"{label}/weights", self.sizes.heads, rows.length, memory_rows.length
            )
        query, key, value = parts
        y = rows.packed(attend(query, key, value, seen, drawn))
        y = self.linear(f"{name}_attention.output", y)
        return added(x, y, rows, label, masks)

    def fed_forward(self, x: tf.Tensor, layer: str, rows: Rows, masks: Masks | None) -> tf.Tensor:
        """Apply the feed-forward sub-layer to x (R, d)."""
        inner = self.inner(layer, x)
        if masks is not None:
            inner = inner * masks.of_rows(rows, f"{layer}/relu", inner.shape[1])
        return added(x, self.outer(layer, inner), rows, f"{layer}/feed_forward", masks)

    def inner(self, layer: str, x: tf.Tensor) -> tf.Tensor:
        """Return the inner activations (R, …) of the feed-forward sub-layer for x (R, d)."""
        name = f"{layer}.feed_forward"
        return tf.nn.relu(self.linear(f"{name}.inner", self.norm(f"{name}.norm", x), bias=True))

    def outer(self, layer: str, inner: tf.Tensor) -> tf.Tensor:
        return self.linear(f"{layer}.feed_forward.outer", inner, bias=True)

    def classify(self, x: tf.Tensor) -> tf.Tensor:
        """Return logits (R, V) for the decoder's outputs (R, d).

        The weight of the classifier is the embedding table.
        """
        return self.linear("embedding", self.norm("decoder_norm", x))

    # -- a step of a search
    # ---------------------------------------------------------------------------------------

    def step(
        self, memory: tf.Tensor, seen: tf.Tensor, past: tf.Tensor, tokens: tf.Tensor, width: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return logits (N, V) for the tokens (N,), and the keys and values.

        The keys and values include the tokens of this step.

        Args:
            memory: Keys and values of the encoder's outputs, (layers, 2, B, H, S, e).
            seen: Mask that is added to the attention scores of the memory, (B, 1, 1, S).
            past: Keys and values of the t previous tokens, (layers, 2, N, H, t, e).
            tokens: Tokens of this step, (N,).
            width: Number of hypotheses per sentence.
        """
        hidden, heads = self.sizes.hidden, self.sizes.heads
        size, kept = hidden // heads, []
        x = self.embed(tokens) + self.positions[tf.shape(past)[4]]
        for number, layer in enumerate(self.layers("decoder")):
            name = f"{layer}.self_attention"
            parts = self.linear(f"{name}.query_key_value", self.norm(f"{name}.norm", x))
            query, *parts = tf.unstack(tf.reshape(parts, [-1, 3, heads, 1, size]), axis=1)
            kept.append(tf.concat([past[number], tf.stack(parts)], 3))
            y = attend(query, kept[-1][0], kept[-1][1], None, None)
            x = x + self.linear(f"{name}.output", tf.reshape(y, [-1, hidden]))
            name = f"{layer}.cross_attention"
            query = self.linear(f"{name}.query", self.norm(f"{name}.norm", x))
            # The hypotheses of a sentence are adjacent rows, so a single attention operation per
            # sentence computes all hypotheses.
            query = tf.transpose(tf.reshape(query, [-1, width, heads, size]), [0, 2, 1, 3])
            y = tf.transpose(
                attend(query, memory[number, 0], memory[number, 1], seen, None), [0, 2, 1, 3]
            )
            x = x + self.linear(f"{name}.output", tf.reshape(y, [-1, hidden]))
            x = x + self.outer(layer, self.inner(layer, x))
        return self.classify(x), tf.stack(kept)


def added(x: tf.Tensor, y: tf.Tensor, rows: Rows, label: str, masks: Masks | None) -> tf.Tensor:
    """Add the output of a sub-layer, after dropout, to the input of the sub-layer."""
    return x + y if masks is None else x + y * masks.of_rows(rows, label, y.shape[1])


def padded_ones(mask: tf.Tensor) -> tf.Tensor:
    """Return the padding mask (B, 1, 1, L) that is added to attention scores.

    `mask` (B, L) is False at padding positions.
    """
    return tf.where(mask, 0.0, NOT_SEEN)[:, None, None]


def later_ones(length: int | tf.Tensor) -> tf.Tensor:
    """Return the causal mask (T, T) that is added to a target's self-attention scores.

    The padding of a target follows the tokens, so the causal mask also hides the padding from the
    tokens.
    """
    places = tf.range(length)
    return tf.where(places <= places[:, None], 0.0, NOT_SEEN)


@dataclass
class State:
    """Encoder outputs and decoder states of a beam search, on the device."""

    source: list[tf.Tensor]
    """Keys and values of the encoder's outputs for each layer, (layers, 2, B, H, S, e), and the
    padding mask, (B, 1, 1, S).
    """
    past: tf.Tensor
    """Keys and values of the t previous tokens, (layers, 2, N, H, t, e)."""


class Search:
    """Decoder (`workloads.common.text.beam.Decoder`) that calls a trainer's functions.

    The object stores the keys and values of all previous tokens.
    """

    def __init__(self, trainer: TransformerTrainer) -> None:
        self.trainer, self.width = trainer, trainer.workload.beam.width

    def start(self, batch: Batch) -> State:
        source = self.trainer.encode(
            *(tf.constant(batch.arrays[name]) for name in ("source", "source_length"))
        )
        layers, parts, sentences, heads, _, size = source[0].shape
        return State(source, tf.zeros((layers, parts, sentences * self.width, heads, 0, size)))

    def step(self, state: State, tokens: Int32s, parents: Int64s) -> tuple[beam.Candidates, State]:
        *best, past = self.trainer.advance(
            *state.source, state.past, tf.constant(tokens), tf.constant(parents)
        )
        return beam.Candidates(*(output.numpy() for output in best)), State(state.source, past)


class TransformerTrainer(ModelTrainer):
    """Transformer trainer for one device.

    With several processes, the gradients are summed over the processes (all-reduce).
    """

    workload: Transformer
    inputs = ("source", "source_length", "target", "target_length", "label", "dropout_key")
    evaluation_inputs = ("source", "source_length", "target", "target_length", "label")
    takes_any_shape = True
    auto_compiles = False  # With the reference model, XLA would compile 42 shapes.

    def build_model(self) -> Translator:
        return Translator(self.workload.network, self.workload.longest, self.compiled, self.on_gpu)

    def build(self) -> None:
        """Build the trainer and the two functions of a beam search.

        These functions accept tensors of any size. XLA does not compile the functions, because the
        sizes of the tensors grow with each token.
        """
        super().build()
        sizes = self.workload.network
        shape = [sizes.layers, 2, None, sizes.heads, None, sizes.hidden // sizes.heads]
        kept, seen = (
            tf.TensorSpec(dimensions, tf.float32) for dimensions in (shape, [None, 1, 1, None])
        )
        words, lengths = (tf.TensorSpec([None] * rank, tf.int32) for rank in (2, 1))
        parents = tf.TensorSpec([None], tf.int64)
        self.encode = tf.function(self._encode, autograph=False, input_signature=[words, lengths])
        self.advance = tf.function(
            self._advance, autograph=False, input_signature=[kept, seen, kept, lengths, parents]
        )

    # -- training
    # ----------------------------------------------------------------------------------------------

    def loss(self, model: Translator, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Return the cross-entropy with smoothed labels, minus its minimum.

        The cross-entropy is summed over the target tokens.
        """
        workload = self.workload
        logits, labels, _ = self.logits(
            model, batch, batch["dropout_key"] if workload.network.dropout else None
        )
        on_label, on_mean = workload.label_shares
        entropy = smoothed_entropy(logits, labels, on_label, on_mean, PAD)
        return entropy - workload.least_loss * tf.reduce_sum(tf.cast(labels != PAD, tf.float32))

    def logits(
        self, model: Translator, batch: Mapping[str, tf.Tensor], keys: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor, Rows]:
        """Return logits (R_t, V), labels (R_t,), and the rows of the target.

        `keys` (B,) contains the dropout keys.
        """
        source, target = batch["source"], batch["target"]
        source_rows, rows = (
            model.rows(batch["source_length"], source),
            model.rows(batch["target_length"], target),
        )
        return model(source, source_rows, target, rows, keys), rows.of(batch["label"]), rows

    # -- evaluation
    # ----------------------------------------------------------------------------------------------

    def run_outputs(self, batch: Batch) -> Tensors:
        """Return losses if the batch has labels, otherwise translations.

        Losses are the result of `outputs`. Translations are `tokens` (B, T) and `token_count` (B,).
        """
        if "label" in batch.arrays:
            return super().run_outputs(batch)
        translated = self.workload.translated(Search(self), batch)
        return {
            name: tf.constant(np.ascontiguousarray(value)) for name, value in translated.items()
        }

    def outputs(self, model: Translator, batch: Mapping[str, tf.Tensor]) -> Tensors:
        """Return the `loss` (B,) of each sentence.

        The loss is -log p, summed over the tokens of the sentence.

        The loss does not use label smoothing.
        """
        logits, labels, rows = self.logits(model, batch, None)
        terms = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        terms = tf.where(labels != PAD, terms, 0.0)
        return {"loss": tf.math.unsorted_segment_sum(terms, rows.sequence, rows.sequences)}

    def _encode(self, source: tf.Tensor, lengths: tf.Tensor) -> list[tf.Tensor]:
        """Return `State.source` for source tokens (B, S) with lengths (B,)."""
        model = self.model
        rows = Rows(lengths, tf.shape(source)[1], self.workload.network.heads, False)
        memory = model.encode(
            model.placed(model.embed(rows.of(source)), rows, "source", None), rows, None
        )
        of_layers = [
            tf.stack(model.memories(name, memory, rows)) for name in model.layers("decoder")
        ]
        return [tf.stack(of_layers), padded_ones(rows.mask)]

    def _advance(
        self,
        memory: tf.Tensor,
        seen: tf.Tensor,
        past: tf.Tensor,
        tokens: tf.Tensor,
        parents: tf.Tensor,
    ) -> list[tf.Tensor]:
        """Run a beam search step in which row n continues the hypothesis in row `parents[n]`.

        The method returns log p and ids of the best next tokens, (N, m) each, and the new `past`.
        """
        width = self.workload.beam.width
        logits, past = self.model.step(
            memory, seen, tf.gather(past, parents, axis=2), tokens, width
        )
        best = tf.math.top_k(
            tf.nn.log_softmax(logits), min(2 * width, self.workload.network.vocabulary)
        )
        return [best.values, best.indices, past]
