"""The Transformer in MXNet: graphs with fixed shapes for padded sentences.

network.py describes the shapes and the names of parameters. A sequence has L positions including
padding, and a beam search has N = B · K rows. Padding positions are computed in the same way as
tokens. Padding positions do not change the results, because they are masked as keys and as labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import mxnet as mx
import numpy as np

from workloads.api import Array, Arrays, Batch
from workloads.common import dropout
from workloads.common.arrays import Int32s, Int64s
from workloads.common.text import beam
from workloads.common.text.vocabulary import PAD
from workloads.frameworks.mxnet.graphs import Graphs, Inputs, Model, Tensor
from workloads.frameworks.mxnet.model import ModelTrainer, Replica
from workloads.frameworks.mxnet.norms import layer_norm
from workloads.transformer import network
from workloads.transformer.workload import Transformer

MASKED_SCORE = -1e9
"""Number added to the attention scores of masked keys (reference model/model_utils.py)."""
PLACES = 16
"""Initial number of tokens for which a beam search allocates memory.

Whenever the memory is full, the number of tokens is doubled.
"""


class Layers(Model):
    """Building blocks of the translation network."""

    def __init__(self, sizes: network.Network, longest: int) -> None:
        """Create the layers.

        `longest` is the maximum number of positions.
        """
        self.sizes, self.longest, self.shapes = sizes, longest, network.shapes(sizes)

    def constants(self) -> dict[str, Array]:
        """Return the position encodings and the causal mask.

        The position encodings are `positions` (longest, d), and the causal mask is `later`
        (longest, longest).
        """
        later = np.triu(np.full((self.longest, self.longest), MASKED_SCORE, np.float32), 1)
        return {"positions": network.positions(self.longest, self.sizes.hidden), "later": later}

    def layers(self, side: str) -> list[str]:
        """Return the names of the layers of `side`, which is `encoder` or `decoder`."""
        return [f"{side}{number}" for number in range(1, self.sizes.layers + 1)]

    def linear(self, name: str, x: Tensor) -> Tensor:
        """Apply the linear layer `name` to x (…, inputs), and return (…, outputs)."""
        F = self.F
        arrays = [x, self.arrays[f"{name}.weight"]]
        biased = f"{name}.bias" in self.shapes
        arrays += [self.arrays[f"{name}.bias"]] if biased else []
        outputs = self.shapes[f"{name}.weight"][0]
        return F.FullyConnected(*arrays, num_hidden=outputs, no_bias=not biased, flatten=False)

    def norm(self, name: str, x: Tensor) -> Tensor:
        """Apply the layer norm `name` to x (…, d)."""
        F = self.F
        arrays = (
            F.reshape(x, (-1, self.sizes.hidden)),
            self.arrays[f"{name}.weight"],
            self.arrays[f"{name}.bias"],
        )
        return F.reshape_like(layer_norm(F, *arrays, self.sizes.hidden, network.EPSILON), x)

    # -- whole sentences
    # ------------------------------------------------------------------------------------------

    def look_up(self, words: Tensor) -> Tensor:
        """Return the rows (…, d) of the embedding table for tokens (…)."""
        F = self.F
        sizes = {"input_dim": self.sizes.vocabulary, "output_dim": self.sizes.hidden}
        return F.Embedding(words, self.arrays["embedding.weight"], **sizes)

    def embed(self, words: Tensor, rows: Tensor) -> Tensor:
        """Return the embeddings (…, d) of tokens (…) from their table rows (…, d).

        The embedding of padding is zeros. Padding precedes the first token of a target.
        """
        F = self.F
        factors = F.cast(words != PAD, "float32") * self.sizes.scale
        return F.broadcast_mul(rows, F.BlockGrad(F.expand_dims(factors, -1)))

    def placed(self, batch: Inputs, side: str, rows: Tensor) -> Tensor:
        """Return the embeddings of a sequence from its table rows (B, L, d).

        The method adds position encodings and applies dropout.
        """
        F = self.F
        x = self.embed(batch[side], rows)
        places = F.expand_dims(self.arrays["positions"], 0)
        x = F.broadcast_add(x, F.slice_like(places, x, axes=(1,)))
        return self.dropped(batch, x, f"{side}/embedding")

    def encode(self, batch: Inputs, rows: Tensor) -> Tensor:
        """Return the encoder's outputs (B, S, d), which are called the memory.

        `batch` contains `source` and its `padding` (B, S). `rows` contains the table rows of the
        source (B, S, d).
        """
        F = self.F
        x = self.placed(batch, "source", rows)
        beyond = F.reshape(batch["padding"], (0, 1, 1, -1))
        for name in self.layers("encoder"):
            x = self.attended(batch, x, name, beyond)
            x = self.fed_forward(batch, x, name)
        return self.norm("encoder_norm", x)

    def decode(self, batch: Inputs, memory: Tensor, rows: Tensor) -> Tensor:
        """Return the decoder's outputs (B, T, d).

        `batch` contains `target`, and `rows` contains the table rows of the target (B, T, d).
        """
        F = self.F
        x = self.placed(batch, "target", rows)
        beyond, later = F.reshape(batch["padding"], (0, 1, 1, -1)), self.later(batch["target"])
        for name in self.layers("decoder"):
            x = self.attended(batch, x, name, later)
            x = self.attended(batch, x, name, beyond, memory)
            x = self.fed_forward(batch, x, name)
        return self.norm("decoder_norm", x)

    def later(self, words: Tensor) -> Tensor:
        """Return the causal mask (1, 1, T, T) that is added to scores of tokens (B, T).

        Padding follows the tokens, so the causal mask also hides the padding from the tokens.
        """
        F = self.F
        hidden = F.slice_like(
            F.slice_like(self.arrays["later"], F.transpose(words), axes=(0,)), words, axes=(1,)
        )
        return F.expand_dims(F.expand_dims(hidden, 0), 0)

    def attended(
        self, batch: Inputs, x: Tensor, layer: str, mask: Tensor, memory: Tensor | None = None
    ) -> Tensor:
        """Apply an attention sub-layer to x (B, T, d).

        Without a memory, the sub-layer is self-attention. With a memory (B, S, d), x attends to the
        memory.
        """
        kind = "self" if memory is None else "cross"
        name, label = f"{layer}.{kind}_attention", f"{layer}/{kind}"
        normed = self.norm(f"{name}.norm", x)
        if memory is None:
            query, key, value = self.split(self.linear(f"{name}.query_key_value", normed), 3)
        else:
            (query,) = self.split(self.linear(f"{name}.query", normed), 1)
            key, value = self.split(self.linear(f"{name}.key_value", memory), 2)
        y = self.attend(query, key, value, mask, batch.get(f"{label}/weights"))
        y = self.linear(f"{name}.output", self.joined(y))
        return x + self.dropped(batch, y, label)

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, dropped: Tensor | None = None
    ) -> Tensor:
        """Return the attention outputs (B · H, T, e).

        The queries are (B · H, T, e). The keys and the values are (B · H, S, e).

        `mask` is added to the scores and is broadcast to (B, H, T, S). `dropped` multiplies the
        attention weights (B, H, T, S).
        """
        F = self.F
        heads = self.sizes.heads
        scores = F.batch_dot(query * (self.sizes.hidden // heads) ** -0.5, key, transpose_b=True)
        weights = F.softmax(
            F.broadcast_add(F.reshape(scores, (-4, -1, heads, 0, 0)), mask), axis=-1
        )
        return F.batch_dot(
            F.reshape(weights if dropped is None else weights * dropped, (-3, 0, 0)), value
        )

    def fed_forward(self, batch: Inputs, x: Tensor, layer: str) -> Tensor:
        """Apply the feed-forward sub-layer to x (…, d)."""
        F = self.F
        name = f"{layer}.feed_forward"
        inner = self.linear(f"{name}.inner", self.norm(f"{name}.norm", x))
        inner = self.dropped(batch, F.Activation(inner, act_type="relu"), f"{layer}/relu")
        return x + self.dropped(batch, self.linear(f"{name}.outer", inner), f"{layer}/feed_forward")

    def dropped(self, batch: Inputs, x: Tensor, label: str) -> Tensor:
        """Apply dropout to x if the batch contains a dropout mask with this label."""
        return x * batch[label] if label in batch else x

    def split(self, x: Tensor, parts: int) -> list[Tensor]:
        """Split x (B, L, parts · d) into `parts` tensors (B · H, L, e)."""
        F = self.F
        heads = self.sizes.heads
        x = F.transpose(F.reshape(x, (0, 0, parts * heads, -1)), (0, 2, 1, 3))
        pieces = F.split(x, axis=1, num_outputs=parts) if parts > 1 else [x]
        return [F.reshape(piece, (-3, 0, 0)) for piece in pieces]

    def joined(self, x: Tensor) -> Tensor:
        """Merge the heads of x (B · H, L, e) into (B, L, d)."""
        F = self.F
        x = F.reshape(x, (-4, -1, self.sizes.heads, 0, 0))
        return F.reshape(F.transpose(x, (0, 2, 1, 3)), (0, 0, -1))

    def classify(self, x: Tensor) -> Tensor:
        """Return logits (…, V) for the decoder's outputs (…, d).

        The weight of the classifier is the embedding table.
        """
        F = self.F
        words = self.sizes.vocabulary
        return F.FullyConnected(
            x, self.arrays["embedding.weight"], num_hidden=words, no_bias=True, flatten=False
        )


class Translator(Layers):
    """Translation network for whole sentences."""

    def constants(self) -> dict[str, Array]:
        """Return the constants of `Layers` and `share` (1, V).

        `share` contains equal weights, with which a product computes the mean over the rows of the
        embedding table.
        """
        words = self.sizes.vocabulary
        return {**super().constants(), "share": np.full((1, words), 1 / words, np.float32)}

    def decoded(self, batch: Inputs) -> list[Tensor]:
        """Return the decoder's outputs (B, L, d) and the labels' table rows (B, L, d).

        Source, target, and labels have the same padded length, so they share a single embedding
        look-up. A single look-up is faster, because the gradient of each look-up is an array as
        large as the embedding table.
        """
        F = self.F
        words = F.stack(*(batch[name] for name in ("source", "target", "label")))
        source, target, label = F.split(
            self.look_up(words), axis=0, num_outputs=3, squeeze_axis=True
        )
        return [self.decode(batch, self.encode(batch, source), target), label]

    def likely(self, batch: Inputs, x: Tensor) -> Tensor:
        """Return log p of each label, (B, T)."""
        F = self.F
        return F.pick(F.log_softmax(self.classify(x), axis=2), batch["label"], axis=2)


class Encoder(Layers):
    """Encoder, which runs once before the first step of a beam search."""

    def __init__(self, sizes: network.Network, longest: int) -> None:
        super().__init__(sizes, longest)
        self.names = tuple(
            f"{layer}/{kind}" for layer in self.layers("decoder") for kind in ("key", "value")
        )

    def __call__(self, batch: Inputs) -> dict[str, Tensor]:
        """Return the source's keys and values (B · H, S, e) for each layer of the decoder."""
        memory, projected = self.encode(batch, self.look_up(batch["source"])), []
        for layer in self.layers("decoder"):
            projected += self.split(self.linear(f"{layer}.cross_attention.key_value", memory), 2)
        return dict(zip(self.names, projected, strict=True))


