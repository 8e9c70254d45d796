"""Scaling model: time per epoch by devices and batch, fitted to published results.

The model describes a family of results. All results of a family were measured on the same machine
type with the same software. For `n` devices with `b` samples per device:

    devices × seconds per epoch = c · (1 + b_half / b) · n^p

`c` is a constant of the family. `b_half` (in samples) describes the fixed cost of a step: for a
step time of t0 + c·b, `b_half` is t0 / c. `p` describes how the waiting time grows with the number
of devices. All families of a workload have the same `b_half` and `p`. The residuals of a family are
modeled as a random walk over log2 b, plus an independent error of each result.

The model does not fit a single `b_half` and a single `p`. A prediction is the mean over a grid of
pairs (`b_half`, `p`), weighted by the likelihood of all other results. The scale of a family's
residuals has a Student t distribution, so that outliers have little influence.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suite.results.columns import Result
from suite.results.experiment_key import key
from suite.results.names import accelerator_chip
from suite.results.published_results import ARTICLE, SHIPPED
from suite.results.scores import published_results

WORKLOADS = ("resnet50", "ssd", "maskrcnn", "gnmt", "transformer")
"""Workloads with published results on several device counts, up to round v4.0.

NCF is excluded, because all NCF submissions used a single node.
"""
LATER_WORKLOADS = (
    "bert", "dlrm_dcnv2", "flux1", "llama2_70b_lora", "llama31_405b", "llama31_8b", "retinanet",
    "rgat", "stable_diffusion",
)  # fmt: skip
"""Workloads of rounds v4.1 to v5.1, whose results the constants of the model were not chosen on."""
MODEL_PARALLEL = frozenset({"gpt3", "llama2_70b_lora", "llama31_405b", "llama31_8b"})
"""Workloads for which several devices may train on one sample together."""
TOKENS_PER_SENTENCE = 30.0
"""Approximate mean length of a WMT'14 sentence in tokens.

