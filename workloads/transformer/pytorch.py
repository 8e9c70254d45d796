"""The Transformer in PyTorch.

Linear layers, layer norms, and logits are computed on rows without padding. Attention is computed
on padded sentences.

network.py describes the shapes and the names of parameters. A beam search has N = B · K rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workloads.api import Batch
from workloads.common.arrays import Int32s, Int64s
from workloads.common.text import beam
from workloads.common.text.vocabulary import PAD
from workloads.frameworks.pytorch.copies import download
from workloads.frameworks.pytorch.dropout import Places, multipliers_at
from workloads.frameworks.pytorch.entropy import smoothed_entropy
from workloads.frameworks.pytorch.linear import linear
from workloads.frameworks.pytorch.model import ModelTrainer
from workloads.frameworks.pytorch.rows import Rows
from workloads.transformer import network
from workloads.transformer.workload import Transformer


@dataclass(frozen=True)
class Masks:
    """Dropout masks of a batch, which multiply activations (workloads/common/dropout.py)."""

    keys: Tensor
    """Hash keys of the sentences (B,), on the device that computes the masks."""
    rate: float
    places: dict[int, Places] = field(default_factory=dict)
    """Keys and positions that determine the masks of source and target, by the `id` of the `Rows`
    object.
    """

    def of_rows(self, rows: Rows) -> Places:
        """Return the keys and positions from which the masks of rows are computed.

        All layers share these keys and positions.
        """
        if id(rows) not in self.places:
            sequence, position = rows.on_device
            self.places[id(rows)] = Places(self.keys[sequence], position, self.rate)
        return self.places[id(rows)]

    def of_weights(self, label: str, heads: int, queries: int, keys: int) -> Tensor:
        """Return the mask of attention weights, (B, H, T, S).

        The mask is drawn as S · H factors per query. Padding therefore does not change any factor.
        """
        places = torch.arange(queries, device=self.keys.device)
        factors = multipliers_at(self.keys[:, None], places, label, keys * heads, self.rate)
        return factors.view(len(self.keys), queries, keys, heads).permute(0, 3, 1, 2)


def attend(
    query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None, causal: bool,
    weights_mask: Tensor | None, dropped: float,
) -> Tensor:  # fmt: skip
    """Return the attention outputs, (B, H, T, e).

    Args:
        query: Queries, (B, H, T, e).
        key: Keys, (B, H, S, e).
        value: Values, (B, H, S, e).
        allowed: Mask of the keys to which queries may attend, (B, 1, 1, S) bool. None allows all
            keys.
        causal: Whether later positions are masked.
        weights_mask: Dropout mask of the attention weights, (B, H, T, S). With None, the fused
            kernel runs.
        dropped: Dropout rate of the fused kernel. If the rate is not 0, the kernel generates its
            dropout mask.
    """
    if weights_mask is None:
        return F.scaled_dot_product_attention(query, key, value, allowed, dropped, is_causal=causal)
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu_(1)
        scores = scores.masked_fill(later, -torch.inf)
    return (scores.softmax(-1) * weights_mask).to(value.dtype) @ value


class _Layer(nn.Module):
    """Parameters of a sub-layer: the layer norm, and the linear layers by name."""

    def __init__(self, hidden: int, bias: bool, **sizes: tuple[int, int]) -> None:
        """Create the layer norm and the linear layers.

        `sizes` maps the name of each linear layer to its numbers of outputs and inputs.
        """
        super().__init__()
        self.norm = nn.LayerNorm(hidden, network.EPSILON)
        for name, (outputs, inputs) in sizes.items():
            self.add_module(name, nn.Linear(inputs, outputs, bias=bias))

    def linear(self, name: str, x: Tensor, relu: bool = False) -> Tensor:
        layer = getattr(self, name)
        return linear(x, layer.weight, layer.bias, relu)


class Encoder(nn.Module):
    """Layer of the encoder."""

    def __init__(self, sizes: network.Network) -> None:
        super().__init__()
        d, inner = sizes.hidden, sizes.feed_forward
        self.self_attention = _Layer(d, False, query_key_value=(3 * d, d), output=(d, d))
        self.feed_forward = _Layer(d, True, inner=(inner, d), outer=(d, inner))


class Decoder(Encoder):
    """Layer of the decoder."""

    def __init__(self, sizes: network.Network) -> None:
        super().__init__(sizes)
        d = sizes.hidden
        self.cross_attention = _Layer(d, False, query=(d, d), key_value=(2 * d, d), output=(d, d))


class Translator(nn.Module):
    """Translation network."""

    def __init__(self, sizes: network.Network, longest: int, device_draws: bool) -> None:
        """Create the network.

        Args:
            sizes: Sizes of the network.
            longest: Maximum number of positions.
            device_draws: Whether the fused kernel generates the dropout masks of attention weights.
        """
        super().__init__()
        self.sizes, self.device_draws = sizes, device_draws
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.hidden)
        for number in range(1, sizes.layers + 1):
            self.add_module(f"encoder{number}", Encoder(sizes))
            self.add_module(f"decoder{number}", Decoder(sizes))
        self.encoder_norm, self.decoder_norm = (
            nn.LayerNorm(sizes.hidden, network.EPSILON) for _ in range(2)
        )
        places = torch.from_numpy(network.positions(longest, sizes.hidden))
        self.register_buffer("positions", places, persistent=False)

    def layers(self, side: str) -> list[tuple[str, Encoder]]:
        """Return the layers of `side`, which is `encoder` or `decoder`, with their names."""
        return [
            (f"{side}{number}", getattr(self, f"{side}{number}"))
            for number in range(1, self.sizes.layers + 1)
        ]

    # -- on rows
    # ----------------------------------------------------------------------------------------------

    def forward(self, words: Tensor, source: Rows, target: Rows, keys: Tensor | None) -> Tensor:
        """Return logits (R_t, V).

        Args:
            words: Tokens of source and target, with the source first, (R_s + R_t,) int64.
            source: Rows of the source.
            target: Rows of the target.
            keys: Dropout keys (B,), or None to disable dropout.
        """
        masks = None if keys is None else Masks(keys, self.sizes.dropout)
        # Source and target tokens share a single embedding look-up, because the gradient of each
        # look-up is an array as large as the embedding table.
        of_source, of_target = self.embed(words).split([len(source.sequence), len(target.sequence)])
        memory = self.encode(self.placed(of_source, source, "source", masks), source, masks)
        x = self.placed(of_target, target, "target", masks)
        for name, layer in self.layers("decoder"):
            x = self.attended(x, layer.self_attention, f"{name}/self", target, target, None, masks)
            x = self.attended(
                x, layer.cross_attention, f"{name}/cross", target, source, memory, masks
            )
            x = self.fed_forward(x, layer, name, target, masks)
        return self.classify(x)

    def embed(self, words: Tensor) -> Tensor:
        """Return the embeddings (R, d) of tokens (R,).

        The embedding of padding is zeros. Padding precedes the first token of a target.
        """
        rows: Tensor = self.embedding(words)
        return rows * ((words != PAD)[:, None] * self.sizes.scale)

    def placed(self, x: Tensor, rows: Rows, side: str, masks: Masks | None) -> Tensor:
        """Add the position encodings to embedded tokens (R, d) and apply dropout."""
        x = x + self.positions[rows.on_device[1]]
        return x if masks is None else masks.of_rows(rows).dropped(x, f"{side}/embedding")

    def encode(self, x: Tensor, rows: Rows, masks: Masks | None) -> Tensor:
        """Return the encoder's outputs (R, d), which are called the memory.

        The argument x contains embedded tokens with position encodings (R, d).
        """
        for name, layer in self.layers("encoder"):
            x = self.attended(x, layer.self_attention, f"{name}/self", rows, rows, None, masks)
            x = self.fed_forward(x, layer, name, rows, masks)
        return self.encoder_norm(x)

    def classify(self, x: Tensor) -> Tensor:
        """Return logits (R, V) for the decoder's outputs (R, d).

        The weight of the classifier is the embedding table.
        """
        return linear(self.decoder_norm(x), self.embedding.weight, None)

    def attended(
        self, x: Tensor, layer: _Layer, label: str, rows: Rows, memory_rows: Rows,
        memory: Tensor | None, masks: Masks | None,
    ) -> Tensor:  # fmt: skip
        """Apply an attention sub-layer to x (R, d).

        Without a memory, x attends to itself, and `memory_rows` equals `rows`. With a memory (R_s,
        d), x attends to the memory, and `memory_rows` describes the rows of the memory.
        """
        normed = layer.norm(x)
        if memory is None:
            query, key, value = self.split(rows.padded(layer.linear("query_key_value", normed)), 3)
        else:
            (query,) = self.split(rows.padded(layer.linear("query", normed)), 1)
            key, value = self.split(memory_rows.padded(layer.linear("key_value", memory)), 2)
        causal = memory is None and label.startswith("decoder")
        # The padding of a target follows the tokens, so the causal mask already hides the padding.
        allowed = None if causal or memory_rows.mask is None else memory_rows.mask[:, None, None]
        drawn = None
        if masks is not None and not self.device_draws:
            drawn = masks.of_weights(
                f"{label}/weights", self.sizes.heads, rows.length, memory_rows.length
            )
        dropped = self.sizes.dropout if masks is not None and self.device_draws else 0.0
        y = attend(query, key, value, allowed, causal, drawn, dropped)
        y = layer.linear("output", rows.packed(y.transpose(1, 2).flatten(2)))
        return added(x, y, rows, label, masks)

    def fed_forward(
        self, x: Tensor, layer: Encoder, name: str, rows: Rows, masks: Masks | None
    ) -> Tensor:
        """Apply the feed-forward sub-layer to x (R, d)."""
        part = layer.feed_forward
        inner = part.linear("inner", part.norm(x), relu=True)
        if masks is not None:
            inner = masks.of_rows(rows).dropped(inner, f"{name}/relu")
        return added(x, part.linear("outer", inner), rows, f"{name}/feed_forward", masks)

    def split(self, x: Tensor, parts: int) -> list[Tensor]:
        """Split x (B, L, parts · d) into `parts` tensors (B, H, L, e)."""
        heads = x.view(*x.shape[:2], parts, self.sizes.heads, -1).permute(2, 0, 3, 1, 4)
        return list(heads.unbind(0))


def added(x: Tensor, y: Tensor, rows: Rows, label: str, masks: Masks | None) -> Tensor:
    """Add the output of a sub-layer, after dropout, to the input of the sub-layer."""
    return x + y if masks is None else masks.of_rows(rows).dropped(y, label, added=x)


@dataclass
class State:
    """Encoder outputs and decoder states of a beam search, on the device."""

    memory: list[tuple[Tensor, Tensor]]
    """Keys and values of the encoder's outputs for each layer, (B, H, S, e)."""
    allowed: Tensor | None
    """Padding mask of the source, (B, 1, 1, S), which is True at tokens."""
    past: Tensor | None
    """Keys and values of the t previous tokens, (layers, 2, N, H, t, e), or None before the first
    token.
    """


