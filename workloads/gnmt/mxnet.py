"""GNMT in MXNet.

The fused RNN operator runs each LSTM over the whole sequence, and attention is computed for all
steps at once.

network.py describes the shapes and the names of parameters. A beam search has N = B · K rows. The
fused operator expects the parameters of an LSTM as a single vector, so the parameters are stored
contiguously. On a CPU, the operator ignores sequence lengths. Only the valid positions of a
sentence are reversed (network.py), so that padding does not influence valid positions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType

import mxnet as mx
import numpy as np

from workloads.api import Array, Arrays, Batch
from workloads.common import dropout
from workloads.common.arrays import Int32s, Int64s
from workloads.common.text import beam
from workloads.common.text.vocabulary import PAD
from workloads.frameworks.mxnet.flat import Shapes
from workloads.frameworks.mxnet.graphs import Graphs, Inputs, Model, Tensor
from workloads.frameworks.mxnet.model import ModelTrainer, Replica
from workloads.gnmt import network
from workloads.gnmt.workload import GNMT


@dataclass
class Memory:
    """Encoder outputs of B sentences, to which the decoder attends."""

    values: Tensor
    """Encoder outputs (B, S, h)."""
    keys: Tensor
    """Attention keys (B, S, h), which are projected encoder outputs."""
    padding: Tensor
    """Padding mask (B, S), which is added to the attention scores."""


class Layers(Model):
    """Building blocks of the translation network."""

    def __init__(self, layers: network.Network) -> None:
        self.layers, self.shapes = layers, network.shapes(layers)

    def arguments(self, shapes: Shapes) -> Shapes:
        """Return the parameter shapes, with the parameters of each LSTM merged into a vector."""
        shape_of: dict[str, tuple[int, ...]] = {}
        lstms = {lstm.name for lstm in self.layers.lstms}
        for name, shape in shapes.items():
            owner = name.partition(".")[0]
            if owner in lstms:
                shape_of[owner] = (shape_of.get(owner, (0,))[0] + math.prod(shape),)
            else:
                shape_of[name] = shape
        return shape_of

    def words(self, ids: Tensor) -> Tensor:
        """Return the embeddings of token ids."""
        sizes = {"input_dim": self.layers.vocabulary, "output_dim": self.layers.hidden}
        return self.F.Embedding(ids, self.arrays["embedding.weight"], **sizes)

    def run(self, lstm: network.Lstm, x: Tensor) -> Tensor:
        """Run an LSTM over a sequence (L, B, inputs) and return its outputs (L, B, h).

        The initial hidden and cell states are 0.
        """
        F, hidden = self.F, self.layers.hidden
        zeros = F.zeros_like(F.slice(x, begin=(0, None, 0), end=(1, None, hidden)))
        return F.RNN(
            x, self.arrays[lstm.name], zeros, zeros, state_size=hidden, num_layers=1, mode="lstm"
        )

    def encode(self, source: Tensor, lengths: Tensor, mask: Tensor) -> list[Tensor]:
        """Return the encoder's outputs (B, S, h) and attention keys (B, S, h).

        `source` contains token ids (B, S), and `lengths` contains the sentence lengths (B,).
        """
        F = self.F
        ahead, back, *further = self.layers.encoder
        x = dropped(F, self.words(F.transpose(source)), mask, ahead)
        lengths = F.cast(lengths, "float32")
        backward = self.run(back, F.SequenceReverse(x, lengths, use_sequence_length=True))
        backward = F.SequenceReverse(backward, lengths, use_sequence_length=True)
        x = F.concat(self.run(ahead, x), backward, dim=2)
        for lstm in further:
            y = self.run(lstm, dropped(F, x, mask, lstm))
            x = x + y if lstm.residual else y
        values = F.transpose(x, (1, 0, 2))
        return [
            values,
            self.project(values, "attention.key.weight", self.layers.hidden, "attention.bias"),
        ]

    def decode(self, target: Tensor, memory: Memory, mask: Tensor) -> Tensor:
        """Return logits (T, B, V) for target tokens (B, T), for all positions at once."""
        F = self.F
        first, *further = self.layers.decoder
        x = dropped(F, self.words(F.transpose(target)), mask, first)
        x = self.run(first, x)
        context, _ = self.attend(F.transpose(x, (1, 0, 2)), memory)
        context = F.transpose(context, (1, 0, 2))
        for lstm in further:
            y = self.run(lstm, dropped(F, F.concat(x, context, dim=2), mask, lstm))
            x = x + y if lstm.residual else y
        rows = self.layers.vocabulary
        return self.project(x, "classifier.weight", rows, "classifier.bias")

    def attend(self, queries: Tensor, memory: Memory) -> list[Tensor]:
        """Return contexts (B, T, h) and attention weights (B, T, S) for queries (B, T, h)."""
        F = self.F
        asked = self.project(queries, "attention.query.weight", self.layers.hidden)
        sums = all_sums(F, asked, memory.keys)
        vector = self.arrays["attention.vector"]
        vector = F.broadcast_mul(
            F.broadcast_div(vector, F.norm(vector)), self.arrays["attention.scale"]
        )
        scores = product(F, F.Activation(sums, act_type="tanh"), F.reshape(vector, (1, -1)), 1)
        scores = F.broadcast_add(F.reshape(scores, (0, 0, -1)), F.expand_dims(memory.padding, 1))
        weights = F.softmax(scores, axis=-1)
        return [F.batch_dot(weights, memory.values), weights]

    def project(self, x: Tensor, weight: str, rows: int, bias: str = "") -> Tensor:
        """Return x (…, inputs) · weightᵀ + bias, with the shape (…, rows).

        `weight` and `bias` are parameter names.
        """
        return product(self.F, x, self.arrays[weight], rows, self.arrays[bias] if bias else None)


def product(
    F: ModuleType, x: Tensor, weight: Tensor, rows: int, bias: Tensor | None = None
) -> Tensor:
    """Return x (…, inputs) · weightᵀ + bias, with the shape (…, rows)."""
    arrays = [x, weight] if bias is None else [x, weight, bias]
    return F.FullyConnected(*arrays, num_hidden=rows, no_bias=bias is None, flatten=False)


def all_sums(F: ModuleType, queries: Tensor, keys: Tensor) -> Tensor:
    """Return the sum of each query (B, T, h) and each key (B, S, h), as (B, T, S, h).

    Queries and keys are copied by matrix products with ones. The gradients of these products are
    matrix products, too. The gradients of `broadcast_add` take ten times as long on a CPU as the
    gradients of these products.
    """
    ones = F.ones_like(F.slice_axis(queries, axis=2, begin=0, end=1))
    copies = F.batch_dot(ones, F.reshape(keys, (0, 1, -1)))  # The shape is (B, T, S · h).
    copies = F.reshape_like(copies, keys, lhs_begin=2, lhs_end=3, rhs_begin=1, rhs_end=3)
    ones = F.reshape(F.ones_like(F.slice_axis(copies, axis=3, begin=0, end=1)), (-3, 0, 0))
    # The shape is (B · T, S, h).
    asked = F.batch_dot(ones, F.expand_dims(F.reshape(queries, (-3, 0)), 1))
    return copies + F.reshape_like(asked, copies)


def dropped(F: ModuleType, x: Tensor, mask: Tensor | None, lstm: network.Lstm) -> Tensor:
    """Return an LSTM's input with dropout applied."""
    if mask is None:
        return x
    return x * F.slice_axis(mask, axis=2, begin=lstm.mask.start, end=lstm.mask.stop)


