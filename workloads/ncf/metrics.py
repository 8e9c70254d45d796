"""HR@10: fraction of users whose test item is among the best 10 of 1,000 candidates."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from workloads.common.arrays import Bools, Integers

TOP = 10
"""Number of best ranks that count as a hit (v0.5 rules)."""


def hits(logits: npt.NDArray[np.floating], items: Integers, top: int = TOP) -> Bools:
    """Return whether each user's test item is among the `top` best candidates, (u,).

    A repeated candidate is ranked once, with the score of its first copy. Copies of the test item
    are ignored. If a candidate and the test item have equal scores, the candidate ranks higher. If
    the score of the test item is NaN, the test item is a miss. A negative item with a NaN score
    ranks above the test item.

    Args:
        logits: Scores (u, c) of the candidates.
        items: Candidates (u, c): the test item in column 0, then the negatives in ascending order,
            so that repeated items are adjacent.
        top: Number of best ranks that count as a hit.
    """
    test, negatives = items[:, :1], items[:, 1:]
    score = logits[:, :1]
    ahead = ~(logits[:, 1:] < score)
    np.logical_and(ahead, negatives != test, out=ahead)
    np.logical_and(ahead[:, 1:], negatives[:, 1:] != negatives[:, :-1], out=ahead[:, 1:])
    hit = np.count_nonzero(ahead, axis=1) < top
    return np.asarray(np.logical_and(hit, ~np.isnan(score[:, 0])))


def hit_rate(hit: Bools) -> float:
    """Return HR@10 as a fraction, computed from the hits (n,) of all users.

    Raises:
        ValueError: `hit` is empty.
    """
    if hit.size == 0:
        raise ValueError("no user was evaluated")
    return int(np.count_nonzero(hit)) / int(hit.size)
