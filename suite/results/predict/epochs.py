"""Epochs to target at a batch that was not run: from measured runs, or from the rules' reference convergence points (RCP)."""

from __future__ import annotations

import functools
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from suite.results.columns import Result
from suite.results.combine import grouped
from suite.results.targets import OFFICIAL_TARGETS, same_targets

RCP = "RCP"
_RCP_ROUND = "training_1.1.0"
"""mlperf-logging's points of round v1.1: later rounds have another SSD, and the same ResNet-50 and Mask R-CNN."""
_RCP_NAMES: Mapping[str, str] = {"resnet50": "resnet", "ssd": "ssd", "maskrcnn": "maskrcnn"}


def epochs_at(batch: float, results: Sequence[Result]) -> tuple[float | None, str]:
    """(epochs to target at a global batch in the unit of `results`, where they come from).

    Measured at this batch or on both sides of it, else from RCPs if the target is theirs, else unknown. Never extrapolated.
    """
    measured = _means((row.batch_size_global, row.epochs) for row in results if row.batch_size_global and row.epochs)
    if (epochs := _between(batch, measured)) is not None:
        return epochs, "measured" if batch in measured else "between measured batches"
    workload = results[0].workload
    official = OFFICIAL_TARGETS["MLLOG"].get(_RCP_NAMES.get(workload, ""), {})
    if same_targets(results[0].targets, official, workload):
        epochs = _between(batch, reference_points(workload))
    return epochs, RCP if epochs is not None else ""


@functools.cache
def reference_points(workload: str) -> Mapping[float, float]:
    """Global batch to mean epochs of the rules' reference runs; empty for a workload without them."""
    if workload not in _RCP_NAMES:
        return {}
    import mlperf_logging.rcp_checker as checker

    path = Path(checker.__path__[0]) / _RCP_ROUND / f"rcps_{_RCP_NAMES[workload]}.json"
    points = json.loads(path.read_text(encoding="utf-8")).values()
    return _means((point["BS"], float(epochs)) for point in points for epochs in point["Epochs to converge"])


def _means(points: Iterable[tuple[float, float]]) -> dict[float, float]:
    """Batch to mean epochs, in order of batch."""
    by_batch = grouped(sorted(points), lambda point: float(point[0]))
    return {batch: statistics.fmean(epochs for _, epochs in alike) for batch, alike in by_batch.items()}


def _between(batch: float, points: Mapping[float, float]) -> float | None:
    """Epochs at `batch`, straight in the logarithms of both between the points on either side; None outside of them."""
    if not points or not min(points) <= batch <= max(points):
        return None
    return math.exp(np.interp(math.log(batch), np.log(list(points)), np.log(list(points.values()))))
