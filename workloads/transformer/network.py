"""Layers of the Transformer: names, sizes, initial weights, positions, mask labels.

This module does not depend on a framework.

The Transformer is pre-norm: each sub-layer adds dropout(f(norm(x))) to its input x, and a final
layer norm follows the encoder and the decoder. A single table of V · d elements is the embedding of
both languages and the weight of the classifier (reference model/transformer.py, attention_layer.py,
embedding_layer.py).

All trainers use these symbols: B sentences per replica, S source and T target positions including
padding, R positions without padding (rows), d hidden units, H heads of e = d / H units, V tokens of
the vocabulary. The queries of the attention are scaled by 1 / √e.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from workloads.api import Array, Json
from workloads.common.dropout import DRAWS
from workloads.common.networks.initial import draw

EPSILON = 1e-6
"""Epsilon of the layer norms (reference model/transformer.py)."""
LONGEST_WAVE = 1e4
"""Longest time scale of the position encoding.

The shortest time scale is 1 (reference model/model_utils.py).
"""
STACKED = {"query_key_value": 3, "key_value": 2}
"""Number of projections that a single stacked matrix contains, by layer name.

Each projection is initialized as a separate matrix.
"""

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Network:
    """Sizes of the Transformer."""

    vocabulary: int
    """Number V of tokens in the vocabulary."""
    hidden: int
    """Number d of hidden units."""
    feed_forward: int
    layers: int
    """Number of layers in the encoder. The decoder has the same number of layers."""
    heads: int
    """Number H of attention heads. H must be a multiple of 4 that divides d."""
    dropout: float
    """Dropout rate of token embeddings, sub-layer outputs, attention weights, and ReLU outputs."""

    @property
    def scale(self) -> float:
        """Return the factor that scales the token embeddings."""
        return math.sqrt(self.hidden)


def build(model: Mapping[str, Json], vocabulary: int, dropout: float) -> Network:
    """Return the network of `settings.model` for `vocabulary` tokens."""
    sizes = {name: int(model[name]) for name in ("hidden", "feed_forward", "layers", "heads")}
    assert sizes["hidden"] % (2 * sizes["heads"]) == 0, sizes
    assert sizes["heads"] % DRAWS == 0, sizes
    return Network(vocabulary, dropout=dropout, **sizes)


def shapes(network: Network) -> Shapes:
    """Return the shape of every parameter by name, in parameter order.

    Matrices are (outputs, inputs).
    """
    hidden = network.hidden
    shape_of: Shapes = {"embedding.weight": (network.vocabulary, hidden)}
    for side, attentions in (
        ("encoder", ("self_attention",)),
        ("decoder", ("self_attention", "cross_attention")),
    ):
        for number in range(1, network.layers + 1):
            for attention in attentions:
                shape_of |= _norm(f"{side}{number}.{attention}.norm", hidden)
                inputs = (
                    {"query_key_value": 3}
                    if attention == "self_attention"
                    else {"query": 1, "key_value": 2}
                )
                for name, parts in {**inputs, "output": 1}.items():
                    shape_of[f"{side}{number}.{attention}.{name}.weight"] = (parts * hidden, hidden)
            shape_of |= _feed_forward(f"{side}{number}.feed_forward", network)
        shape_of |= _norm(f"{side}_norm", hidden)
    return shape_of


def _norm(name: str, hidden: int) -> Shapes:
    return {f"{name}.weight": (hidden,), f"{name}.bias": (hidden,)}


def _feed_forward(name: str, network: Network) -> Shapes:
    inner, hidden = network.feed_forward, network.hidden
    return {
        **_norm(f"{name}.norm", hidden),
        f"{name}.inner.weight": (inner, hidden),
        f"{name}.inner.bias": (inner,),
        f"{name}.outer.weight": (hidden, inner),
        f"{name}.outer.bias": (hidden,),
    }


def mask_widths(network: Network) -> dict[str, int | None]:
    """Return the number of factors per position in each dropout mask, by mask label.

    For masks of attention weights, the mapping contains None.
    """
    widths: dict[str, int | None] = {
        "source/embedding": network.hidden,
        "target/embedding": network.hidden,
    }
    for side, attentions in (("encoder", ("self",)), ("decoder", ("self", "cross"))):
        for number in range(1, network.layers + 1):
            layer = f"{side}{number}"
            for kind in attentions:
                widths |= {f"{layer}/{kind}/weights": None, f"{layer}/{kind}": network.hidden}
            widths |= {
                f"{layer}/relu": network.feed_forward,
                f"{layer}/feed_forward": network.hidden,
            }
    return widths


def parameter_counts(network: Network) -> dict[str, int]:
    """Return the number of parameters in `embedding`, `encoder`, and `decoder`.

    The numbers include layer norms. The reference has 210,804,736 parameters in total.
    """
    counts = dict.fromkeys(("embedding", "encoder", "decoder"), 0)
    for name, shape in shapes(network).items():
        counts[next(part for part in counts if name.startswith(part))] += math.prod(shape)
    return counts


def initial_weights(network: Network, seed: int) -> Iterator[tuple[str, Array]]:
    """Yield (name, float32 array) for every parameter, identical in every framework.

    The embedding is normal with standard deviation d^-0.5. Matrices are uniform in ±√(6 / (inputs +
    outputs)) (Glorot). The scales of layer norms are 1, and biases are 0 (reference
    embedding_layer.py, transformer.py).
    """
    for name, shape in shapes(network).items():
        if name == "embedding.weight":
            yield name, draw(seed, name, shape, "normal", network.hidden**-0.5)
        elif len(shape) == 1:
            yield name, np.full(shape, 1.0 if name.endswith("norm.weight") else 0.0, np.float32)
        else:
            parts = STACKED.get(name.split(".")[-2], 1)
            size = (shape[0] // parts, shape[1])
            limit = math.sqrt(6 / sum(size))
            drawn = [
                draw(seed, f"{name}/{part}" if part else name, size, "uniform", limit)
                for part in range(parts)
            ]
            yield name, np.concatenate(drawn)


def positions(length: int, hidden: int) -> Array:
    """Return the position encoding (length, d) that is added to the token embeddings.

    The array is float32. The first half of its columns are sines, and the second half are cosines.
    The time scales form a geometric sequence from 1 to 10,000, including both (reference
    model_utils.get_position_encoding).
    """
    scales = np.exp(np.arange(hidden // 2) * (-math.log(LONGEST_WAVE) / (hidden // 2 - 1)))
    angles = np.arange(length)[:, None] * scales
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