Transformer's batch size in tokens is divided by this length to get the batch size in sentences.
"""
CONSTANTS_UP_TO = (ARTICLE, "v0.5", "v0.6", "v0.7", "v1.1")
"""Rounds to which the fixed constants of the model were fitted. The model is tested with later
rounds.
"""
_NVIDIA_NAMES = re.compile(
    r"\b(nvidia|tesla|geforce|quadro|titan|rtx|dgx|gh200|gb[23]00|[bh][12]00|h[28]00|b300|h20|v100s?|[pa]100|a800|"
    r"a10g?|a16|a2|a[34]0|l20|l40?s?|p40?|t4|k80)\b",
    re.IGNORECASE,
)
"""Matches names of NVIDIA GPUs. Other programs log names such as `A100-SXM4-40GB` without the
vendor.
"""


@dataclass(frozen=True)
class Observation:
    """Time per epoch on a number of devices. The time includes evaluation.

    The batch size per device is in samples (sentences for text).
    """

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
        """Return devices × seconds per epoch, which is constant under linear scaling."""
        return self.seconds_per_epoch * self.devices


Family = tuple[Observation, ...]
"""Observations of results that differ only in devices and batch size, sorted by devices."""


def samples_per_batch_unit(result: Result) -> float | None:
    """Return the number of samples per batch unit.

    For a batch size in samples, the number is 1. For a batch size in tokens, the number is sentence
    pairs per token. Returns None if the logs do not contain the number.
    """
    if result.batch_unit in ("", "samples"):
        return 1.0
    units = (result.steps or 0) * (result.global_batch_size or 0)
    return result.samples / units if result.samples and units else None


def observation(result: Result) -> Observation | None:
    """Convert a result to an observation.

    Returns None if the time per epoch, the batch size, or the number of devices is unknown, or if
    there is less than one sample per device. With less than one sample per device, some devices are
    idle, as for Mask R-CNN on 48 nodes. Workloads with model parallelism are an exception. For a
    result that counts training in samples, an epoch is one sample.
    """
    batch = result.global_batch_size or 0
    if not result.seconds_per_epoch or not result.devices or not batch:
        return None
    if batch < result.devices and result.workload not in MODEL_PARALLEL:
        return None
    default_samples = 1 / TOKENS_PER_SENTENCE if result.batch_unit.startswith("token") else 1.0
    samples = batch * (samples_per_batch_unit(result) or default_samples)
    return Observation(
        workload=result.workload,
        devices=result.devices,
        batch_per_device=samples / result.devices,
        seconds_per_epoch=result.seconds_per_epoch,
        round=result.round,
        name=result.run,
        submitter=result.submitter,
        accelerator=accelerator_chip(result.device_name or result.device),
    )


def published_families(
    workloads: Sequence[str] = WORKLOADS,
) -> tuple[list[Family], dict[str, int]]:
    """Return the families of shipped results of `workloads` on several device counts.

    The second return value maps each reason to the number of results that were omitted for this
    reason.

    The families contain closed-division results on NVIDIA GPUs. Results that a user adds do not
    change the constants or the validation. If a family has several entries on a device count, only
    the entry with the fastest time per epoch is used. Logs that were submitted again in a later
    round are used once.
    """
    omitted: Counter[str] = Counter()
    by_family: dict[object, dict[int, Observation]] = {}
    for result in published_results((SHIPPED,)):
        if result.workload not in workloads:
            continue
        observed = observation(result)
        reason = why_not_covered(result) or _repeated_reason(result)
        if reason or observed is None:
            has_idle_devices = result.global_batch_size and result.global_batch_size < (
                result.devices or 0
            )
            unknown = (
                "Mask R-CNN with fewer images than devices"
                if has_idle_devices
                else "batch or time per epoch not known"
            )
            omitted[reason or unknown] += 1
            continue
        by_devices = by_family.setdefault(key(result, "gpus", "batch"), {})
        fastest = by_devices.get(observed.devices)
        omitted["slower than another entry on as many devices"] += fastest is not None
        if fastest is None or observed.seconds_per_epoch < fastest.seconds_per_epoch:
            by_devices[observed.devices] = observed
    families = [
        tuple(by_devices[devices] for devices in sorted(by_devices))
        for by_devices in by_family.values()
        if len(by_devices) > 1
    ]
    omitted["the only device count of its family"] = len(by_family) - len(families)
    return families, dict(omitted.most_common())


def _repeated_reason(result: Result) -> str:
    """Return the reason to omit a result whose logs were submitted in an earlier round.

    The string is empty for all other results.
    """
    line = result.attempts[0].printed or {}
    return "logs of an earlier round again" if line.get("first_entry") else ""


def why_not_covered(result: Result) -> str:
    """Return the reason why the model cannot be used for a published result.

    The string is empty if the model can be used, and for all runs of this suite. Runs of this suite
    on GPUs always use NVIDIA GPUs.
    """
    if result.profile:
        return ""
    if "open" in result.division:
        return "open division"
    return "" if _NVIDIA_NAMES.search(result.device_name or result.device) else "no NVIDIA GPU"


def families_of_workload(families: Iterable[Family], workload: str) -> list[Family]:
    """Return the families of a workload."""
    return [family for family in families if family[0].workload == workload]


Array = NDArray[np.float64]
RESULT_SPREAD = 0.03
"""Standard deviation of log(time) between equal results.

The values of RESULT_SPREAD, DRIFT, and FREEDOM together maximize the mean likelihood over the grid
of all workloads. They were fitted only to the rounds up to v1.1. The search compared 5 × 6 × 4
combinations, and a test compares the result with the neighboring combinations.
"""
DRIFT = 4.0
"""Variance of the random walk for each doubling of the batch size per device, in units of
RESULT_SPREAD squared.
"""
FREEDOM = 3.0
"""Degrees of freedom of the Student t distribution of the scale of a family's residuals."""
LEVEL = 0.90
"""Fraction of results that a prediction interval should contain."""
INTERVAL_FACTOR = 1.70
"""Half width of a prediction interval in units of `ModelPrediction.spread`.

With this factor, the intervals contain the fraction LEVEL of the held-out results
(suite.results.predict.validate).
"""
LATER_INTERVAL_FACTORS: Mapping[str, float] = {
    "dlrm_dcnv2": 2.99,
    "llama2_70b_lora": 2.33,
    "llama31_8b": 2.39,
    "retinanet": 2.68,
    "rgat": 6.22,
}
"""The same for the later workloads for which INTERVAL_FACTOR gives intervals that are too narrow.

Each value contains LEVEL of the held-out results of the workload, rounded up.
"""