class Search:
    """Implementation of `workloads.common.text.beam.Decoder` with a `Translator`.

    The object stores the keys and values of all previous tokens.
    """

    def __init__(self, trainer: TransformerTrainer) -> None:
        self.device, self.model, self.to_device = trainer.device, trainer.model, trainer.to_device
        self.width = trainer.workload.beam.width

    def start(self, batch: Batch) -> State:
        model, source = self.model, batch.arrays["source"]
        rows = Rows.of(batch.arrays["source_length"], source.shape[1], self.device)
        words = self.to_device(source[rows.sequence, rows.position]).long()
        memory = model.encode(model.placed(model.embed(words), rows, "source", None), rows, None)
        projected = [
            model.split(rows.padded(layer.cross_attention.linear("key_value", memory)), 2)
            for _, layer in model.layers("decoder")
        ]
        allowed = None if rows.mask is None else rows.mask[:, None, None]
        return State([(key, value) for key, value in projected], allowed, None)

    def step(self, state: State, tokens: Int32s, parents: Int64s) -> tuple[beam.Candidates, State]:
        model = self.model
        count = 0 if state.past is None else state.past.shape[4]
        before = None if state.past is None else state.past[:, :, self.to_device(parents)]
        x = model.embed(self.to_device(tokens).long()) + model.positions[count]
        kept = []
        for number, (_, layer) in enumerate(model.layers("decoder")):
            part = layer.self_attention
            query, key, value = model.split(
                part.linear("query_key_value", part.norm(x))[:, None], 3
            )
            of_layer = torch.stack([key, value])
            if before is not None:
                of_layer = torch.cat([before[number], of_layer], 3)
            kept.append(of_layer)
            y = F.scaled_dot_product_attention(query, of_layer[0], of_layer[1])
            x = x + part.linear("output", y.flatten(1))
            part = layer.cross_attention
            # The hypotheses of a sentence are adjacent rows, so a single attention operation per
            # sentence computes all hypotheses.
            (query,) = model.split(
                part.linear("query", part.norm(x)).view(-1, self.width, x.shape[1]), 1
            )
            y = F.scaled_dot_product_attention(query, *state.memory[number], state.allowed)
            x = x + part.linear("output", y.transpose(1, 2).reshape(x.shape))
            part = layer.feed_forward
            x = x + part.linear("outer", part.linear("inner", part.norm(x), relu=True))
        scores = F.log_softmax(model.classify(x).float(), -1)
        best = scores.topk(min(2 * self.width, scores.shape[1]))
        candidates = beam.Candidates(*download(best.values, best.indices.int()))
        return candidates, State(state.memory, state.allowed, torch.stack(kept))