class Translator(Layers):
    """Translation network for whole sentences."""

    def __init__(self, layers: network.Network, smoothing: float) -> None:
        super().__init__(layers)
        self.smoothing = smoothing

    def constants(self) -> dict[str, Array]:
        """Return `share` (1, V), the weight of every log p in the smoothed loss.

        A product with `share` replaces MXNet's operator `mean`, which takes as much time as an
        LSTM.
        """
        words = self.layers.vocabulary
        return {"share": np.full((1, words), self.smoothing / words, np.float32)}

    def __call__(self, batch: Inputs, of_source: Tensor = None, of_target: Tensor = None) -> Tensor:
        """Return log p of every token of the vocabulary, (T, B, V).

        `of_source` and `of_target` are optional dropout masks.
        """
        values, keys = self.encode(batch["source"], batch["source_length"], of_source)
        memory = Memory(values, keys, batch["padding"])
        return self.F.log_softmax(self.decode(batch["target"], memory, of_target), axis=2)


class Encoder(Layers):
    """Encoder, which runs once before the first step of a beam search."""

    def __call__(self, batch: Inputs) -> dict[str, Tensor]:
        """Return the encoder's outputs (B, S, h) and attention keys."""
        values, keys = self.encode(batch["source"], batch["source_length"], None)
        return {"values": values, "keys": keys}


