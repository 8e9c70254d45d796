"""The law of time per epoch over devices and batch, fitted to published rows.

For `n` devices with `b` samples each, in a family (one machine and its software) with the rate `c`:

    devices × seconds per epoch = c · (1 + b_half / b) · n^p

`b_half` (samples) is what a step costs besides its samples, t0 / c of a step t0 + c·b; `p` what each device adds in waiting
for others. Both are shared by all families of a workload; `c` is a family's own. What the law leaves unexplained drifts
over log2 b within a family (a random walk) and differs from row to row.

No single `b_half` and `p` is chosen: a prediction is the mean over a grid of both, weighted by how well each explains all other
rows. A family's scale has a Student t distribution, so that one odd row does not move the others.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suite.results.columns import Result
from suite.results.identity import key
from suite.results.names import accelerator_chip
from suite.results.published import ARTICLE, SHIPPED
from suite.results.scores import published_results

WORKLOADS = ("resnet50", "ssd", "maskrcnn", "gnmt", "transformer")
"""Workloads with published rows on several device counts (NCF was submitted on one node alone)."""
TOKENS_PER_SENTENCE = 30.0
"""Transformer's batch is counted in tokens: divided by about the mean length of a WMT'14 sentence it is one of sentences."""
CONSTANTS_UP_TO = (ARTICLE, "v0.5", "v0.6", "v0.7", "v1.1")
"""Rounds that the law's fixed constants were chosen on; later ones test it."""
_NVIDIAS = re.compile(
    r"\b(nvidia|tesla|geforce|quadro|titan|rtx|dgx|gh200|gb[23]00|[bh][12]00|h[28]00|b300|h20|v100s?|[pa]100|a800|"
    r"a10g?|a16|a2|a[34]0|l20|l40?s?|p40?|t4|k80)\b",
    re.IGNORECASE,
)
"""Whose GPU an accelerator's name means: other programs log `A100-SXM4-40GB` without the maker."""


@dataclass(frozen=True)
class Observation:
    """Time per epoch, evaluation included, on one number of devices with so many samples (sentences) each."""

    workload: str
    devices: int
    batch_per_device: float
    seconds_per_epoch: float
    round: str = ""
    name: str = ""
    submitter: str = ""
    accelerator: str = ""

    @property
    def device_seconds(self) -> float:
        """Seconds per epoch times devices: constant where scaling is linear."""
        return self.seconds_per_epoch * self.devices


Family = tuple[Observation, ...]
"""Observations of results that differ in devices and batch alone, in order of devices."""


def samples_per_batch_unit(row: Result) -> float | None:
    """Samples in one unit of the batch: 1, or sentence pairs a token as the runs had them; None where no log tells."""
    if row.batch_unit in ("", "samples"):
        return 1.0
    units = (row.steps or 0) * (row.batch_size_global or 0)
    return row.samples / units if row.samples and units else None


def observation(row: Result) -> Observation | None:
    """A result as an observation; None where time per epoch, batch or devices are not known, or where a device has less than
    a sample (Mask R-CNN on 48 nodes): a part of them trains nothing."""
    if not row.seconds_per_epoch or not row.devices or (row.batch_size_global or 0) < row.devices:
        return None
    each = samples_per_batch_unit(row) or (1 / TOKENS_PER_SENTENCE if row.batch_unit.startswith("token") else 1.0)
    batch, accelerator = (
        (row.batch_size_global or 0) * each / row.devices,
        accelerator_chip(row.device_name or row.device),
    )
    figures = (row.devices, batch, row.seconds_per_epoch)
    return Observation(row.workload, *figures, row.round, row.run, row.submitter, accelerator)


