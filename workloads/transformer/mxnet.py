"""The Transformer in MXNet: graphs of fixed shapes on padded sentences.

Shapes: see network.py; L positions with padding of either side, N = B · K rows of a beam search. Parameters carry the names of
network.py. Padding is computed with and counts nothing: no key, no label.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

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
"""Added to scores of keys that may not be seen (reference model/model_utils.py)."""
PLACES = 16
"""Words that a beam search has room for at first; where they are full there are twice as many."""


class Layers(Model):
    """The network's parts."""

    def __init__(self, sizes: network.Network, longest: int) -> None:
        """`longest`: positions that there can be."""
        self.sizes, self.longest, self.shapes = sizes, longest, network.shapes(sizes)

    def constants(self) -> dict[str, Array]:
        """`positions` (longest, d), and `later` (longest, longest), which is added to scores where nothing looks ahead."""
        later = np.triu(np.full((self.longest, self.longest), MASKED_SCORE, np.float32), 1)
        return {"positions": network.positions(self.longest, self.sizes.hidden), "later": later}

    def layers(self, side: str) -> list[str]:
        """Names of those of the `encoder` or the `decoder`."""
        return [f"{side}{number}" for number in range(1, self.sizes.layers + 1)]

    def linear(self, F: ModuleType, inputs: Inputs, name: str, x: Tensor) -> Tensor:
        """x (…, inputs) to (…, outputs), by the layer of that name."""
        arrays = [x, inputs[f"{name}.weight"]]
        biased = f"{name}.bias" in self.shapes
        arrays += [inputs[f"{name}.bias"]] if biased else []
        outputs = self.shapes[f"{name}.weight"][0]
        return F.FullyConnected(*arrays, num_hidden=outputs, no_bias=not biased, flatten=False)

    def norm(self, F: ModuleType, inputs: Inputs, name: str, x: Tensor) -> Tensor:
        """x (…, d) after the layer norm of that name."""
        arrays = F.reshape(x, (-1, self.sizes.hidden)), inputs[f"{name}.weight"], inputs[f"{name}.bias"]
        return F.reshape_like(layer_norm(F, *arrays, self.sizes.hidden, network.EPSILON), x)

    # -- whole sentences ------------------------------------------------------------------------------------------

    def look_up(self, F: ModuleType, inputs: Inputs, words: Tensor) -> Tensor:
        """Words (…) to their rows of the table (…, d)."""
        sizes = {"input_dim": self.sizes.vocabulary, "output_dim": self.sizes.hidden}
        return F.Embedding(words, inputs["embedding.weight"], **sizes)

    def embed(self, F: ModuleType, words: Tensor, rows: Tensor) -> Tensor:
        """Words (…) and their rows (…, d) to (…, d); padding, which stands before a target's first word, gives zeros."""
        factors = F.cast(words != PAD, "float32") * self.sizes.scale
        return F.broadcast_mul(rows, F.BlockGrad(F.expand_dims(factors, -1)))

    def placed(self, F: ModuleType, inputs: Inputs, side: str, rows: Tensor) -> Tensor:
        """A side's rows of the table (B, L, d) with their positions, after dropout."""
        x = self.embed(F, inputs[side], rows)
        places = F.expand_dims(inputs["positions"], 0)
        x = F.broadcast_add(x, F.slice_like(places, x, axes=(1,)))
        return self.dropped(inputs, x, f"{side}/embedding")

    def encode(self, F: ModuleType, inputs: Inputs, rows: Tensor) -> Tensor:
        """`source`, its `padding` (B, S) and its rows of the table (B, S, d) to the memory (B, S, d)."""
        x = self.placed(F, inputs, "source", rows)
        beyond = F.reshape(inputs["padding"], (0, 1, 1, -1))
        for name in self.layers("encoder"):
            x = self.attended(F, inputs, x, name, beyond)
            x = self.fed_forward(F, inputs, x, name)
        return self.norm(F, inputs, "encoder_norm", x)

    def decode(self, F: ModuleType, inputs: Inputs, memory: Tensor, rows: Tensor) -> Tensor:
        """A memory, `target` and its rows of the table (B, T, d) to what is classified (B, T, d)."""
        x = self.placed(F, inputs, "target", rows)
        beyond, later = F.reshape(inputs["padding"], (0, 1, 1, -1)), self.later(F, inputs, inputs["target"])
        for name in self.layers("decoder"):
            x = self.attended(F, inputs, x, name, later)
            x = self.attended(F, inputs, x, name, beyond, memory)
            x = self.fed_forward(F, inputs, x, name)
        return self.norm(F, inputs, "decoder_norm", x)

    def later(self, F: ModuleType, inputs: Inputs, words: Tensor) -> Tensor:
        """What is added to the scores of words (B, T) that come later (1, 1, T, T). Padding stands after all that counts."""
        hidden = F.slice_like(F.slice_like(inputs["later"], F.transpose(words), axes=(0,)), words, axes=(1,))
        return F.expand_dims(F.expand_dims(hidden, 0), 0)

    def attended(
        self, F: ModuleType, inputs: Inputs, x: Tensor, layer: str, mask: Tensor, memory: Tensor | None = None
    ) -> Tensor:
        """x (B, T, d) after a sub-layer that attends to itself, or, with a memory (B, S, d), to that."""
        kind = "self" if memory is None else "cross"
        name, label = f"{layer}.{kind}_attention", f"{layer}/{kind}"
        normed = self.norm(F, inputs, f"{name}.norm", x)
        if memory is None:
            query, key, value = self.split(F, self.linear(F, inputs, f"{name}.query_key_value", normed), 3)
        else:
            (query,) = self.split(F, self.linear(F, inputs, f"{name}.query", normed), 1)
            key, value = self.split(F, self.linear(F, inputs, f"{name}.key_value", memory), 2)
        y = self.attend(F, query, key, value, mask, inputs.get(f"{label}/weights"))
        y = self.linear(F, inputs, f"{name}.output", self.joined(F, y))
        return x + self.dropped(inputs, y, label)

    def attend(
        self, F: ModuleType, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, dropped: Tensor | None = None
    ) -> Tensor:
        """Queries (B · H, T, e), keys and values (B · H, S, e) to (B · H, T, e).

        `mask` is added to scores (B, H, T, S), along which it may be copied; `dropped` multiplies the weights (B, H, T, S).
        """
        heads = self.sizes.heads
        scores = F.batch_dot(query * (self.sizes.hidden // heads) ** -0.5, key, transpose_b=True)
        weights = F.softmax(F.broadcast_add(F.reshape(scores, (-4, -1, heads, 0, 0)), mask), axis=-1)
        return F.batch_dot(F.reshape(weights if dropped is None else weights * dropped, (-3, 0, 0)), value)

    def fed_forward(self, F: ModuleType, inputs: Inputs, x: Tensor, layer: str) -> Tensor:
        """x (…, d) after the feed-forward sub-layer."""
        name = f"{layer}.feed_forward"
        inner = self.linear(F, inputs, f"{name}.inner", self.norm(F, inputs, f"{name}.norm", x))
        inner = self.dropped(inputs, F.Activation(inner, act_type="relu"), f"{layer}/relu")
        return x + self.dropped(inputs, self.linear(F, inputs, f"{name}.outer", inner), f"{layer}/feed_forward")

    def dropped(self, inputs: Inputs, x: Tensor, label: str) -> Tensor:
        """x after dropout, if there is a mask of that name."""
        return x * inputs[label] if label in inputs else x

    def split(self, F: ModuleType, x: Tensor, parts: int) -> list[Tensor]:
        """(B, L, parts · d) to as many (B · H, L, e)."""
        heads = self.sizes.heads
        x = F.transpose(F.reshape(x, (0, 0, parts * heads, -1)), (0, 2, 1, 3))
        pieces = F.split(x, axis=1, num_outputs=parts) if parts > 1 else [x]
        return [F.reshape(one, (-3, 0, 0)) for one in pieces]

    def joined(self, F: ModuleType, x: Tensor) -> Tensor:
        """(B · H, L, e) to (B, L, d)."""
        x = F.reshape(x, (-4, -1, self.sizes.heads, 0, 0))
        return F.reshape(F.transpose(x, (0, 2, 1, 3)), (0, 0, -1))

    def classify(self, F: ModuleType, inputs: Inputs, x: Tensor) -> Tensor:
        """The decoder's outputs (…, d) to logits (…, V), by the embedding's table."""
        words = self.sizes.vocabulary
        return F.FullyConnected(x, inputs["embedding.weight"], num_hidden=words, no_bias=True, flatten=False)


class Translator(Layers):
    """The loss in training; of a batch with labels each sentence's in evaluation."""

    inputs = ("source", "padding", "target", "label")
    results = ("loss",)

    def __init__(self, sizes: network.Network, longest: int, on_mean: float, least: float) -> None:
        """`on_mean`: what the mean over all words of -log p counts in a token's loss; `least`: what is taken off the loss."""
        super().__init__(sizes, longest)
        self.on_mean, self.least = on_mean, least
        self.masks = network.mask_widths(sizes) if sizes.dropout else {}
        self.targets = tuple(self.masks)

    def constants(self) -> dict[str, Array]:
        """Beside the others `share` (1, V): what the rows of the table are multiplied by in their mean."""
        words = self.sizes.vocabulary
        return {**super().constants(), "share": np.full((1, words), 1 / words, np.float32)}

    def loss(self, F: ModuleType, inputs: Inputs) -> Tensor:
        """Sum over tokens of the smoothed cross-entropy (1,).

        The shares add up to 1, so a token's is -log p of the label, less on_mean times how far the logits' mean is above the
        label's logit: a product of x with rows of the table, where nothing is as large as the logits.
        """
        x, rows = self._decoded(F, inputs)
        likely = self._likely(F, inputs, x)
        mean = F.dot(inputs["share"], inputs["embedding.weight"])
        above = F.reshape(F.FullyConnected(x, mean, num_hidden=1, no_bias=True, flatten=False), (0, -1))
        above = above - F.sum(x * rows, axis=2)
        return -F.sum((likely + self.on_mean * above + self.least) * F.cast(inputs["label"] != PAD, "float32"))

    def outputs(self, F: ModuleType, inputs: Inputs) -> list[Tensor]:
        """Sum over each sentence's tokens of -log p (B,), without smoothing."""
        inputs = {name: value for name, value in inputs.items() if name not in self.masks}
        x, _ = self._decoded(F, inputs)
        return [-F.sum(self._likely(F, inputs, x) * F.cast(inputs["label"] != PAD, "float32"), axis=1)]

    def _decoded(self, F: ModuleType, inputs: Inputs) -> list[Tensor]:
        """What is classified (B, L, d), and the labels' rows of the table (B, L, d).

        One look-up for all, of one padded length: its gradient is one array as large as the table.
        """
        words = F.stack(*(inputs[name] for name in ("source", "target", "label")))
        source, target, label = F.split(self.look_up(F, inputs, words), axis=0, num_outputs=3, squeeze_axis=True)
        return [self.decode(F, inputs, self.encode(F, inputs, source), target), label]

    def _likely(self, F: ModuleType, inputs: Inputs, x: Tensor) -> Tensor:
        """log p of the labels (B, T)."""
        return F.pick(F.log_softmax(self.classify(F, inputs, x), axis=2), inputs["label"], axis=2)


class Encoder(Layers):
    """What a beam search begins with."""

    inputs = ("source", "padding")

    def __init__(self, sizes: network.Network, longest: int) -> None:
        super().__init__(sizes, longest)
        self.results = tuple(f"{layer}/{kind}" for layer in self.layers("decoder") for kind in ("key", "value"))

    def outputs(self, F: ModuleType, inputs: Inputs) -> list[Tensor]:
        """Of each layer of the decoder, keys and values (B · H, S, e) of the source."""
        memory, projected = self.encode(F, inputs, self.look_up(F, inputs, inputs["source"])), []
        for layer in self.layers("decoder"):
            projected += self.split(F, self.linear(F, inputs, f"{layer}.cross_attention.key_value", memory), 2)
        return projected


class Step(Layers):
    """One word for each row of a beam search.

    What was said lies in arrays (N, 2H, P, e) of keys, then values, whose P places end with the last word: many steps have
    one shape.
    """

    def __init__(self, sizes: network.Network, longest: int, width: int) -> None:
        super().__init__(sizes, longest)
        self.width = width
        self.memory = Encoder(sizes, longest).results
        self.said = tuple(f"{layer}/said" for layer in self.layers("decoder"))
        self.inputs = ("tokens", "parents", "number", "unused", "padding", *self.memory, *self.said)
        self.results = ("scores", "ids", *self.said)

    def outputs(self, F: ModuleType, inputs: Inputs) -> list[Tensor]:
        """The best words' log p and ids (N, m), then what was said, this word included."""
        x = self.embed(F, inputs["tokens"], self.look_up(F, inputs, inputs["tokens"]))
        x = F.broadcast_add(x, F.take(inputs["positions"], inputs["number"]))
        beyond = F.reshape(inputs["padding"], (0, 1, 1, -1))
        said = []
        for layer in self.layers("decoder"):
            x, kept = self._attended_said(F, inputs, x, layer)
            said.append(kept)
            name = f"{layer}.cross_attention"
            query = self.linear(F, inputs, f"{name}.query", self.norm(F, inputs, f"{name}.norm", x))
            # A sentence's hypotheses stand side by side: they are the queries of one attention to it.
            (query,) = self.split(F, F.reshape(query, (-4, -1, self.width, 0)), 1)
            y = self.attend(F, query, inputs[f"{layer}/key"], inputs[f"{layer}/value"], beyond)
            x = x + self.linear(F, inputs, f"{name}.output", F.reshape(self.joined(F, y), (-3, 0)))
            x = self.fed_forward(F, inputs, x, layer)
        logits = self.classify(F, inputs, self.norm(F, inputs, "decoder_norm", x))
        logarithms = F.log_softmax(logits, axis=1)
        count = min(2 * self.width, self.sizes.vocabulary)
        scores, ids = F.topk(logarithms, axis=1, k=count, ret_typ="both", dtype="int32")
        return [scores, ids, *said]

    def _attended_said(self, F: ModuleType, inputs: Inputs, x: Tensor, layer: str) -> tuple[Tensor, Tensor]:
        """x (N, d) after attending to itself and what its row said before, and that with this word."""
        name, hidden, heads = f"{layer}.self_attention", self.sizes.hidden, self.sizes.heads
        projected = self.linear(F, inputs, f"{name}.query_key_value", self.norm(F, inputs, f"{name}.norm", x))
        query = F.reshape(F.slice_axis(projected, axis=1, begin=0, end=hidden), (-1, 1, hidden // heads))
        new = F.reshape(F.slice_axis(projected, axis=1, begin=hidden, end=3 * hidden), (0, 2 * heads, 1, -1))
        before = F.take(F.slice_axis(inputs[f"{layer}/said"], axis=2, begin=1, end=None), inputs["parents"], axis=0)
        said = F.concat(before, new, dim=2)
        key, value = (F.reshape(one, (-3, 0, 0)) for one in F.split(said, axis=1, num_outputs=2))
        y = self.attend(F, query, key, value, F.reshape(inputs["unused"], (1, 1, 1, -1)))
        return x + self.linear(F, inputs, f"{name}.output", F.reshape(y, (-1, hidden))), said


@dataclass
class State:
    """Of a beam search, on its context."""

    memory: Inputs
    """Keys and values of the source, and `padding`."""
    said: list[mx.nd.NDArray]
    """(N, 2H, P, e) each, as `Step.said` names them."""
    count: int
    """Words said."""


class Decoder:
    """`workloads.common.text.beam.Decoder` on one context."""

    def __init__(self, trainer: TransformerTrainer, replica: Replica) -> None:
        self.trainer, self.replica = trainer, replica

    def start(self, batch: Batch) -> State:
        model, sizes = self.trainer.step_model, self.trainer.step_model.sizes
        padding = self._there(padding_of(batch.arrays))
        data = {"source": self._there(batch.arrays["source"]), "padding": padding}
        encoded = self.trainer.encoder(False, self.replica.arguments(False), data)
        shape = (padding.shape[0] * model.width, 2 * sizes.heads, PLACES, sizes.hidden // sizes.heads)
        empty = mx.nd.zeros(shape, ctx=self.replica.context)
        memory = dict(zip(model.memory, encoded, strict=True))
        return State({"padding": padding, **memory}, [empty] * len(model.said), 0)

    def step(self, state: State, tokens: Int32s, parents: Int64s) -> tuple[beam.Candidates, State]:
        model, said = self.trainer.step_model, state.said
        if state.count == said[0].shape[2]:
            said = [mx.nd.concat(mx.nd.zeros_like(one), one, dim=2) for one in said]
        places = said[0].shape[2]
        unused = np.where(np.arange(places) < places - 1 - state.count, MASKED_SCORE, 0.0).astype(np.float32)
        host = {
            "tokens": tokens, "parents": parents.astype(np.int32), "number": np.array([state.count], np.int32),
            "unused": unused,
        }  # fmt: skip
        data = {name: self._there(array) for name, array in host.items()} | dict(zip(model.said, said, strict=True))
        outputs = self.trainer.stepper(False, self.replica.arguments(False), {**data, **state.memory})
        candidates = beam.Candidates(*(array.asnumpy() for array in outputs[:2]))
        return candidates, State(state.memory, outputs[2:], state.count + 1)

    def _there(self, array: Array) -> mx.nd.NDArray:
        return self.trainer.to_device(array, self.replica.context)


def padding_of(arrays: Arrays) -> Array:
    """(B, S) float32: what is added to scores of the source."""
    places = np.arange(arrays["source"].shape[1])
    return np.where(places >= arrays["source_length"][:, None], MASKED_SCORE, 0.0).astype(np.float32)


class TransformerTrainer(ModelTrainer):
    """The Transformer on every device of this process."""

    workload: Transformer

    def build_model(self, half: bool, on_cpu: bool) -> Translator:
        workload = self.workload
        _, on_mean = workload.label_shares
        return Translator(workload.network, workload.longest, on_mean, workload.least_loss)

    def build(self) -> None:
        super().build()
        sizes, longest = self.workload.network, self.workload.longest
        self.encoder = Graphs(Encoder(sizes, longest), self.graphs.compiled)
        self.step_model = Step(sizes, longest, self.workload.beam.width)
        self.stepper = Graphs(self.step_model, self.graphs.compiled)

    def host_arrays(self, batch: Batch, training: bool) -> Arrays:
        """A batch's arrays, what is added to scores of padding, and dropout masks (workloads/common/dropout.py)."""
        made = {name: batch.arrays[name] for name in ("source", "target", "label")}
        made["padding"] = padding_of(batch.arrays)
        if training and self.workload.network.dropout:
            made |= self._masks(batch.arrays)
        return made

    def _masks(self, arrays: Arrays) -> Arrays:
        """(B, L, width) each, (B, H, T, S) of attention weights: drawn as S · H values of each query. Zeros at padding."""
        sizes, keys, masks = self.workload.network, arrays["dropout_key"], {}
        edge = {side: arrays[side].shape[1] for side in ("source", "target")}
        counts = {side: np.arange(edge[side]) < arrays[f"{side}_length"][:, None] for side in edge}
        rows = {side: np.nonzero(places) for side, places in counts.items()}
        for label, width in network.mask_widths(sizes).items():
            side = "source" if label.startswith(("source", "encoder")) else "target"
            others = edge["source" if "/cross/" in label else side]
            values = others * sizes.heads if width is None else width
            sentence, position = rows[side]
            mask = np.zeros((len(keys), edge[side], values), np.float32)
            mask[counts[side]] = dropout.multipliers_at(keys[sentence], position, label, values, sizes.dropout)
            if width is None:
                mask = np.ascontiguousarray(mask.reshape(*mask.shape[:2], others, sizes.heads).transpose(0, 3, 1, 2))
            masks[label] = mask
        return masks

    def outputs(self, batch: Batch, replica: int) -> dict[str, list[mx.nd.NDArray]]:
        """Translations, `tokens` (B, T) and `token_count` (B,); of a batch with labels each sentence's `loss` (B,)."""
        if "label" in batch.arrays:
            return super().outputs(batch, replica)
        translated = self.workload.translated(Decoder(self, self.replicas[replica]), batch)
        return {name: [mx.nd.from_numpy(np.ascontiguousarray(value))] for name, value in translated.items()}
