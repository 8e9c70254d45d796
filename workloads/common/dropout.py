"""Dropout masks that are computed from a hash.

The dropout masks do not depend on the framework, the number of devices, or the other samples of the
batch.
"""

from __future__ import annotations

import numpy as np

from workloads.common.arrays import Float32s, Int64s
from workloads.common.randomness import bits, stream

DRAWS = 4
"""Number of 16-bit random numbers per hash."""
RANGE = 1 << 16
"""Number of possible values of a 16-bit random number."""


def threshold(rate: float) -> int:
    """Return the threshold below which a 16-bit random number drops an activation.

    The drop probability that results from the threshold differs from `rate` by at most 1 / 131,072.
    """
    return round(rate * RANGE)


def keys(seed: int, epoch: int, samples: Int64s) -> Int64s:
    """Return the mask keys (B,) of samples in an epoch. Keys are never negative.

    Args:
        seed: Seed of the run.
        epoch: Number of the epoch.
        samples: Indices (B,) of the samples in the training set.
    """
    return (bits(stream(seed, "dropout", epoch), samples) >> np.uint64(1)).view(np.int64)


def multipliers(keys: Int64s, label: str, positions: int, width: int, rate: float) -> Float32s:
    """Return the dropout factors for activations (positions, B, width).

    A factor is 0 with probability `rate`, otherwise 1 / (1 - rate).

    The mask of a sample depends only on the sample's key and the label. The mask of a position does
    not depend on the number of positions, so padding does not change the mask.

    Args:
        keys: Keys (B,) of the samples for this epoch. Keys must not be negative.
        label: Label that distinguishes the masks of one step.
        positions: Number of positions.
        width: Number of activations per position, a multiple of 4.
        rate: Probability that a factor is 0.
    """
    return multipliers_at(keys[None, :], np.arange(positions)[:, None], label, width, rate)


def multipliers_at(
    keys: Int64s, positions: Int64s, label: str, width: int, rate: float
) -> Float32s:
    """Return the factors of `multipliers` at individual positions, with shape (…, width).

    The shapes of `keys` (…) and `positions` (…) are broadcast against each other.
    """
    assert width % DRAWS == 0, width
    random = bits(
        stream(0, f"dropout/{label}"),
        keys[..., None],
        positions[..., None],
        np.arange(width // DRAWS),
    )
    kept = random.astype("<u8", copy=False).view("<u2") >= threshold(rate)
    factors = kept.astype(np.float32)
    factors *= np.float32(1 / (1 - rate))
    return factors
