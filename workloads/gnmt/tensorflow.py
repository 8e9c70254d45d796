"""GNMT in TensorFlow.

Each LSTM processes the whole sequence in a single loop of the graph, and attention is computed for
all steps at once.

network.py describes the shapes and the names of parameters. A beam search has N = B · K rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf

from workloads.api import Arrays, Batch
from workloads.common import dropout
from workloads.common.arrays import Int32s, Int64s
from workloads.common.text import beam
from workloads.common.text.vocabulary import PAD
from workloads.frameworks.tensorflow.model import ModelTrainer
from workloads.frameworks.tensorflow.recurrent import lstm, lstm_cell
from workloads.frameworks.tensorflow.variables import Model, Tensors
from workloads.gnmt import network
from workloads.gnmt.workload import GNMT

States = list[tf.Tensor]


@dataclass
class Memory:
    """Encoder outputs of B sentences, to which the decoder attends."""

    values: tf.Tensor
    """Encoder outputs (B, S, h)."""
    keys: tf.Tensor
    """Attention keys (B, S, h), which are projected encoder outputs."""
    padding: tf.Tensor
    """Padding mask (B, S), which is True at padding positions."""


class Translator(Model):
    """Translation network."""

    def __init__(self, layers: network.Network) -> None:
        super().__init__(network.shapes(layers))
        self.layers = layers

    def weights(self, layer: network.Lstm) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return an LSTM's input weight, recurrent weight, and two biases."""
        of_input, of_state, *biases = (
            self.parameters[f"{layer.name}.{part}"] for part in network.PARTS
        )
        return of_input, of_state, biases[0], biases[1]

    def __call__(
        self,
        source: tf.Tensor,
        lengths: tf.Tensor,
        target: tf.Tensor,
        masks: tuple[tf.Tensor, tf.Tensor] | None,
    ) -> tf.Tensor:
        """Return logits (T, B, V).

        `source` (B, S) and `target` (B, T) contain token ids, and `lengths` (B,) contains the
        source lengths. `masks` contains the dropout masks of source and target, (S, B, …) and (T,
        B, …).
        """
        of_source, of_target = masks or (None, None)
        # Source and target tokens share a single embedding look-up, because the gradient of each
        # look-up is an array as large as the embedding table.
        words = self.words(tf.concat([tf.transpose(source), tf.transpose(target)], 0))
        memory = self.encode(words[: source.shape[1]], lengths, of_source)
        x = self.decode(words[source.shape[1] :], memory, of_target)
        return self.project(x, "classifier.weight", "classifier.bias")

    def words(self, ids: tf.Tensor) -> tf.Tensor:
        return tf.gather(self.parameters["embedding.weight"], ids)

    def encode(self, x: tf.Tensor, lengths: tf.Tensor, mask: tf.Tensor | None) -> Memory:
        """Encode embedded tokens (S, B, h) with sentence lengths (B,), and return the memory."""
        ahead, back, *further = self.layers.encoder
        x = dropped(x, mask, ahead)
        backward = lstm(tf.reverse_sequence(x, lengths, 0, 1), self.weights(back))
        x = tf.concat(
            [lstm(x, self.weights(ahead)), tf.reverse_sequence(backward, lengths, 0, 1)], 2
        )
        for layer in further:
            y = lstm(dropped(x, mask, layer), self.weights(layer))
            x = x + y if layer.residual else y
        values = tf.transpose(x, [1, 0, 2])
        keys = self.project(values, "attention.key.weight", "attention.bias")
        return Memory(values, keys, tf.range(values.shape[1]) >= lengths[:, None])

    def decode(self, x: tf.Tensor, memory: Memory, mask: tf.Tensor | None) -> tf.Tensor:
        """Return the classifier's inputs (T, B, h) for embedded tokens (T, B, h).

        All positions are computed at once.
        """
        first, *further = self.layers.decoder
        x = lstm(dropped(x, mask, first), self.weights(first))
        context, _ = self.attend(tf.transpose(x, [1, 0, 2]), memory)
        context = tf.transpose(context, [1, 0, 2])
        for layer in further:
            y = lstm(dropped(tf.concat([x, context], 2), mask, layer), self.weights(layer))
            x = x + y if layer.residual else y
        return x

    def attend(self, queries: tf.Tensor, memory: Memory) -> tuple[tf.Tensor, tf.Tensor]:
        """Return contexts (B, T, h) and attention weights (B, T, S) for queries (B, T, h)."""
        asked = self.project(queries, "attention.query.weight")
        sums = tf.tanh(asked[:, :, None] + memory.keys[:, None])
        vector = self.parameters["attention.vector"]
        vector = self.parameters["attention.scale"] * vector / tf.norm(vector)
        scores = tf.reshape(
            tf.matmul(tf.reshape(sums, [-1, self.layers.hidden]), vector[:, None]), sums.shape[:3]
        )
        weights = tf.nn.softmax(tf.where(memory.padding[:, None], network.MASKED_SCORE, scores))
        return tf.matmul(weights, memory.values), weights

    def project(self, x: tf.Tensor, weight: str, bias: str = "") -> tf.Tensor:
        """Return x (…, inputs) · weightᵀ + bias.

        `weight` and `bias` are parameter names.
        """
        matrix = self.parameters[weight]
        y = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), matrix, transpose_b=True)
        if bias:
            y = tf.nn.bias_add(y, self.parameters[bias])
        return tf.reshape(y, [*x.shape[:-1], matrix.shape[0]])

    def step(
        self, memory: Memory, tokens: tf.Tensor, hidden: States, cells: States, width: int
    ) -> list[tf.Tensor]:
        """Run a decoder step for the tokens (N,), and return predictions and new states.

        The list contains log p and ids of the best next tokens (N, m), attention weights (N, S),
        hidden states, and cell states.
        """
        hidden, cells = list(hidden), list(cells)
        x = context = weights = self.words(tokens)
        for number, layer in enumerate(self.layers.decoder):
            inputs = tf.concat([x, context], 1) if number else x
            hidden[number], cells[number] = lstm_cell(
                inputs, hidden[number], cells[number], self.weights(layer)
            )
            x = x + hidden[number] if layer.residual else hidden[number]
            if not number:
                context, weights = self.attend(tf.reshape(x, [-1, width, x.shape[1]]), memory)
                context, weights = (
                    tf.reshape(part, [-1, part.shape[2]]) for part in (context, weights)
                )
        scores = tf.nn.log_softmax(self.project(x, "classifier.weight", "classifier.bias"))
        best = tf.math.top_k(scores, min(2 * width, self.layers.vocabulary))
        return [best.values, best.indices, weights, *hidden, *cells]


