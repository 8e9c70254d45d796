"""Initial weights as a hash of (seed, name, element): the same bytes in every framework."""

from __future__ import annotations

import math

import numpy as np

from workloads.api import Array
from workloads.common.quantiles import inverse_normal
from workloads.common.randomness import bits, normal, stream, uniform

_CHUNK = 1 << 22
"""Elements drawn at a time: bounds the memory of the uint64 hashes to 32 MiB."""
TRUNCATED_DEVIATION = 0.87962566103423978
"""Standard deviation of a standard normal variable cut off at ±2."""
_BELOW = 0.022750131948179195
"""Probability of a standard normal variable below -2."""


def draw(seed: int, name: str, shape: tuple[int, ...], kind: str, scale: float) -> Array:
    """float32 of `shape`; element i depends on (seed, name, i) alone.

    `kind`: `normal` (standard deviation `scale`), `truncated` (normal, cut off at twice its deviation, so widened that
    its standard deviation is `scale`), `uniform` (in ±scale). Raises ValueError for another kind.
    """
    key, size = stream(seed, f"weights/{name}"), math.prod(shape)
    out = np.empty(size, np.float32)
    for first in range(0, size, _CHUNK):
        random = bits(key, np.arange(first, min(first + _CHUNK, size)))
        out[first : first + len(random)] = _values(random, kind) * scale
    return out.reshape(shape)


def _values(random: np.ndarray, kind: str) -> np.ndarray:
    if kind == "normal":
        return normal(random, np.float64)
    if kind == "uniform":
        return uniform(random) * 2 - 1
    if kind == "truncated":
        return inverse_normal(_BELOW + uniform(random) * (1 - 2 * _BELOW)) / TRUNCATED_DEVIATION
    raise ValueError(f"kind {kind}: one of normal, truncated, uniform")