@dataclass(frozen=True)
class Grid:
    """Grid of pairs (b_half, p) of a model.

    `b_half` is in samples, and `exponent` (p) has no unit. Both arrays have shape (pairs,).
    """

    b_half: Array
    exponent: Array

    @classmethod
    def of(cls, b_half: ArrayLike, exponent: ArrayLike) -> Grid:
        """Return the grid of all pairs of two lists of values."""
        return cls(*(values.ravel() for values in np.meshgrid(b_half, exponent, indexing="ij")))

    def shape(self, observed: Observation) -> Array:
        """Return log((1 + b_half / b) · n^p) for each pair of the grid, shape (pairs,)."""
        fixed_cost = np.log1p(self.b_half / observed.batch_per_device)
        return np.asarray(fixed_cost + self.exponent * math.log(observed.devices))


MODEL_GRID = Grid.of(np.geomspace(0.1, 1000.0, 50), np.arange(0.0, 0.2001, 0.01))
"""Grid of the scaling model. b_half ranges from 0.1 to 1,000 samples, and p from 0 (no waiting)
to 0.2 (each doubling of the devices costs 13 % of a device's throughput).
"""
_GRIDS: Mapping[str, Grid] = {
    **dict.fromkeys(
        sorted(MODEL_PARALLEL), Grid.of(np.geomspace(0.001, 10.0, 50), np.arange(0.0, 0.2001, 0.01))
    ),
    **dict.fromkeys(
        ("dlrm_dcnv2", "rgat"),
        Grid.of(np.geomspace(10.0, 100_000.0, 50), np.arange(0.0, 0.2001, 0.01)),
    ),
}
"""Grids of workloads whose batches per device are outside the range of MODEL_GRID.

Published batches per device are 0.04 to 4 sequences, and 1,024 to 20,000 samples.
"""
LINEAR_GRID = Grid.of([0.0], [0.0])
"""Grid of perfect scaling: the time is inversely proportional to the number of devices at every
batch size.
"""
POWER_GRID = Grid.of([0.0], np.arange(0.0, 0.6001, 0.01))
"""Grid of a power law: speedup = devices^(1 - p). All families of a workload have the same p."""


def grid_of(workload: str) -> Grid:
    """Return the grid of the scaling model of a workload."""
    return _GRIDS.get(workload, MODEL_GRID)


@dataclass(frozen=True)
class ModelPrediction:
    """Prediction of log(devices × seconds per epoch)."""

    center: float
    spread: float
    """Standard deviation of a predicted result before calibration. The standard deviation
    includes the error of `center`.
    """
    interval_factor: float = INTERVAL_FACTOR

    def seconds_per_epoch(self, devices: int) -> tuple[float, float, float]:
        """Return the predicted time per epoch on a number of devices, with its interval.

        The interval should contain the fraction LEVEL of all results.
        """
        half = self.interval_factor * self.spread
        middle, low, high = (
            math.exp(self.center + shift) / devices for shift in (0.0, -half, half)
        )
        return middle, low, high


