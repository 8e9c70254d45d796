"""Scaling model: time per epoch by devices and batch, fitted to published results.

The model applies to a family of results, that is, results of one machine and its software. For `n`
devices with `b` samples per device, and the constant `c` of the family:

    devices × seconds per epoch = c · (1 + b_half / b) · n^p

`b_half` (samples) is the fixed cost of a step: t0 / c for a step time of t0 + c·b. `p` is the
waiting time that each further device adds. All families of a workload share `b_half` and `p`, and
each family has its individual `c`. The residuals of a family are a random walk over log2 b and an
independent error of each result.

The model does not fit single values of `b_half` and `p`. A prediction is the mean over a grid of
(`b_half`, `p`), weighted by the likelihood of all other results. The scale of a family has a
Student t distribution, so that an outlier has little influence.
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

NCF is missing, because all of its submissions used a single node.
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

Transformer's batch in tokens is divided by this length to get a batch in sentences.
"""
CONSTANTS_UP_TO = (ARTICLE, "v0.5", "v0.6", "v0.7", "v1.1")
"""Rounds to which the fixed constants of the model were fitted. Later rounds are used for tests."""
_NVIDIA_NAMES = re.compile(
    r"\b(nvidia|tesla|geforce|quadro|titan|rtx|dgx|gh200|gb[23]00|[bh][12]00|h[28]00|b300|h20|v100s?|[pa]100|a800|"
    r"a10g?|a16|a2|a[34]0|l20|l40?s?|p40?|t4|k80)\b",
    re.IGNORECASE,
)
"""Names of NVIDIA GPUs. Foreign programs log names such as `A100-SXM4-40GB` without the vendor."""


@dataclass(frozen=True)
class Observation:
    """Time per epoch on a number of devices, including evaluation.

    The unit of the batch per device is samples (sentences).
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
        """Return seconds per epoch times devices, which is constant under linear scaling."""
        return self.seconds_per_epoch * self.devices


Family = tuple[Observation, ...]
"""Observations of results that differ only in devices and batch, sorted by devices."""


def samples_per_batch_unit(result: Result) -> float | None:
    """Return the number of samples per batch unit.

    The number is 1 for batches in samples, and the sentence pairs per token for batches in tokens.
    The function returns None if the logs do not contain the number.
    """
    if result.batch_unit in ("", "samples"):
        return 1.0
    units = (result.steps or 0) * (result.global_batch_size or 0)
    return result.samples / units if result.samples and units else None


def observation(result: Result) -> Observation | None:
    """Return a result as an observation.

    None if time per epoch, batch, or devices are unknown, or if there is less than a sample per
    device. Some devices are then idle (Mask R-CNN on 48 nodes), except in workloads with model
    parallelism. The epoch of a result that counts samples is one sample.
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
    """Return the families of shipped results of workloads on several device counts.

    The second return value is the number of omitted results by reason.

    The results are results of the closed division on NVIDIA GPUs. Results that a user adds do not
    change the constants or the validation. If a family has several entries on a device count, only
    the fastest time per epoch is used. Logs that were submitted again in a later round are used
    once.
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
    """Return the reason if a result's logs were already submitted in an earlier round.

    The reason is empty for all other results.
    """
    line = result.attempts[0].printed or {}
    return "logs of an earlier round again" if line.get("first_entry") else ""


def why_not_covered(result: Result) -> str:
    """Return why the model does not cover a published result.

    The reason is empty if the model covers the result. Runs of this suite on GPUs always use NVIDIA
    GPUs. Only the hyperparameters decide about the division of these runs.
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

