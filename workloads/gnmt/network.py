"""Layers of GNMT: names, sizes, initial weights, and slices of the dropout masks.

This module does not depend on a framework.

The encoder applies a bidirectional LSTM, a second LSTM, and further LSTMs with residual connections
to the source tokens. The first LSTM of the decoder reads only the target tokens. The output of this
LSTM at each step is the query of the attention. The resulting context is concatenated to the input
of every later decoder layer. Encoder and decoder share the embedding, but the classifier has
separate weights.

All trainers use these symbols: B sentences per replica, S source and T target positions including
padding, h hidden units, V tokens of the vocabulary. Sequences are time-major, (S, B, …), inside the
network.

The backward direction of the first layer is a separate LSTM. The valid positions of each sentence
are reversed according to the sentence length, processed forward, and reversed again. In both
directions, padding is at the end. Padding therefore never influences a valid position, and no
framework needs packed sequences.
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
"""Number of gates of an LSTM, in the order input, forget, cell, output (PyTorch, cuDNN, oneDNN,
MXNet).
"""
PARTS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
"""Parameters of each LSTM, with PyTorch's names.

As in cuDNN, each LSTM has two biases. Adam updates both biases, so an LSTM with a single bias would
diverge from the reference.
"""
VOCABULARY_MULTIPLE = 8
"""Multiple to which the vocabulary size is padded in half precision.

The reference uses the same multiple (utils.py, pad_vocabulary). The log of the reference shows a
vocabulary size of 32,320 for 32,317 tokens.
"""
MASKED_SCORE = -65_504.0
"""Attention score of padding: the lowest fp16 number (reference attention.py).

A score of -inf would cause NaN for a sentence that consists only of padding.
"""

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Lstm:
    """LSTM over a sequence."""

    name: str
    inputs: int
    """Number of inputs per position, including the attention context."""
    mask: slice
    """Slice of the last axis of the encoder's or decoder's dropout mask for this LSTM.

    Both directions of the first layer share a slice.
    """
    residual: bool = False
    """Whether the input of the LSTM, without the attention context, is added to its output."""


@dataclass(frozen=True)
class Network:
    """Sizes and layers of GNMT."""

    vocabulary: int
    """Number V of tokens in the vocabulary."""
    hidden: int
    """Number h of hidden units."""
    encoder: tuple[Lstm, ...]
    """LSTMs of the encoder. The second LSTM is the backward direction of the first layer."""
    decoder: tuple[Lstm, ...]
    dropout: float
    """Fraction of an LSTM's inputs that dropout sets to 0 in training."""

    @cached_property
    def lstms(self) -> tuple[Lstm, ...]:
        """Return all LSTMs. The LSTMs of the encoder come first."""
        return (*self.encoder, *self.decoder)

    @property
    def mask_widths(self) -> tuple[int, int]:
        """Return the widths of the dropout masks of source and target.

        The width of a mask is its number of factors per position.
        """
        return self.encoder[-1].mask.stop, self.decoder[-1].mask.stop


def build(model: Mapping[str, Json], vocabulary: int, dropout: float) -> Network:
    """Return the network of `settings.model` (`hidden`, `layers`) for `vocabulary` tokens.

    Encoder and decoder have the same number of layers.
    """
    hidden, layers = int(model["hidden"]), int(model["layers"])
    first = slice(0, hidden)
    encoder = [Lstm("encoder1", hidden, first), Lstm("encoder1_reverse", hidden, first)]
    decoder = [Lstm("decoder1", hidden, first)]
    for number in range(2, layers + 1):
        inputs = 2 * hidden if number == 2 else hidden
        start = encoder[-1].mask.stop
        encoder.append(
            Lstm(f"encoder{number}", inputs, slice(start, start + inputs), residual=number > 2)
        )
        start = decoder[-1].mask.stop
        decoder.append(
            Lstm(
                f"decoder{number}",
                2 * hidden,
                slice(start, start + 2 * hidden),
                residual=number > 2,
            )
        )
    return Network(vocabulary, hidden, tuple(encoder), tuple(decoder), dropout)


def shapes(network: Network) -> Shapes:
    """Return the shape of every parameter by name, in parameter order."""
    hidden = network.hidden
    shape_of: Shapes = {"embedding.weight": (network.vocabulary, hidden)}
    for lstm in network.lstms:
        rows = GATES * hidden
        sizes = ((rows, lstm.inputs), (rows, hidden), (rows,), (rows,))
        shape_of |= {f"{lstm.name}.{part}": size for part, size in zip(PARTS, sizes, strict=True)}
    shape_of |= {f"attention.{kind}.weight": (hidden, hidden) for kind in ("query", "key")}
    shape_of |= {
        "attention.bias": (hidden,),
        "attention.vector": (hidden,),
        "attention.scale": (1,),
    }
    return shape_of | {
        "classifier.weight": (network.vocabulary, hidden),
        "classifier.bias": (network.vocabulary,),
    }


def parameter_counts(network: Network) -> dict[str, int]:
    """Return the number of parameters in each component of the network.

    The components are `embedding`, `encoder`, `decoder`, `attention`, and `classifier`. The
    reference has 160,671,297 parameters in total.
    """
    counts = dict.fromkeys(("embedding", "encoder", "decoder", "attention", "classifier"), 0)
    for name, shape in shapes(network).items():
        counts[next(part for part in counts if name.startswith(part))] += math.prod(shape)
    return counts


def initial_weights(
    network: Network, seed: int, weight: float, embedding: float, padding: int
) -> Iterator[tuple[str, Array]]:
    """Yield (name, float32 array) for every parameter, identical in every framework.

    Embeddings are uniform in ±`embedding`, and all other weights are uniform in ±`weight`
    (reference: 0.1 for both). Recurrent biases, the bias of the attention, and the embedding of
    `padding` are 0. The scale of the attention is 1 / √h (reference gnmt.py, attention.py).
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