def dropped(x: tf.Tensor, mask: tf.Tensor | None, layer: network.Lstm) -> tf.Tensor:
    """Return an LSTM's input with dropout applied."""
    return x if mask is None else x * mask[..., layer.mask]


@dataclass
class State:
    """Encoder outputs and decoder states of a beam search, on the device."""

    memory: list[tf.Tensor]
    """The tensors `values`, `keys`, and `padding` of `Memory`."""
    layers: list[tf.Tensor]
    """Hidden states of all layers, followed by cell states of all layers, (N, h) each."""


class Decoder:
    """Decoder (`workloads.common.text.beam.Decoder`) that calls a trainer's functions."""

    def __init__(self, trainer: GNMTTrainer) -> None:
        self.trainer, self.width = trainer, trainer.workload.beam.width

    def start(self, batch: Batch) -> State:
        memory = self.trainer.encode(
            *(tf.constant(batch.arrays[name]) for name in ("source", "source_length"))
        )
        layers = self.trainer.workload.network
        zeros = tf.zeros((memory[0].shape[0] * self.width, layers.hidden))
        return State(memory, [zeros] * (2 * len(layers.decoder)))

    def step(self, state: State, tokens: Int32s, parents: Int64s) -> tuple[beam.Candidates, State]:
        outputs = self.trainer.advance(
            state.memory, tf.constant(tokens), tf.constant(parents), state.layers
        )
        return beam.Candidates(*(output.numpy() for output in outputs[:3])), State(
            state.memory, outputs[3:]
        )