RESULT_SPREAD, DRIFT, and FREEDOM together maximize the mean likelihood over the grid of all
workloads. Only the rounds up to v1.1 were used. The search covered 5 × 6 × 4 values, and a test
checks the neighboring values.
"""
DRIFT = 4.0
"""Variance of the random walk per doubling of b, in units of RESULT_SPREAD squared."""
FREEDOM = 3.0
"""Degrees of freedom of the Student t distribution of a family's scale."""
LEVEL = 0.90
"""Fraction of results that a prediction interval should contain."""
INTERVAL_FACTOR = 1.70
"""Half width of a prediction interval in units of `ModelPrediction.spread`.

Intervals of this width contain the fraction LEVEL of the held-out results
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
    """Grid of (b_half, p) values of a model.

    `b_half` is in samples, and `exponent` (p) has no unit. Both arrays have shape (pairs,).
    """

    b_half: Array
    exponent: Array

    @classmethod
    def of(cls, b_half: ArrayLike, exponent: ArrayLike) -> Grid:
        """Return the grid of all pairs of two lists of values."""
        return cls(*(values.ravel() for values in np.meshgrid(b_half, exponent, indexing="ij")))

    def shape(self, observed: Observation) -> Array:
        """Return log((1 + b_half / b) · n^p) for each pair, shape (pairs,)."""
        fixed_cost = np.log1p(self.b_half / observed.batch_per_device)
        return np.asarray(fixed_cost + self.exponent * math.log(observed.devices))


MODEL_GRID = Grid.of(np.geomspace(0.1, 1000.0, 50), np.arange(0.0, 0.2001, 0.01))
"""Grid of the scaling model: b_half from 0.1 to 1,000 samples, p from 0 (no waiting) to 0.2 (each
doubling costs 13 % of a device's throughput).
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
"""Grid of perfect scaling: time is inversely proportional to devices at every batch."""
POWER_GRID = Grid.of([0.0], np.arange(0.0, 0.6001, 0.01))
"""Grid of a power law: speedup = devices^(1 - p), with one p per workload."""


def grid_of(workload: str) -> Grid:
    """Return the grid of the scaling model of a workload."""
    return _GRIDS.get(workload, MODEL_GRID)


@dataclass(frozen=True)
class ModelPrediction:
    """Prediction of log(devices × seconds per epoch)."""

    center: float
    spread: float
    """Standard deviation of the center and of a result, before calibration."""
    interval_factor: float = INTERVAL_FACTOR

    def seconds_per_epoch(self, devices: int) -> tuple[float, float, float]:
        """Return the time per epoch on a number of devices, with its interval of LEVEL."""
        half = self.interval_factor * self.spread
        middle, low, high = (
            math.exp(self.center + shift) / devices for shift in (0.0, -half, half)
        )
        return middle, low, high


class ScalingModel:
    """Likelihood of each pair of the grid, given the families of a workload."""

    def __init__(
        self,
        families: Iterable[Family],
        grid: Grid = MODEL_GRID,
        spread: float = RESULT_SPREAD,
        drift: float = DRIFT,
        freedom: float = FREEDOM,
        interval_factor: float = INTERVAL_FACTOR,
    ) -> None:
        """Compute the likelihood of each pair of the grid.

        Without families, all pairs are equally likely.
        """
        self.grid, self.spread, self.drift, self.freedom = grid, spread, drift, freedom
        self.interval_factor = interval_factor
        self.families = {family: self.log_likelihood(family) for family in families}
        self._total: Array = np.sum([np.zeros(len(grid.exponent)), *self.families.values()], axis=0)

    @property
    def constants(self) -> tuple[float, float]:
        """Return the most likely (b_half, p)."""
        best = self._total.argmax()
        return float(self.grid.b_half[best]), float(self.grid.exponent[best])

    def predict(
        self,
        observations: Sequence[Observation],
        target: Observation,
        without: Iterable[Family] = (),
    ) -> ModelPrediction:
        """Predict the time of `target` from observations of its family.

        Args:
            observations: At least one observation from the family of `target`.
            target: Devices and batch to predict. The time of `target` is not used.
            without: Families that are removed from the model before the prediction. In a
                validation, this is the family of `target`. `observations` are added to the model.
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
        """Return the log likelihood of each pair, shape (pairs,).

        The likelihood uses differences within a family, so it is 0 for a single observation.
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
        """Return log(device-seconds) minus the model's shape.

        The result has shape (pairs, observations).
        """
        rows = [
            math.log(observed.device_seconds) - self.grid.shape(observed)
            for observed in observations
        ]
        return np.stack(rows, axis=1)


def _covariance(observations: Sequence[Observation], drift: float) -> Array:
    """Return the covariance of independent errors and the random walk.

    The unit is the variance of a single result, and the shape is (observations, observations). A
    constant term is omitted, because differences do not depend on it.
    """
    position = np.log2([observed.batch_per_device for observed in observations])
    return np.asarray(
        np.eye(len(observations)) - drift / 2 * np.abs(position[:, None] - position[None, :])
    )


def _kriging(
    observations: Sequence[Observation], target: Observation, drift: float
) -> tuple[Array, float]:
    """Return the weights of observations for a target, and the variance of the target.

    The weights sum to 1. The unit of the variance is the variance of a single result. The method is
    ordinary kriging.
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
