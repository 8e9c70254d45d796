"""GNMT in PyTorch.

A single call runs each LSTM over the whole sequence (cuDNN, oneDNN), and attention is computed for
all steps at once.

network.py describes the shapes and the names of parameters. A beam search has N = B · K rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workloads.api import Batch
from workloads.common.arrays import Int32s, Int64s
from workloads.common.text import beam
from workloads.common.text.vocabulary import PAD
from workloads.frameworks.pytorch import kernels
from workloads.frameworks.pytorch.copies import download
from workloads.frameworks.pytorch.dropout import Places, multipliers
from workloads.frameworks.pytorch.entropy import smoothed_entropy
from workloads.frameworks.pytorch.linear import linear
from workloads.frameworks.pytorch.model import ModelTrainer
from workloads.gnmt import network
from workloads.gnmt.workload import GNMT

Mask = Callable[[Tensor, slice], Tensor]
"""Function that applies dropout to an LSTM's input (L, B, w).

The second argument selects the LSTM's slice of the source or target mask.
"""
PAIR = ("source", "source_length", "target", "label")
CUDNN_LSTM = 2
"""Code for an LSTM in cuDNN's enumeration of RNN modes."""


class _Reordered(torch.autograd.Function):
    """Autograd function that permutes the rows of x (R, h) in the order `places` (R,).

    The permutation must be its own inverse. The backward pass therefore applies the same
    permutation to the gradient.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        return x.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        return gradient.contiguous().index_select(0, places), None


class _Narrowed(torch.autograd.Function):
    """Autograd function that copies an LSTM's weights to low-precision `buffers`.

    The buffers are contiguous, as cuDNN requires. If the buffers were not contiguous, cuDNN would
    copy the weights in each step. The gradients have the data type of the original weights.
    """

    @staticmethod
    def forward(ctx: Any, buffers: list[Tensor], *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.dtype = weights[0].dtype
        torch._foreach_copy_(buffers, weights)
        return tuple(buffer.detach() for buffer in buffers)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, *(gradient.to(ctx.dtype) for gradient in gradients)


@dataclass
class Memory:
    """Encoder outputs of B sentences, to which the decoder attends."""

    values: Tensor
    """Encoder outputs (B, S, h)."""
    keys: Tensor
    """Attention keys (B, S, h), which are projected encoder outputs."""
    padding: Tensor
    """Padding mask (B, 1, S), which is True at padding positions."""


class Attention(nn.Module):
    """Normalized Bahdanau attention."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.query, self.key = (
            nn.Linear(hidden, hidden, bias=False),
            nn.Linear(hidden, hidden, bias=False),
        )
        self.bias, self.vector = nn.Parameter(torch.zeros(hidden)), nn.Parameter(torch.ones(hidden))
        self.scale = nn.Parameter(torch.zeros(1))

    def memory(self, values: Tensor, lengths: Tensor) -> Memory:
        """Return the memory for encoder outputs (S, B, h) with sentence lengths (B,).

        The bias of the attention is added to the keys, because the number of keys is smaller than
        the number of sums of a query and a key.
        """
        values = values.transpose(0, 1).contiguous()
        places = torch.arange(values.shape[1], device=values.device)
        keys = linear(values, self.key.weight, self.bias)
        return Memory(values, keys, (places >= lengths[:, None])[:, None])

    def forward(self, queries: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Return contexts (B, T, h) and attention weights (B, T, S) for queries (B, T, h)."""
        asked = linear(queries, self.query.weight, None)
        sums = asked[:, :, None] + memory.keys[:, None]
        vector = self.scale * self.vector / self.vector.norm()
        scores = sums.tanh_() @ vector.to(sums.dtype)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        weights = scores.masked_fill(memory.padding, network.MASKED_SCORE).softmax(-1)
        return weights.to(memory.values.dtype) @ memory.values, weights


class Translator(nn.Module):
    """Translation network.

    The LSTMs are PyTorch modules, so that their weights are contiguous, as cuDNN requires.
    """

    def __init__(self, layers: network.Network) -> None:
        super().__init__()
        self.layers = layers
        self.narrow: dict[str, list[Tensor]] = {}
        """Buffers for bf16 copies of the weights by LSTM name, on a GPU."""
        self.embedding = nn.Embedding(layers.vocabulary, layers.hidden)
        for lstm in layers.lstms:
            self.add_module(lstm.name, nn.LSTM(lstm.inputs, layers.hidden))
        self.attention = Attention(layers.hidden)
        self.classifier = nn.Linear(layers.hidden, layers.vocabulary)

    def forward(
        self, source: Tensor, lengths: Tensor, target: Tensor, masks: tuple[Mask, Mask] | None
    ) -> Tensor:
        """Return the logits (T · B, V).

        `source` (B, S) and `target` (B, T) contain token ids, and `lengths` (B,) contains the
        source lengths. `source`, `lengths`, and `target` are int64.

        `masks` contains the dropout masks of source and target, (S, B, …) and (T, B, …).
        """
        of_source, of_target = masks or (None, None)
        words = torch.cat([source.t().reshape(-1), target.t().reshape(-1)])
        # Source and target tokens share a single embedding look-up, because the gradient of each
        # look-up is an array as large as the embedding table.
        embedded = self.embedding(words).split([source.numel(), target.numel()])
        values = self.encode(embedded[0].view(*source.t().shape, -1), lengths, of_source)
        outputs = self.decode(
            embedded[1].view(*target.t().shape, -1),
            self.attention.memory(values, lengths),
            of_target,
        )
        return linear(outputs.flatten(0, 1), self.classifier.weight, self.classifier.bias)

    def encode(self, x: Tensor, lengths: Tensor, mask: Mask | None) -> Tensor:
        """Return the encoder's outputs (S, B, h) for embedded tokens (S, B, h)."""
        ahead, back, *further = self.layers.encoder
        x = dropped(x, mask, ahead)
        places = reversing(lengths, *x.shape[:2])
        backward = self.run(back, _Reordered.apply(x.flatten(0, 1), places).view(x.shape))
        backward = _Reordered.apply(backward.flatten(0, 1), places).view(backward.shape)
        x = torch.cat([self.run(ahead, x), backward], 2)
        for lstm in further:
            y = self.run(lstm, dropped(x, mask, lstm))
            x = x + y if lstm.residual else y
        return x

    def decode(self, x: Tensor, memory: Memory, mask: Mask | None) -> Tensor:
        """Return the classifier's inputs (T, B, h) for embedded tokens (T, B, h).

        All positions are computed at once.
        """
        first, *further = self.layers.decoder
        x = self.run(first, dropped(x, mask, first))
        context = self.attention(x.transpose(0, 1), memory)[0].transpose(0, 1)
        for lstm in further:
            y = self.run(lstm, dropped(torch.cat([x, context], 2), mask, lstm))
            x = x + y if lstm.residual else y
        return x

    def run(self, lstm: network.Lstm, x: Tensor) -> Tensor:
        """Run an LSTM over a sequence (L, B, inputs) and return its outputs (L, B, h).

        The initial hidden and cell states are 0.
        """
        module: nn.LSTM = getattr(self, lstm.name)
        narrow = (
            torch.get_autocast_dtype("cuda")
            if x.is_cuda and torch.is_autocast_enabled("cuda")
            else x.dtype
        )
        if narrow != torch.bfloat16:
            return module(x)[0]
        with torch.autocast(
            "cuda", enabled=False
        ):  # With autocast, PyTorch would convert the input of an LSTM to fp16.
            weights = _Narrowed.apply(
                self.narrowed(lstm.name, module, narrow), *module._flat_weights
            )
            zeros = torch.zeros(1, x.shape[1], module.hidden_size, dtype=narrow, device=x.device)
            return torch.lstm(
                x.to(narrow), (zeros, zeros), weights, True, 1, 0.0, self.training, False, False
            )[0]

    def narrowed(self, name: str, module: nn.LSTM, narrow: torch.dtype) -> list[Tensor]:
        """Return the buffers of an LSTM's weights in the data type `narrow`.

        The buffers are views of a single array, as cuDNN requires.
        """
        if name not in self.narrow:
            sizes = module.input_size, CUDNN_LSTM, module.hidden_size, 0, module.num_layers
            with torch.inference_mode(False), torch.no_grad():
                self.narrow[name] = [weight.detach().to(narrow) for weight in module._flat_weights]
                torch._cudnn_rnn_flatten_weight(
                    self.narrow[name], len(self.narrow[name]), *sizes, False, False
                )
        return self.narrow[name]


def dropped(x: Tensor, mask: Mask | None, lstm: network.Lstm) -> Tensor:
    """Return an LSTM's input with dropout applied."""
    return x if mask is None else mask(x, lstm.mask)


def in_memory(mask: Tensor, x: Tensor, part: slice) -> Tensor:
    """Multiply x by a slice of a precomputed mask (L, B, …). The function is a `Mask`."""
    return x * mask[..., part].to(x.dtype)


def drawn(places: Places, side: str, x: Tensor, part: slice) -> Tensor:
    """Apply dropout to x with a kernel that computes the mask. The function is a `Mask`."""
    return places.by_kernel(x.flatten(0, 1), side, first=part.start).view(x.shape)


def reversing(lengths: Tensor, positions: int, sentences: int) -> Tensor:
    """Return the row order (positions · B,) that reverses each sentence.

    The order applies to flattened sequences (positions · B, …). Only the valid positions of a
    sentence are reversed.
    """
    place = torch.arange(positions, device=lengths.device)[:, None]
    mirrored = torch.where(place < lengths, lengths - 1 - place, place)
    return (mirrored * sentences + torch.arange(sentences, device=lengths.device)).flatten()


@dataclass
class State:
    """Encoder outputs and decoder states of a beam search, on the device."""

    memory: Memory
    hidden: list[Tensor]
    """Hidden states of each decoder layer, (N, h)."""
    cells: list[Tensor]
    """Cell states of each decoder layer, (N, h)."""


class Decoder:
    """Implementation of `workloads.common.text.beam.Decoder` with a `Translator`."""

    def __init__(self, trainer: GNMTTrainer) -> None:
        self.trainer, self.model = trainer, trainer.model
        self.width = trainer.workload.beam.width

    def start(self, batch: Batch) -> State:
        source, lengths = (self.trainer.ids(batch, name) for name in ("source", "source_length"))
        values = self.model.encode(self.model.embedding(source.t()), lengths, None)
        memory = self.model.attention.memory(values, lengths)
        zeros = torch.zeros(
            len(source) * self.width, values.shape[2], dtype=values.dtype, device=values.device
        )
        count = len(self.model.layers.decoder)
        return State(memory, [zeros] * count, [zeros] * count)

    def step(self, state: State, tokens: Int32s, parents: Int64s) -> tuple[beam.Candidates, State]:
        model, rows = self.model, self.trainer.to_device(parents)
        hidden, cells = ([values[rows] for values in part] for part in (state.hidden, state.cells))
        x = model.embedding(self.trainer.to_device(tokens))
        context = weights = x
        for number, lstm in enumerate(model.layers.decoder):
            inputs = torch.cat([x, context], 1) if number else x
            module = getattr(model, lstm.name)
            state_before = hidden[number], cells[number]
            hidden[number], cells[number] = torch.lstm_cell(
                inputs, state_before, *module._flat_weights
            )
            x = x + hidden[number] if lstm.residual else hidden[number]
            if not number:
                context, weights = model.attention(x.view(-1, self.width, x.shape[1]), state.memory)
                context, weights = context.flatten(0, 1), weights.flatten(0, 1)
        scores = F.log_softmax(
            linear(x, model.classifier.weight, model.classifier.bias).float(), -1
        )
        best = scores.topk(min(2 * self.width, scores.shape[1]))
        candidates = beam.Candidates(*download(best.values, best.indices.int(), weights.float()))
        return candidates, State(state.memory, hidden, cells)


class GNMTTrainer(ModelTrainer):
    """GNMT trainer for one device."""

    workload: GNMT
    evaluation_inputs = PAIR

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """Return the names of the batch arrays that `loss` reads."""
        return (*PAIR, "dropout_key") if self.workload.network.dropout else PAIR

    def build(self) -> nn.Module:
        return Translator(self.workload.network)

    def ids(self, batch: Batch, name: str) -> Tensor:
        """Return an integer array of the batch as an int64 tensor on the device."""
        return self.to_device(batch.arrays[name]).long()

    def loss(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the cross-entropy with smoothed labels, summed over the target tokens."""
        source, lengths, target, label = (batch[name].long() for name in PAIR)
        with self.autocast():
            logits = model(source, lengths, target, self._masks(batch))
        smoothing = self.workload.options.label_smoothing
        return smoothed_entropy(logits, label.t().reshape(-1), 1 - smoothing, smoothing, PAD)

    def _masks(self, batch: Mapping[str, Tensor]) -> tuple[Mask, Mask] | None:
        """Return the dropout masks of a batch.

        The masks are identical in all frameworks (workloads/common/dropout.py).
        """
        layers = self.workload.network
        if not layers.dropout:
            return None
        keys = batch["dropout_key"]

        def of(side: str, width: int) -> Mask:
            length = batch[side].shape[1]
            if keys.is_cuda and kernels.usable():
                positions = torch.arange(length, device=keys.device).repeat_interleave(len(keys))
                return partial(drawn, Places(keys.repeat(length), positions, layers.dropout), side)
            return partial(in_memory, multipliers(keys, side, length, width, layers.dropout))

        of_source, of_target = layers.mask_widths
        return of("source", of_source), of("target", of_target)

    def outputs(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the `loss` (B,) of each sentence.

        The loss is -log p, summed over the tokens of the sentence.

        The loss does not use label smoothing.
        """
        source, lengths, target, label = (batch[name].long() for name in PAIR)
        logits = model(source, lengths, target, None)
        entropy = F.cross_entropy(
            logits.float(), label.t().reshape(-1), ignore_index=PAD, reduction="none"
        )
        return {"loss": entropy.view(label.t().shape).sum(0)}

    def run_outputs(self, batch: Batch) -> Mapping[str, Tensor]:
        """Return losses if the batch has labels, otherwise translations.

        Losses are the result of `outputs`. Translations are `tokens` (B, T) and `token_count` (B,).
        """
        if "label" in batch.arrays:
            return super().run_outputs(batch)
        translated = self.workload.translated(Decoder(self), batch)
        return {name: torch.from_numpy(value) for name, value in translated.items()}