def published_families() -> tuple[list[Family], dict[str, int]]:
    """(families of two or more device counts among the shipped rows, reason to rows left out).

    Rows of the closed division on NVIDIA's GPUs; a user's own must not move the constants and the validation. Of several
    entries of a family on as many devices the fastest epoch counts. Logs submitted again in a later round count once.
    """
    left_out: Counter[str] = Counter()
    grouped: dict[object, dict[int, Observation]] = {}
    for row in (row for row in published_results((SHIPPED,)) if row.workload in WORKLOADS):
        seen = observation(row)
        reason = outside_of_the_law(row) or _repeated_reason(row)
        if reason or seen is None:
            few = row.batch_size_global and row.batch_size_global < (row.devices or 0)
            unknown = "Mask R-CNN with fewer images than devices" if few else "batch or time per epoch not known"
            left_out[reason or unknown] += 1
            continue
        family = grouped.setdefault(key(row, "gpus", "batch"), {})
        left_out["slower than another entry on as many devices"] += seen.devices in family
        family[seen.devices] = min(family.get(seen.devices, seen), seen, key=lambda one: one.seconds_per_epoch)
    families = [
        tuple(rows_by_devices[devices] for devices in sorted(rows_by_devices))
        for rows_by_devices in grouped.values()
        if len(rows_by_devices) > 1
    ]
    left_out["the only device count of its family"] = len(grouped) - len(families)
    return families, dict(left_out.most_common())


def _repeated_reason(row: Result) -> str:
    """Return a reason if the logs of a published result were submitted under another entry before; else an empty string."""
    line = row.attempts[0].printed or {}
    return "logs of an earlier round again" if line.get("first_entry") else ""


def outside_of_the_law(row: Result) -> str:
    """Why the law says nothing of a result, whatever its figures; empty if it does.

    Our own GPUs are all NVIDIA's, and of our own runs the division says only which hyperparameters they had.
    """
    if row.profile:
        return ""
    known = _NVIDIAS.search(row.device_name or row.device)
    return "open division" if "open" in row.division else "" if known else "no NVIDIA GPU"


def of_workload(families: Iterable[Family], workload: str) -> list[Family]:
    """The families of a workload."""
    return [family for family in families if family[0].workload == workload]


Array = NDArray[np.float64]
ROW_SPREAD = 0.03
"""Standard deviation of log time between equal rows. This and the next two: where the mean likelihood over the grid, of all
workloads, is highest on the rounds up to v1.1 alone (a grid of 5 × 6 × 4 values; a test looks at its neighbours)."""
DRIFT = 4.0
"""Variance of the random walk for a doubling of b, in units of ROW_SPREAD squared."""
FREEDOM = 3.0
"""Degrees of freedom of the t distribution of a family's scale."""
LEVEL = 0.90
"""Share of rows that an interval is meant to hold."""
INTERVAL_FACTOR = 1.70
"""Half width of an interval in `Predicted.spread`: held LEVEL of the held-out rows (suite.results.predict.validate)."""


@dataclass(frozen=True)
class Grid:
    """The pairs (b_half, p) that a law may take: `b_half` in samples, `exponent` without unit; arrays of one length."""

    b_half: Array
    exponent: Array

    @classmethod
    def of(cls, b_half: ArrayLike, exponent: ArrayLike) -> Grid:
        """All pairs of the two."""
        return cls(*(values.ravel() for values in np.meshgrid(b_half, exponent, indexing="ij")))

    def shape(self, row: Observation) -> Array:
        """log((1 + b_half / b) · n^p) for each pair."""
        return np.asarray(np.log1p(self.b_half / row.batch_per_device) + self.exponent * math.log(row.devices))


LAW = Grid.of(np.geomspace(0.1, 1000.0, 50), np.arange(0.0, 0.2001, 0.01))
"""Samples from 0.1 to 1,000, exponents from 0 (nobody waits) to 0.2 (13 % less from each device for every doubling)."""
LINEAR = Grid.of([0.0], [0.0])
"""Time falls as devices are added, whatever the batch."""
POWER = Grid.of([0.0], np.arange(0.0, 0.6001, 0.01))
"""speedup = devices^(1 - p), one p for a workload: what is usually drawn through such points."""


@dataclass(frozen=True)
class Predicted:
    """A prediction of log(devices × seconds per epoch)."""

    centre: float
    spread: float  # standard deviation of the centre and of a row, before calibration

    def seconds_per_epoch(self, devices: int) -> tuple[float, ...]:
        """(middle, low, high) for so many devices, the interval of LEVEL."""
        half = INTERVAL_FACTOR * self.spread
        return tuple(math.exp(self.centre + shift) / devices for shift in (0.0, -half, half))


