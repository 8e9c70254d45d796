"""Permutation test: is a difference between two sets of runs larger than run-to-run variation?

The statistic is the difference of the means: if both sets came from one distribution, every assignment of the runs to the two
sets would be as likely as the observed one (Ernst, Permutation Methods, Statistical Science 19 (2004), 676-685).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

RESAMPLES = 100_000
"""Random assignments if there are more possible ones than this; otherwise all are counted."""
SEED = 20_181_212
"""Fixed, so that the same runs always give the same p value."""
SIGNIFICANCE = 0.05
"""Below this p value a difference is more than run-to-run variation."""
_ASSIGNMENTS_AT_A_TIME = 10_000
"""Random assignments held in memory at a time."""
_TIE = 1e-9
"""Sums closer than this fraction of the sum of all values count as equal: tables round to microseconds."""
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PermutationTest:
    """Result of the two-sided test for one quantity."""

    p: float
    smallest_p: float
    """The smallest p value that so many runs can give."""
    exact: bool
    """True if all assignments were counted."""
    runs_ours: int
    runs_theirs: int

    @property
    def significant(self) -> bool:
        """True if the difference is more than run-to-run variation."""
        return self.p < SIGNIFICANCE

    @property
    def can_be_significant(self) -> bool:
        """False if so few runs can give no p value below SIGNIFICANCE."""
        return self.smallest_p < SIGNIFICANCE

    @property
    def summary(self) -> str:
        """The result in words, without the size of the difference."""
        counts = f"{self.runs_ours} against {self.runs_theirs} runs"
        if not self.can_be_significant:
            return f"no difference that {counts} can show (smallest p these numbers allow: {self.smallest_p:.2g})"
        about = "" if self.exact else "about "
        if self.significant:
            return f"more than run-to-run variation (p = {about}{self.p:.2g}, {counts})"
        return f"not more than run-to-run variation (p = {about}{self.p:.2g}, {counts})"


def permutation_test(
    ours: Sequence[float], theirs: Sequence[float], resamples: int = RESAMPLES
) -> PermutationTest | None:
    """Test the difference of the means of two sets of runs; None if a set is empty or holds a value that is not finite.

    The p value is twice that of the smaller tail, at most 1. With random assignments the observed one is counted too.
    """
    if not ours or not theirs or not all(map(math.isfinite, (*ours, *theirs))):
        return None
    values: _Floats = np.array([*ours, *theirs], dtype=np.float64)
    assignments = math.comb(len(values), len(ours))
    exact = assignments <= resamples
    sums = _all_assignment_sums(values, len(ours)) if exact else _random_assignment_sums(values, len(ours), resamples)
    observed = float(values[: len(ours)].sum())
    tolerance = _TIE * float(np.abs(values).sum())
    extra = 0 if exact else 1
    tails = [int((sums <= observed + tolerance).sum()), int((sums >= observed - tolerance).sum())]
    return PermutationTest(
        p=min(1.0, 2 * (min(tails) + extra) / (len(sums) + extra)),
        smallest_p=min(1.0, 2 / assignments if exact else 2 / (resamples + 1)),
        exact=exact,
        runs_ours=len(ours),
        runs_theirs=len(theirs),
    )


def _all_assignment_sums(values: _Floats, count: int) -> _Floats:
    """Sum of the first set for every choice of `count` of `values`, shape (assignments,).

    With fixed sizes and a fixed total the difference of the means grows with this sum.
    """
    chosen = np.array(list(combinations(range(len(values)), count)))
    sums: _Floats = values[chosen].sum(axis=1)
    return sums


def _random_assignment_sums(values: _Floats, count: int, resamples: int) -> _Floats:
    """Sum of the first set for `resamples` random choices, shape (resamples,)."""
    random = np.random.default_rng(SEED)
    parts: list[_Floats] = []
    for start in range(0, resamples, _ASSIGNMENTS_AT_A_TIME):
        rows = min(_ASSIGNMENTS_AT_A_TIME, resamples - start)
        permuted = random.permuted(np.broadcast_to(values, (rows, len(values))), axis=1)
        parts.append(permuted[:, :count].sum(axis=1))
    return np.concatenate(parts)