class Step(Layers):
    """Decoder step of a beam search, which appends a token to each row."""

    def __init__(self, layers: network.Network, width: int) -> None:
        super().__init__(layers)
        self.width = width
        numbers = range(len(layers.decoder))
        self.states = (
            *(f"hidden{number}" for number in numbers),
            *(f"cell{number}" for number in numbers),
        )

    def __call__(self, batch: Inputs) -> dict[str, Tensor]:
        """Return the best next tokens, attention weights, hidden states, and cell states.

        The best tokens are given as log p and ids (N, m). The attention weights are (N, S). The
        hidden and cell states of each layer are (1, N, h).
        """
        F, memory = self.F, Memory(*(batch[name] for name in ("values", "keys", "padding")))
        count, hidden = len(self.layers.decoder), self.layers.hidden
        before = [F.take(batch[name], batch["parents"], axis=1) for name in self.states]
        x = F.expand_dims(self.words(batch["tokens"]), 0)
        context, weights, after = x, x, list(before)
        for number, lstm in enumerate(self.layers.decoder):
            inputs = F.concat(x, context, dim=2) if number else x
            states = before[number], before[count + number]
            sizes = {"state_size": hidden, "num_layers": 1, "mode": "lstm", "state_outputs": True}
            y, after[number], after[count + number] = F.RNN(
                inputs, self.arrays[lstm.name], *states, **sizes
            )
            x = x + y if lstm.residual else y
            if not number:
                queries = F.reshape(x, (-1, self.width, hidden))
                context, weights = self.attend(queries, memory)
                context = F.reshape(context, (1, -1, hidden))
        rows = self.layers.vocabulary
        logits = self.project(x, "classifier.weight", rows, "classifier.bias")
        logarithms = F.log_softmax(F.reshape(logits, (-1, rows)), axis=1)
        scores, ids = F.topk(
            logarithms, axis=1, k=min(2 * self.width, rows), ret_typ="both", dtype="int32"
        )
        best = {"scores": scores, "ids": ids, "attention": F.reshape(weights, (-3, 0))}
        return {**best, **dict(zip(self.states, after, strict=True))}


@dataclass
class State:
    """Encoder outputs and decoder states of a beam search, on the device of its context."""

    memory: Inputs
    """The arrays `values`, `keys`, and `padding` of `Memory`."""
    layers: list[mx.nd.NDArray]
    """Hidden and cell states in the order of `Step.states`, (1, N, h) each."""


