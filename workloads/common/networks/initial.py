"""Initial weights, computed as a hash of (seed, parameter name, element index).

The initial weights are therefore identical in every framework.
"""

from __future__ import annotations

import math

import numpy as np

from workloads.api import Array
from workloads.common.quantiles import inverse_normal
from workloads.common.randomness import bits, normal, stream, uniform

_CHUNK = 1 << 22
"""Number of elements that are drawn at a time. This chunk size limits the memory of the uint64
hashes to 32 MiB.
"""
TRUNCATED_DEVIATION = 0.87962566103423978
"""Standard deviation of a standard normal variable truncated at ±2."""
_BELOW = 0.022750131948179195
"""Probability that a standard normal variable is below -2."""


def draw(seed: int, name: str, shape: tuple[int, ...], kind: str, scale: float) -> Array:
    """Draw a float32 array of `shape`. Element i depends only on (seed, name, i).

    Args:
        seed: Seed of the run.
        name: Name of the parameter.
        shape: Shape of the array.
        kind: Distribution: `normal`, `truncated`, or `uniform`. `normal` has standard deviation
            `scale`. `truncated` is a normal distribution that is truncated at two standard
            deviations and rescaled to the standard deviation `scale`. `uniform` has the range
            ±`scale`.
        scale: Standard deviation of `normal` and `truncated`, or half the range of `uniform`.

    Raises:
        ValueError: `kind` is not one of the three distributions.
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
    raise ValueError(f"kind={kind}: allowed: normal, truncated, uniform")