class GNMTTrainer(ModelTrainer):
    """GNMT trainer for one device.

    With several processes, the gradients are summed over the processes (all-reduce).
    """

    workload: GNMT
    evaluation_inputs = ("source", "source_length", "target", "label")

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """Return the names of the batch arrays that `loss` reads.

        If the network has dropout, the dropout masks are also arrays of the batch.
        """
        masks = ("source_mask", "target_mask") if self.workload.network.dropout else ()
        return (*self.evaluation_inputs, *masks)

    def build_model(self) -> Translator:
        return Translator(self.workload.network)

    def build(self) -> None:
        super().build()
        self.encode, self.advance = self._function(self._encode), self._function(self._advance)

    # -- training
    # ----------------------------------------------------------------------------------------------

    def host_arrays(self, batch: Batch, training: bool) -> Arrays:
        layers, arrays = self.workload.network, dict(batch.arrays)
        if training and layers.dropout:
            for side, width in zip(("source", "target"), layers.mask_widths, strict=True):
                keys, places = arrays["dropout_key"], arrays[side].shape[1]
                arrays[f"{side}_mask"] = dropout.multipliers(
                    keys, side, places, width, layers.dropout
                )
        return super().host_arrays(replace(batch, arrays=arrays), training)

    def loss(self, model: Translator, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Return the cross-entropy with smoothed labels, summed over the target tokens."""
        masks = (
            (batch["source_mask"], batch["target_mask"]) if self.workload.network.dropout else None
        )
        logits = model(batch["source"], batch["source_length"], batch["target"], masks)
        words, smoothing = self.workload.network.vocabulary, self.workload.options.label_smoothing
        labels = tf.transpose(batch["label"])
        wanted = tf.one_hot(labels, words, 1 - smoothing + smoothing / words, smoothing / words)
        terms = tf.nn.softmax_cross_entropy_with_logits(wanted, logits)
        return tf.reduce_sum(tf.where(labels != PAD, terms, 0.0))

    # -- evaluation
    # ----------------------------------------------------------------------------------------------

    def run_outputs(self, batch: Batch) -> Tensors:
        """Return losses if the batch has labels, otherwise translations.

        Losses are the result of `outputs`. Translations are `tokens` (B, T) and `token_count` (B,).
        """
        if "label" in batch.arrays:
            return super().run_outputs(batch)
        translated = self.workload.translated(Decoder(self), batch)
        return {
            name: tf.constant(np.ascontiguousarray(value)) for name, value in translated.items()
        }

    def outputs(self, model: Translator, batch: Mapping[str, tf.Tensor]) -> Tensors:
        """Return the `loss` (B,) of each sentence.

        The loss is -log p, summed over the tokens of the sentence.

        The loss does not use label smoothing.
        """
        labels = tf.transpose(batch["label"])
        logits = model(batch["source"], batch["source_length"], batch["target"], None)
        terms = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        return {"loss": tf.reduce_sum(tf.where(labels != PAD, terms, 0.0), 0)}

    def _encode(self, source: tf.Tensor, lengths: tf.Tensor) -> list[tf.Tensor]:
        memory = self.model.encode(self.model.words(tf.transpose(source)), lengths, None)
        return [memory.values, memory.keys, memory.padding]

    def _advance(
        self, memory: States, tokens: tf.Tensor, parents: tf.Tensor, layers: States
    ) -> list[tf.Tensor]:
        """Run a beam search step in which row n continues the hypothesis in row `parents[n]`."""
        before = [tf.gather(values, parents) for values in layers]
        count = len(before) // 2
        return self.model.step(
            Memory(*memory), tokens, before[:count], before[count:], self.workload.beam.width
        )
