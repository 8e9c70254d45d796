"""Layers of Llama 3.1: shapes, initial weights, and rotary frequencies, without a framework.

Parameters have the names of the layers. The rows of queries, keys, and values are stacked in a
single matrix, and so are the rows of the gate and of the up projection. Matrices are (outputs,
inputs).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from workloads.api import Array, Json
from workloads.common.arrays import Float32s, Float64s
from workloads.common.randomness import bits, normal, stream

ROPE_LOW_FACTOR, ROPE_HIGH_FACTOR = 1.0, 4.0
"""Bounds of the frequency rescaling of Llama 3.1 (NeMo 2.1.0, `apply_rope_scaling`)."""
REFERENCE_PARAMETERS = 8_030_261_248
"""Number of parameters of the reference model, without padding of the vocabulary."""
_ROWS_AT_A_TIME = 1 << 12
"""Number of rows of a matrix that are drawn at a time, which limits the memory."""


@dataclass(frozen=True)
class Network:
    """Sizes of a Llama model."""

    vocabulary: int
    layers: int
    hidden: int
    feed_forward: int
    heads: int
    key_value_heads: int
    rope_base: float
    rope_factor: float
    rope_original_length: int
    initial_deviation: float
    sequence_length: int

    @classmethod
    def of(cls, model: Mapping[str, Json]) -> Network:
        """Return the sizes in a model of settings.py."""
        return cls(**model)

    @property
    def head_size(self) -> int:
        """Return the number of values of a head."""
        return self.hidden // self.heads

    @property
    def split(self) -> tuple[int, int, int]:
        """Return the numbers of rows of queries, keys, and values in the stacked matrix."""
        of_keys = self.key_value_heads * self.head_size
        return self.heads * self.head_size, of_keys, of_keys

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each parameter by its canonical name."""
        found: dict[str, tuple[int, ...]] = {"embedding.weight": (self.vocabulary, self.hidden)}
        for number in range(1, self.layers + 1):
            attention, feed_forward = f"layer{number}.attention", f"layer{number}.feed_forward"
            found |= {
                f"{attention}.norm.weight": (self.hidden,),
                f"{attention}.query_key_value.weight": (sum(self.split), self.hidden),
                f"{attention}.output.weight": (self.hidden, self.heads * self.head_size),
                f"{feed_forward}.norm.weight": (self.hidden,),
                f"{feed_forward}.gate_up.weight": (2 * self.feed_forward, self.hidden),
                f"{feed_forward}.down.weight": (self.hidden, self.feed_forward),
            }
        return found | {
            "norm.weight": (self.hidden,),
            "classifier.weight": (self.vocabulary, self.hidden),
        }

    def parameter_count(self) -> int:
        """Return the number of parameters."""
        return sum(math.prod(shape) for shape in self.shapes().values())

    def rope_frequencies(self) -> Float64s:
        """Return the angular frequency of each pair of values of a head, (head_size / 2,).

        Low frequencies are divided by `rope_factor`, and frequencies between the bounds are
        interpolated (NeMo 2.1.0, `apply_rope_scaling`).
        """
        exponents = np.arange(0, self.head_size, 2, dtype=np.float64) / self.head_size
        frequencies = self.rope_base**-exponents
        if self.rope_factor == 1:
            return frequencies
        wavelengths = 2 * math.pi / frequencies
        kept = np.clip(
            (self.rope_original_length / wavelengths - ROPE_LOW_FACTOR)
            / (ROPE_HIGH_FACTOR - ROPE_LOW_FACTOR),
            0.0,
            1.0,
        )
        return np.asarray((1 - kept) * frequencies / self.rope_factor + kept * frequencies)

    def rotations(self) -> tuple[Float32s, Float32s]:
        """Return cosines and sines of the rotary embedding, each (sequence_length, head_size / 2).

        The angles are computed in float64.
        """
        angles = np.arange(self.sequence_length)[:, None] * self.rope_frequencies()
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def deviation(self, name: str) -> float:
        """Return the standard deviation of the initial values of a matrix.

        The deviation of matrices whose output is added to the residual stream is smaller by the
        factor 1 / √(2 · layers) (Megatron core 0.11.0, `scaled_init_method_normal`).
        """
        is_residual = name.endswith(("attention.output.weight", "feed_forward.down.weight"))
        return self.initial_deviation / (math.sqrt(2 * self.layers) if is_residual else 1.0)

    def initial_rows(self, name: str, seed: int, first: int, stop: int) -> Float32s:
        """Return the initial values of some rows of a parameter.

        Each value depends on the seed, the name, and its position only. Therefore, a process that
        holds a part of a parameter draws only its rows.

        Args:
            name: Canonical name of the parameter.
            seed: Seed of the run.
            first: First row.
            stop: Row after the last row.
        """
        shape = self.shapes()[name]
        if len(shape) == 1:
            return np.ones(stop - first, np.float32)
        index = np.arange(first * shape[1], stop * shape[1])
        values = normal(bits(stream(seed, name), index)) * np.float32(self.deviation(name))
        return np.asarray(values, np.float32).reshape(stop - first, shape[1])

    def initial_weights(self, seed: int) -> Iterator[tuple[str, Array]]:
        """Yield the name and the initial float32 values of each parameter."""
        for name, shape in self.shapes().items():
            parts = [
                self.initial_rows(name, seed, first, min(first + _ROWS_AT_A_TIME, shape[0]))
                for first in range(0, shape[0], _ROWS_AT_A_TIME)
            ]
            yield name, parts[0] if len(parts) == 1 else np.concatenate(parts)