class Step(Layers):
    """Decoder step of a beam search, which appends a token to each row.

    The keys and values of all previous tokens are stored in arrays (N, 2H, P, e). The last token is
    always at the last of the P positions, so many steps have the same shape.
    """

    def __init__(self, sizes: network.Network, longest: int, width: int) -> None:
        super().__init__(sizes, longest)
        self.width = width
        self.memory = Encoder(sizes, longest).names
        self.past = tuple(f"{layer}/past" for layer in self.layers("decoder"))

    def __call__(self, batch: Inputs) -> dict[str, Tensor]:
        """Return log p and ids of the best next tokens (N, m), and the keys and values.

        The keys and values include the token of this step.
        """
        F = self.F
        x = self.embed(batch["tokens"], self.look_up(batch["tokens"]))
        x = F.broadcast_add(x, F.take(self.arrays["positions"], batch["number"]))
        beyond = F.reshape(batch["padding"], (0, 1, 1, -1))
        past = []
        for layer in self.layers("decoder"):
            x, kept = self._attend_past(batch, x, layer)
            past.append(kept)
            name = f"{layer}.cross_attention"
            query = self.linear(f"{name}.query", self.norm(f"{name}.norm", x))
            # The hypotheses of a sentence are adjacent rows, so a single attention operation per
            # sentence computes all hypotheses.
            (query,) = self.split(F.reshape(query, (-4, -1, self.width, 0)), 1)
            y = self.attend(query, batch[f"{layer}/key"], batch[f"{layer}/value"], beyond)
            x = x + self.linear(f"{name}.output", F.reshape(self.joined(y), (-3, 0)))
            x = self.fed_forward(batch, x, layer)
        logits = self.classify(self.norm("decoder_norm", x))
        logarithms = F.log_softmax(logits, axis=1)
        count = min(2 * self.width, self.sizes.vocabulary)
        scores, ids = F.topk(logarithms, axis=1, k=count, ret_typ="both", dtype="int32")
        return {"scores": scores, "ids": ids, **dict(zip(self.past, past, strict=True))}

    def _attend_past(self, batch: Inputs, x: Tensor, layer: str) -> tuple[Tensor, Tensor]:
        """Apply self-attention to x (N, d).

        Each row of x attends to itself and to the earlier tokens of its hypothesis. The method
        returns the output, and the keys and values including the token of this step.
        """
        F = self.F
        name, hidden, heads = f"{layer}.self_attention", self.sizes.hidden, self.sizes.heads
        projected = self.linear(f"{name}.query_key_value", self.norm(f"{name}.norm", x))
        query = F.reshape(
            F.slice_axis(projected, axis=1, begin=0, end=hidden), (-1, 1, hidden // heads)
        )
        new = F.reshape(
            F.slice_axis(projected, axis=1, begin=hidden, end=3 * hidden), (0, 2 * heads, 1, -1)
        )
        before = F.take(
            F.slice_axis(batch[f"{layer}/past"], axis=2, begin=1, end=None),
            batch["parents"],
            axis=0,
        )
        past = F.concat(before, new, dim=2)
        key, value = (F.reshape(part, (-3, 0, 0)) for part in F.split(past, axis=1, num_outputs=2))
        y = self.attend(query, key, value, F.reshape(batch["unused"], (1, 1, 1, -1)))
        return x + self.linear(f"{name}.output", F.reshape(y, (-1, hidden))), past


@dataclass
class State:
    """Encoder outputs and decoder states of a beam search, on the device of its context."""

    memory: Inputs
    """Keys and values of the source, and the `padding` mask of the source."""
    past: list[mx.nd.NDArray]
    """Keys and values of all previous tokens, (N, 2H, P, e) each, in the order of `Step.past`."""
    count: int
    """Number of tokens that the search has appended to each hypothesis."""


class Decoder:
    """Implementation of `workloads.common.text.beam.Decoder` on one MXNet context."""

    def __init__(self, trainer: TransformerTrainer, replica: Replica) -> None:
        self.trainer, self.replica = trainer, replica

    def start(self, batch: Batch) -> State:
        model, sizes = self.trainer.step_model, self.trainer.step_model.sizes
        padding = self._on_device(padding_of(batch.arrays))
        data = {"source": self._on_device(batch.arrays["source"]), "padding": padding}
        encoded = self.trainer.encoder(self.replica.arguments(False), data)
        shape = (
            padding.shape[0] * model.width,
            2 * sizes.heads,
            PLACES,
            sizes.hidden // sizes.heads,
        )
        empty = mx.nd.zeros(shape, ctx=self.replica.context)
        return State({"padding": padding, **encoded}, [empty] * len(model.past), 0)

    def step(self, state: State, tokens: Int32s, parents: Int64s) -> tuple[beam.Candidates, State]:
        model, past = self.trainer.step_model, state.past
        if state.count == past[0].shape[2]:
            past = [mx.nd.concat(mx.nd.zeros_like(part), part, dim=2) for part in past]
        places = past[0].shape[2]
        unused = np.where(np.arange(places) < places - 1 - state.count, MASKED_SCORE, 0.0).astype(
            np.float32
        )
        host = {
            "tokens": tokens,
            "parents": parents.astype(np.int32),
            "number": np.array([state.count], np.int32),
            "unused": unused,
        }  # fmt: skip
        data = {name: self._on_device(array) for name, array in host.items()} | dict(
            zip(model.past, past, strict=True)
        )
        outputs = self.trainer.stepper(self.replica.arguments(False), {**data, **state.memory})
        candidates = beam.Candidates(*(outputs[name].asnumpy() for name in ("scores", "ids")))
        return candidates, State(
            state.memory, [outputs[name] for name in model.past], state.count + 1
        )

    def _on_device(self, array: Array) -> mx.nd.NDArray:
        return self.trainer.to_device(array, self.replica.context)


def padding_of(arrays: Arrays) -> Array:
    """Return the padding mask (B, S), float32, that is added to scores of the source."""
    places = np.arange(arrays["source"].shape[1])
    return np.where(places >= arrays["source_length"][:, None], MASKED_SCORE, 0.0).astype(
        np.float32
    )


class TransformerTrainer(ModelTrainer):
    """Transformer trainer for all devices of this process."""

    workload: Transformer

    def build_model(self, half: bool, on_cpu: bool) -> Translator:
        return Translator(self.workload.network, self.workload.longest)

    def build(self) -> None:
        super().build()
        sizes, longest = self.workload.network, self.workload.longest
        self.encoder = Graphs(Encoder(sizes, longest), Encoder.__call__, self.compiles)
        self.step_model = Step(sizes, longest, self.workload.beam.width)
        self.stepper = Graphs(self.step_model, Step.__call__, self.compiles)

    def host_arrays(self, batch: Batch, training: bool) -> Arrays:
        """Return the batch arrays, the padding mask, and the dropout masks.

        workloads/common/dropout.py defines the dropout masks.
        """
        host = {name: batch.arrays[name] for name in ("source", "target", "label")}
        host["padding"] = padding_of(batch.arrays)
        if training and self.workload.network.dropout:
            host |= self._masks(batch.arrays)
        return host

    def _masks(self, arrays: Arrays) -> Arrays:
        """Return the dropout masks by label.

        Masks of attention weights are (B, H, T, S), and all other masks are (B, L, width). Masks of
        attention weights are drawn as S · H factors per query. All masks are 0 at padding.
        """
        sizes, keys, masks = self.workload.network, arrays["dropout_key"], {}
        edge = {side: arrays[side].shape[1] for side in ("source", "target")}
        counts = {side: np.arange(edge[side]) < arrays[f"{side}_length"][:, None] for side in edge}
        rows = {side: np.nonzero(places) for side, places in counts.items()}
        for label, width in network.mask_widths(sizes).items():
            side = "source" if label.startswith(("source", "encoder")) else "target"
            key_count = edge["source" if "/cross/" in label else side]
            values = key_count * sizes.heads if width is None else width
            sentence, position = rows[side]
            mask = np.zeros((len(keys), edge[side], values), np.float32)
            mask[counts[side]] = dropout.multipliers_at(
                keys[sentence], position, label, values, sizes.dropout
            )
            if width is None:
                mask = np.ascontiguousarray(
                    mask.reshape(*mask.shape[:2], key_count, sizes.heads).transpose(0, 3, 1, 2)
                )
            masks[label] = mask
        return masks

    def loss(self, model: Translator, batch: Inputs) -> Tensor:
        """Return the cross-entropy with smoothed labels, minus its minimum.

        The cross-entropy is summed over the target tokens.

        The weights `label_shares` add up to 1. The cross-entropy of a token is therefore -log p of
        the label, minus `on_mean` times the difference between the mean logit and the label's
        logit. The difference is computed as a product of x and rows of the embedding table. This
        product needs no array as large as the logits.
        """
        F, (_, on_mean) = model.F, self.workload.label_shares
        x, rows = model.decoded(batch)
        likely = model.likely(batch, x)
        mean = F.dot(model.arrays["share"], model.arrays["embedding.weight"])
        above = F.reshape(
            F.FullyConnected(x, mean, num_hidden=1, no_bias=True, flatten=False), (0, -1)
        )
        above = above - F.sum(x * rows, axis=2)
        terms = likely + on_mean * above + self.workload.least_loss
        return -F.sum(terms * F.cast(batch["label"] != PAD, "float32"))

    def outputs(self, model: Translator, batch: Inputs) -> Mapping[str, Tensor]:
        """Return the `loss` (B,) of each sentence.

        The loss is -log p, summed over the tokens of the sentence.

        The loss does not use label smoothing.
        """
        F, (x, _) = model.F, model.decoded(batch)
        return {
            "loss": -F.sum(
                model.likely(batch, x) * F.cast(batch["label"] != PAD, "float32"), axis=1
            )
        }

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
