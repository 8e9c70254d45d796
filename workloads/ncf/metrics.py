"""HR@10: the share of users whose held-out item is among the ten best of 1,000 candidates."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from workloads.common.arrays import Bools, Integers

TOP = 10
"""Ranks that count as a hit (v0.5 rules)."""


def hits(logits: npt.NDArray[np.floating], items: Integers, top: int = TOP) -> Bools:
    """True (u,) where the test item is among the `top` best candidates.

    logits (u, c) and items (u, c): column 0 is the test item, the others are the negatives in ascending order of item,
    so that repeats are neighbours; the first of them stands for all. A repeated candidate counts once and a copy of the
    test item not at all. The test item loses ties; its own NaN is a miss, and a negative's NaN ranks above it.
    """
    test, negatives = items[:, :1], items[:, 1:]
    score = logits[:, :1]
    ahead = ~(logits[:, 1:] < score)
    np.logical_and(ahead, negatives != test, out=ahead)
    np.logical_and(ahead[:, 1:], negatives[:, 1:] != negatives[:, :-1], out=ahead[:, 1:])
    hit = np.count_nonzero(ahead, axis=1) < top
    return np.asarray(np.logical_and(hit, ~np.isnan(score[:, 0])))


def hit_rate(hit: Bools) -> float:
    """HR@10 of all users' hits (n,): a number in [0, 1]."""
    if hit.size == 0:
        raise ValueError("no user was evaluated")
    return int(np.count_nonzero(hit)) / int(hit.size)
