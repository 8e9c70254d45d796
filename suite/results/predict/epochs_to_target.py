"""Estimates epochs to target at a batch size that was not measured.

The estimate uses measured runs or reference convergence points (RCPs).
"""

from __future__ import annotations

import functools
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from suite.results.columns import Result
from suite.results.combine import grouped
from suite.results.targets import OFFICIAL_TARGETS, published_targets, same_targets

MEASURED, RCP, BETWEEN = "measured", "RCP", "between measured batches"
"""Sources of an estimated number of epochs."""
_ERROR: Mapping[str, float] = {MEASURED: 0.028, RCP: 0.078, BETWEEN: 0.144}
"""Estimation error by source: the 90th percentile of |log(estimate / measured)|. Each published
result was held out in turn.

The value of `BETWEEN` comes from 40 batches with measured batches on both sides. The values
of `MEASURED` and `RCP` come from 191 and 177 results at a batch of the source.
"""
_RCP_AGREEMENT = 0.14
"""Maximum |log(RCP / measured)| at any measured batch for which RCPs are used. This tolerance of
15 % was chosen for this suite.

Rounds up to v0.7 train ResNet-50 with different hyperparameters, and need up to 60 epochs
where the RCP has 35.
"""
_RCPS: Mapping[str, tuple[str, str]] = {
    # Later rounds have a different SSD, and the same ResNet-50 and Mask R-CNN.
    **{name: ("1.1", name) for name in ("ssd", "maskrcnn")},
    "resnet50": ("1.1", "resnet"),
    **{
        name: ("5.1", name)
        for name in (
            *("bert", "dlrm_dcnv2", "flux1", "llama2_70b_lora", "llama31_405b", "llama31_8b"),
            *("retinanet", "rgat"),
        )
    },
}
"""Workload to the round of its RCPs in mlperf-logging, and its name there."""
_RCP_FIELDS = ("Epochs to converge", "samples to converge")
"""Names of the epochs (or samples) to target in the files with RCPs."""


@dataclass(frozen=True)
class EpochsEstimate:
    """Estimated epochs to target at a batch size, with the 90 % interval and the source.

    If the epochs cannot be estimated, the number is None and the source is empty.
    """

    epochs: float | None = None
    low: float | None = None
    high: float | None = None
    source: str = ""


def epochs_at(batch: float, results: Sequence[Result]) -> EpochsEstimate:
    """Return the epochs to target at a global batch, in the batch unit of `results`.

    The function never extrapolates.

    The first source that covers the batch is used:

    1. The measured runs at this batch.
    2. The RCPs, at this batch or interpolated, if they have the same target and agree with the
       measured batches.
    3. The measured batches on both sides.
    """
    measured = _means(
        (result.global_batch_size, result.epochs)
        for result in results
        if result.global_batch_size and result.epochs
    )
    reference = _applicable_rcps(results, measured)
    for source, points in (
        (MEASURED, {batch: measured[batch]} if batch in measured else {}),
        (RCP, reference),
        (BETWEEN, measured),
    ):
        epochs = _between(batch, points)
        if epochs is not None:
            factor = math.exp(_ERROR[source])
            return EpochsEstimate(epochs, epochs / factor, epochs * factor, source)
    return EpochsEstimate()


def _applicable_rcps(
    results: Sequence[Result], measured: Mapping[float, float]
) -> Mapping[float, float]:
    """Return the reference convergence points (RCPs) that apply to `results`.

    The result is empty if the target or the epochs of the RCPs differ from `results`.
    """
    workload = results[0].workload
    _, name = _RCPS.get(workload, ("", ""))
    official = OFFICIAL_TARGETS["MLLOG"].get(name) or published_targets(name)
    if not same_targets(results[0].targets, official, workload):
        return {}
    points = reference_points(workload)
    for batch, epochs in measured.items():
        expected = _between(batch, points)
        if expected is not None and abs(math.log(expected / epochs)) > _RCP_AGREEMENT:
            return {}
    return points


@functools.cache
def reference_points(workload: str) -> Mapping[float, float]:
    """Return the mean epochs of the rules' reference runs by global batch.

    Workloads that count samples have samples in place of epochs. The result is empty for a workload
    without reference runs.
    """
    if workload not in _RCPS:
        return {}
    import mlperf_logging.rcp_checker as checker

    round_number, name = _RCPS[workload]
    path = Path(checker.__path__[0]) / f"training_{round_number}.0" / f"rcps_{name}.json"
    points = json.loads(path.read_text(encoding="utf-8")).values()
    return _means(
        (point["BS"], float(epochs))
        for point in points
        for field in _RCP_FIELDS
        for epochs in point.get(field, ())
    )


def reference_round(workload: str) -> str:
    """Return the round of the reference runs of a workload, such as `v1.1`; empty without them."""
    return f"v{_RCPS[workload][0]}" if workload in _RCPS else ""


def _means(points: Iterable[tuple[float, float]]) -> dict[float, float]:
    """Return the mean epochs of each batch, sorted by batch."""
    by_batch = grouped(sorted(points), lambda point: float(point[0]))
    return {
        batch: statistics.fmean(epochs for _, epochs in alike) for batch, alike in by_batch.items()
    }


def _between(batch: float, points: Mapping[float, float]) -> float | None:
    """Return the epochs at a batch between two points, or None outside of the points.

    The interpolation is linear in log(batch) and log(epochs).
    """
    if not points or not min(points) <= batch <= max(points):
        return None
    return math.exp(np.interp(math.log(batch), np.log(list(points)), np.log(list(points.values()))))
