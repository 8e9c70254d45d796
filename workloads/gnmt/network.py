"""GNMT's layers, without a framework: names, sizes, initial weights, and which part of a dropout mask each layer has.

Source words go through a bidirectional LSTM, a second one, and further ones with residual connections. The decoder's first LSTM
runs on the target words alone; its output at each step asks the attention, and the context found stands beside the input of
every later layer. Embedding shared by both sides, classifier untied.

Shapes in all trainers: B sentences of a replica, S source and T target positions with padding, h hidden values, V words.
Sequences are time-major, (S, B, …), inside.

The backward direction of the first layer is an LSTM of its own: the valid part of each sentence is reversed by its length, run
forwards, and reversed back. Padding stands at the end either way, so nothing of it reaches a valid position, and no framework
needs packed sequences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from workloads.api import Array, Json
from workloads.common.networks.initial import draw

GATES = 4
"""Of an LSTM, in the order input, forget, cell, output (PyTorch, cuDNN, oneDNN, MXNet)."""
PARTS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
"""Of each LSTM, as PyTorch names them. Two biases, as cuDNN has them: Adam moves both, so with one the weights drift apart."""
VOCABULARY_MULTIPLE = 8
"""In half precision the vocabulary is filled up to a multiple of this (utils.py pad_vocabulary; logged: 32,320 of 32,317)."""
MASKED_SCORE = -65_504.0
"""Attention score of padding: the lowest fp16 number; -inf would give NaN for a sentence of padding alone (attention.py)."""

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Lstm:
    """One LSTM over a sequence."""

    name: str
    inputs: int
    """Values of its input, the context included."""
    mask: slice
    """Its part of the last axis of its side's dropout mask; both directions of the first layer share one."""
    residual: bool = False
    """Its output is added to its input (without the context)."""


@dataclass(frozen=True)
class Network:
    """Sizes and layers."""

    vocabulary: int
    """V"""
    hidden: int
    """h"""
    encoder: tuple[Lstm, ...]
    """The second one is the first layer's backward direction."""
    decoder: tuple[Lstm, ...]
    dropout: float
    """Share of an LSTM's inputs that is dropped in training."""

    @cached_property
    def lstms(self) -> tuple[Lstm, ...]:
        """All, the encoder's first."""
        return (*self.encoder, *self.decoder)

    @property
    def mask_widths(self) -> tuple[int, int]:
        """Values of a position in the dropout masks of source and target."""
        return self.encoder[-1].mask.stop, self.decoder[-1].mask.stop


def build(model: Mapping[str, Json], vocabulary: int, dropout: float) -> Network:
    """The network of `settings.model` (`hidden`, `layers`) for so many words; encoder and decoder have as many layers."""
    hidden, layers = int(model["hidden"]), int(model["layers"])
    first = slice(0, hidden)
    encoder = [Lstm("encoder1", hidden, first), Lstm("encoder1_reverse", hidden, first)]
    decoder = [Lstm("decoder1", hidden, first)]
    for number in range(2, layers + 1):
        inputs = 2 * hidden if number == 2 else hidden
        start = encoder[-1].mask.stop
        encoder.append(Lstm(f"encoder{number}", inputs, slice(start, start + inputs), residual=number > 2))
        start = decoder[-1].mask.stop
        decoder.append(Lstm(f"decoder{number}", 2 * hidden, slice(start, start + 2 * hidden), residual=number > 2))
    return Network(vocabulary, hidden, tuple(encoder), tuple(decoder), dropout)


def shapes(network: Network) -> Shapes:
    """Canonical name to shape of every parameter, in order."""
    hidden = network.hidden
    shape_of: Shapes = {"embedding.weight": (network.vocabulary, hidden)}
    for lstm in network.lstms:
        rows = GATES * hidden
        sizes = ((rows, lstm.inputs), (rows, hidden), (rows,), (rows,))
        shape_of |= {f"{lstm.name}.{part}": size for part, size in zip(PARTS, sizes, strict=True)}
    shape_of |= {f"attention.{kind}.weight": (hidden, hidden) for kind in ("query", "key")}
    shape_of |= {"attention.bias": (hidden,), "attention.vector": (hidden,), "attention.scale": (1,)}
    return shape_of | {"classifier.weight": (network.vocabulary, hidden), "classifier.bias": (network.vocabulary,)}


def parameter_counts(network: Network) -> dict[str, int]:
    """Values of `embedding`, `encoder`, `decoder`, `attention`, `classifier`; 160,671,297 in all in the reference."""
    counts = dict.fromkeys(("embedding", "encoder", "decoder", "attention", "classifier"), 0)
    for name, shape in shapes(network).items():
        counts[next(part for part in counts if name.startswith(part))] += math.prod(shape)
    return counts


def initial_weights(
    network: Network, seed: int, weight: float, embedding: float, padding: int
) -> Iterator[tuple[str, Array]]:
    """(name, float32 array) of every parameter, the same in every framework.

    Uniform in ±`weight`, the embedding in ±`embedding` (reference: 0.1 for both). Recurrent biases, the attention's bias and
    the embedding of `padding` are 0, the attention's scale is 1 / √h (reference gnmt.py, attention.py).
    """
    for name, shape in shapes(network).items():
        if name.endswith("bias_hh_l0") or name == "attention.bias":
            yield name, np.zeros(shape, np.float32)
        elif name == "attention.scale":
            yield name, np.full(shape, 1 / math.sqrt(network.hidden), np.float32)
        elif name == "embedding.weight":
            value = draw(seed, name, shape, "uniform", embedding)
            value[padding] = 0
            yield name, value
        else:
            yield name, draw(seed, name, shape, "uniform", weight)
