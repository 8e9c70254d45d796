"""Dropout masks as a hash: the same in every framework, on any number of devices, in batches of any make-up."""

from __future__ import annotations

import numpy as np

from workloads.common.arrays import Float32s, Int64s
from workloads.common.randomness import bits, stream

DRAWS = 4
"""Random numbers of 16 bits that one hash gives."""
RANGE = 1 << 16


def threshold(rate: float) -> int:
    """Draws of 16 bits below this are dropped: `rate` to within 1 / 131,072."""
    return round(rate * RANGE)


def keys(seed: int, epoch: int, samples: Int64s) -> Int64s:
    """(B,) keys of the masks of samples, by their numbers in the training set (B,), in an epoch; not negative."""
    return (bits(stream(seed, "dropout", epoch), samples) >> np.uint64(1)).view(np.int64)


def multipliers(keys: Int64s, label: str, positions: int, width: int, rate: float) -> Float32s:
    """What activations (positions, B, width) are multiplied by: 0 with probability `rate`, else 1 / (1 - rate).

    `keys` (B,), not negative: one for each sample and epoch. `label`: tells masks of one step apart. A sample's mask depends on
    nothing but these, its positions on no others: padding to another length changes none. `width`: a multiple of 4.
    """
    return multipliers_at(keys[None, :], np.arange(positions)[:, None], label, width, rate)


def multipliers_at(keys: Int64s, positions: Int64s, label: str, width: int, rate: float) -> Float32s:
    """The same (…, width) for the samples with these keys (…) at these positions (…), which broadcast against each other."""
    assert width % DRAWS == 0, width
    random = bits(stream(0, f"dropout/{label}"), keys[..., None], positions[..., None], np.arange(width // DRAWS))
    kept = random.astype("<u8", copy=False).view("<u2") >= threshold(rate)
    factors = kept.astype(np.float32)
    factors *= np.float32(1 / (1 - rate))
    return factors