class Decoder:
    """Implementation of `workloads.common.text.beam.Decoder` on one MXNet context."""

    def __init__(self, trainer: GNMTTrainer, replica: Replica) -> None:
        self.trainer, self.replica = trainer, replica

    def start(self, batch: Batch) -> State:
        names = ("source", "source_length")
        data = {name: self._on_device(batch.arrays[name]) for name in names}
        encoded = self.trainer.encoder(self.replica.arguments(False), data)
        rows = encoded["values"].shape[0] * self.trainer.step_model.width
        zeros = mx.nd.zeros((1, rows, encoded["values"].shape[2]), ctx=self.replica.context)
        memory = {**encoded, "padding": self._on_device(padding(batch.arrays))}
        return State(memory, [zeros] * len(self.trainer.step_model.states))

    def step(self, state: State, tokens: Int32s, parents: Int64s) -> tuple[beam.Candidates, State]:
        words = {
            "tokens": self._on_device(tokens),
            "parents": self._on_device(parents.astype(np.int32)),
        }
        states = dict(zip(self.trainer.step_model.states, state.layers, strict=True))
        outputs = self.trainer.stepper(
            self.replica.arguments(False), {**words, **state.memory, **states}
        )
        candidates = beam.Candidates(
            *(outputs[name].asnumpy() for name in ("scores", "ids", "attention"))
        )
        return candidates, State(
            state.memory, [outputs[name] for name in self.trainer.step_model.states]
        )

    def _on_device(self, array: Array) -> mx.nd.NDArray:
        return self.trainer.to_device(array, self.replica.context)


def padding(arrays: Arrays) -> Array:
    """Return the padding mask (B, S), float32, that is added to attention scores."""
    places = np.arange(arrays["source"].shape[1])
    beyond = places >= arrays["source_length"][:, None]
    return np.where(beyond, network.MASKED_SCORE, 0.0).astype(np.float32)


class GNMTTrainer(ModelTrainer):
    """GNMT trainer for all devices of this process."""

    workload: GNMT

    def build_model(self, half: bool, on_cpu: bool) -> Translator:
        return Translator(self.workload.network, self.workload.options.label_smoothing)

    def build(self) -> None:
        super().build()
        layers = self.workload.network
        self.encoder = Graphs(Encoder(layers), Encoder.__call__, self.compiles)
        self.step_model = Step(layers, self.workload.beam.width)
        self.stepper = Graphs(self.step_model, Step.__call__, self.compiles)

    def host_arrays(self, batch: Batch, training: bool) -> Arrays:
        """Return the batch arrays, the padding mask, and the dropout masks.

        workloads/common/dropout.py defines the dropout masks.
        """
        arrays, layers = batch.arrays, self.workload.network
        host = {name: arrays[name] for name in ("source", "source_length", "target", "label")}
        host["padding"] = padding(arrays)
        if training and layers.dropout:
            for side, width in zip(("source", "target"), layers.mask_widths, strict=True):
                keys, places = arrays["dropout_key"], arrays[side].shape[1]
                host[f"{side}_mask"] = dropout.multipliers(
                    keys, side, places, width, layers.dropout
                )
        return host

    def loss(self, model: Translator, batch: Inputs) -> Tensor:
        """Return the cross-entropy with smoothed labels, summed over the target tokens."""
        F, smoothing, label = model.F, model.smoothing, model.F.transpose(batch["label"])
        logarithms = model(batch, batch.get("source_mask"), batch.get("target_mask"))
        smooth = F.reshape(model.project(logarithms, "share", 1), (0, -1))
        terms = (1 - smoothing) * F.pick(logarithms, label, axis=2) + smooth
        return -F.sum(terms * F.cast(label != PAD, "float32"))

    def outputs(self, model: Translator, batch: Inputs) -> Mapping[str, Tensor]:
        """Return the `loss` (B,) of each sentence.

        The loss is -log p, summed over the tokens of the sentence.

        The loss does not use label smoothing.
        """
        F, label = model.F, model.F.transpose(batch["label"])
        logarithms = F.pick(model(batch), label, axis=2)
        return {"loss": -F.sum(logarithms * F.cast(label != PAD, "float32"), axis=0)}

    def run_outputs(self, batch: Batch, replica: int) -> dict[str, list[mx.nd.NDArray]]:
        """Return losses if the batch has labels, otherwise translations.

        Losses are the result of `outputs`. Translations are `tokens` (B, T) and `token_count` (B,).
        """
        if "label" in batch.arrays:
            return super().run_outputs(batch, replica)
        translated = self.workload.translated(Decoder(self, self.replicas[replica]), batch)
        return {
            name: [mx.nd.from_numpy(np.ascontiguousarray(value))]
            for name, value in translated.items()
        }