class TransformerTrainer(ModelTrainer):
    """Transformer trainer for one device."""

    workload: Transformer

    def build(self) -> nn.Module:
        """Return the network of the workload.

        On a GPU, the fused attention kernel generates its dropout masks, because no fused attention
        kernel accepts an external dropout mask.
        """
        torch.backends.cuda.enable_cudnn_sdp(self.workload.options.cudnn_attention)
        return Translator(self.workload.network, self.workload.longest, self.device.type == "cuda")

    def device_arrays(self, batch: Batch, training: bool) -> Mapping[str, Any]:
        """Return the tokens without padding instead of padded sentences.

        `words` (R_s + R_t,), with the source first, and `label` (R_t,) are int64. `source` and
        `target` are `Rows` objects. `tokens` is the number of target tokens. `dropout_key` is (B,)
        or None.
        """
        arrays = batch.arrays
        sides = {"source": "source_length", "target": "target_length"}
        source, target = (
            Rows.of(arrays[length], arrays[side].shape[1], self.device)
            for side, length in sides.items()
        )
        words = [
            arrays[side][rows.sequence, rows.position]
            for side, rows in (("source", source), ("target", target), ("label", target))
        ]
        of_both, labels = (
            self.to_device(ids).long() for ids in (np.concatenate(words[:2]), words[2])
        )
        dropped = training and self.workload.network.dropout
        return {
            "words": of_both,
            "label": labels,
            "source": source,
            "target": target,
            "tokens": int(arrays["target_length"].sum()),
            "dropout_key": self.to_device(arrays["dropout_key"]) if dropped else None,
        }

    def loss(self, model: nn.Module, batch: Mapping[str, Any]) -> Tensor:
        """Return the cross-entropy with smoothed labels, minus its minimum.

        The cross-entropy is summed over the target tokens.
        """
        on_label, on_mean = self.workload.label_shares
        entropy = smoothed_entropy(
            self.logits(model, batch), batch["label"], on_label, on_mean, PAD
        )
        return entropy - self.workload.least_loss * batch["tokens"]

    def logits(self, model: nn.Module, batch: Mapping[str, Any]) -> Tensor:
        """Return the logits (R_t, V) of a batch."""
        with self.autocast():
            logits: Tensor = model(
                batch["words"], batch["source"], batch["target"], batch["dropout_key"]
            )
        return logits

    def outputs(self, model: nn.Module, batch: Mapping[str, Any]) -> Mapping[str, Tensor]:
        """Return the `loss` (B,) of each sentence.

        The loss is -log p, summed over the tokens of the sentence.

        The loss does not use label smoothing.
        """
        logits, rows = self.logits(model, batch), batch["target"]
        entropy = F.cross_entropy(
            logits.float(), batch["label"], ignore_index=PAD, reduction="none"
        )
        return {"loss": entropy.new_zeros(rows.sequences).index_add_(0, rows.on_device[0], entropy)}

    def run_outputs(self, batch: Batch) -> Mapping[str, Tensor]:
        """Return losses if the batch has labels, otherwise translations.

        Losses are the result of `outputs`. Translations are `tokens` (B, T) and `token_count` (B,).
        """
        if "label" in batch.arrays:
            return super().run_outputs(batch)
        translated = self.workload.translated(Search(self), batch)
        return {name: torch.from_numpy(value) for name, value in translated.items()}