class Fit:
    """A law for the families of one workload: how well each pair of the grid explains them."""

    def __init__(
        self, families: Iterable[Family], grid: Grid = LAW,
        spread: float = ROW_SPREAD, drift: float = DRIFT, freedom: float = FREEDOM,
    ) -> None:  # fmt: skip
        """Weigh the grid by `families` (may be empty: all pairs are equal then)."""
        self.grid, self.spread, self.drift, self.freedom = grid, spread, drift, freedom
        self.families = {family: self.log_likelihood(family) for family in families}
        self._total: Array = np.sum([np.zeros(len(grid.exponent)), *self.families.values()], axis=0)

    @property
    def constants(self) -> tuple[float, float]:
        """The most likely (b_half, p)."""
        best = self._total.argmax()
        return float(self.grid.b_half[best]), float(self.grid.exponent[best])

    def predict(self, known: Sequence[Observation], wanted: Observation, without: Iterable[Family] = ()) -> Predicted:
        """`wanted` from the `known` rows of its family, whose rows all must have times; its own time is not looked at.

        `without`: families of the fit to forget, in a validation the one that `wanted` belongs to. `known` counts anew.
        """
        scores = self._total - sum(self.families.get(one, 0.0) for one in without) + self.log_likelihood(known)
        weights = np.exp(scores - scores.max())
        weights /= weights.sum()
        mixing, variance = _kriging(known, wanted, self.drift)
        centres = self._residuals(known) @ mixing + self.grid.shape(wanted)
        centre = float(weights @ centres)
        return Predicted(centre, math.sqrt(self.spread**2 * variance + float(weights @ (centres - centre) ** 2)))

    def log_likelihood(self, rows: Sequence[Observation]) -> Array:
        """For each pair of the grid, of the differences between rows; a single row tells nothing."""
        count, nu, variance = len(rows) - 1, self.freedom, self.spread**2
        if count < 1:
            return np.zeros(len(self.grid.exponent))
        contrasts = np.diff(np.eye(count + 1), axis=0)
        lower = np.linalg.cholesky(contrasts @ _covariance(rows, self.drift) @ contrasts.T)
        squares = (np.linalg.solve(lower, contrasts @ self._residuals(rows).T) ** 2).sum(axis=0)
        constant = math.lgamma((nu + count) / 2) - math.lgamma(nu / 2) - count / 2 * math.log(nu * math.pi * variance)
        constant -= float(np.log(np.diag(lower)).sum())
        return np.asarray(constant - (nu + count) / 2 * np.log1p(squares / (nu * variance)))

    def _residuals(self, rows: Sequence[Observation]) -> Array:
        """(pairs of the grid, rows): log device-seconds less the law's shape."""
        return np.stack([math.log(row.device_seconds) - self.grid.shape(row) for row in rows], axis=1)


def _covariance(rows: Sequence[Observation], drift: float) -> Array:
    """(rows, rows) in units of the row's variance, up to a constant that differences do not see: independent + random walk."""
    place = np.log2([row.batch_per_device for row in rows])
    return np.asarray(np.eye(len(rows)) - drift / 2 * np.abs(place[:, None] - place[None, :]))


def _kriging(known: Sequence[Observation], wanted: Observation, drift: float) -> tuple[Array, float]:
    """Weights of the known rows (sum 1) for a row elsewhere, and its variance in units of a row's: ordinary kriging."""
    distance = np.abs(np.log2([row.batch_per_device / wanted.batch_per_device for row in known]))
    matrix = np.pad(_covariance(known, drift), (0, 1), constant_values=1.0)
    matrix[-1, -1] = 0.0
    right = np.append(-drift / 2 * distance, 1.0)
    solved = np.linalg.solve(matrix, right)
    return solved[:-1], max(0.0, 1.0 - float(solved @ right))


@functools.cache
def published_fit(workload: str) -> Fit:
    """Return the law of a workload, fitted to the shipped published rows."""
    return Fit(of_workload(published_families()[0], workload))