class ScalingModel:
    """Likelihood of each pair (b_half, p) of the grid, given the families of a workload."""

    def __init__(
        self,
        families: Iterable[Family],
        grid: Grid = MODEL_GRID,
        spread: float = RESULT_SPREAD,
        drift: float = DRIFT,
        freedom: float = FREEDOM,
        interval_factor: float = INTERVAL_FACTOR,
    ) -> None:
        """Compute the likelihood of each pair (b_half, p) of the grid.

        Without families, all pairs are equally likely.
        """
        self.grid, self.spread, self.drift, self.freedom = grid, spread, drift, freedom
        self.interval_factor = interval_factor
        self.families = {family: self.log_likelihood(family) for family in families}
        self._total: Array = np.sum([np.zeros(len(grid.exponent)), *self.families.values()], axis=0)

    @property
    def constants(self) -> tuple[float, float]:
        """Return the most likely pair (b_half, p)."""
        best = self._total.argmax()
        return float(self.grid.b_half[best]), float(self.grid.exponent[best])

    def predict(
        self,
        observations: Sequence[Observation],
        target: Observation,
        without: Iterable[Family] = (),
    ) -> ModelPrediction:
        """Predict the time of `target` from observations of the same family.

        Args:
            observations: At least one observation from the family of `target`, in addition to the
                model's families.
            target: Devices and batch size to predict. The time of `target` is not used.
            without: Families that are removed from the model before the prediction. A validation
                removes the family of `target`.
        """
        left_out = sum(self.families.get(family, 0.0) for family in without)
        scores = self._total - left_out + self.log_likelihood(observations)
        weights = np.exp(scores - scores.max())
        weights /= weights.sum()
        mixing, variance = _kriging(observations, target, self.drift)
        centers = self._residuals(observations) @ mixing + self.grid.shape(target)
        center = float(weights @ centers)
        spread = math.sqrt(self.spread**2 * variance + float(weights @ (centers - center) ** 2))
        return ModelPrediction(center, spread, self.interval_factor)

    def log_likelihood(self, family: Sequence[Observation]) -> Array:
        """Return the log likelihood of each pair of the grid, shape (pairs,).

        The likelihood depends only on differences within a family, so the log likelihood is 0 for a
        single observation.
        """
        count, nu, variance = len(family) - 1, self.freedom, self.spread**2
        if count < 1:
            return np.zeros(len(self.grid.exponent))
        contrasts = np.diff(np.eye(count + 1), axis=0)
        lower = np.linalg.cholesky(contrasts @ _covariance(family, self.drift) @ contrasts.T)
        squares = (np.linalg.solve(lower, contrasts @ self._residuals(family).T) ** 2).sum(axis=0)
        constant = (
            math.lgamma((nu + count) / 2)
            - math.lgamma(nu / 2)
            - count / 2 * math.log(nu * math.pi * variance)
        )
        constant -= float(np.log(np.diag(lower)).sum())
        return np.asarray(constant - (nu + count) / 2 * np.log1p(squares / (nu * variance)))

    def _residuals(self, observations: Sequence[Observation]) -> Array:
        """Return log(device-seconds) minus `Grid.shape` for each pair and observation.

        The array has shape (pairs, observations).
        """
        rows = [
            math.log(observed.device_seconds) - self.grid.shape(observed)
            for observed in observations
        ]
        return np.stack(rows, axis=1)


def _covariance(observations: Sequence[Observation], drift: float) -> Array:
    """Return the covariance of the independent errors and the random walk.

    The unit is the variance of a single result, and the shape is (observations, observations). A
    constant that is common to all elements is omitted, because it cancels in differences.
    """
    position = np.log2([observed.batch_per_device for observed in observations])
    return np.asarray(
        np.eye(len(observations)) - drift / 2 * np.abs(position[:, None] - position[None, :])
    )


def _kriging(
    observations: Sequence[Observation], target: Observation, drift: float
) -> tuple[Array, float]:
    """Return the kriging weights of observations for a target, and the variance.

    The method is ordinary kriging, so the weights sum to 1. The unit of the variance is the
    variance of a single result.
    """
    ratios = [observed.batch_per_device / target.batch_per_device for observed in observations]
    distance = np.abs(np.log2(ratios))
    matrix = np.pad(_covariance(observations, drift), (0, 1), constant_values=1.0)
    matrix[-1, -1] = 0.0
    right = np.append(-drift / 2 * distance, 1.0)
    solved = np.linalg.solve(matrix, right)
    return solved[:-1], max(0.0, 1.0 - float(solved @ right))


@functools.cache
def published_model(workload: str) -> ScalingModel:
    """Return the scaling model of a workload, fitted to the shipped published results."""
    workloads = WORKLOADS if workload in WORKLOADS else LATER_WORKLOADS
    families = families_of_workload(published_families(workloads)[0], workload)
    factor = LATER_INTERVAL_FACTORS.get(workload, INTERVAL_FACTOR)
    return ScalingModel(families, grid_of(workload), interval_factor=factor)
