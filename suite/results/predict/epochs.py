"""Epochs to target at a batch that was not run: from measured runs, or from the rules' reference convergence points (RCP)."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from suite.results.identity import Row
from suite.results.targets import OFFICIAL_TARGETS, metric_name

RCP = "RCP"
_RCP_ROUND = "training_1.1.0"
"""mlperf-logging's points of round v1.1: later rounds have another SSD, and the same ResNet-50 and Mask R-CNN."""
_RCP_NAMES: Mapping[str, str] = {"resnet50": "resnet", "ssd": "ssd", "maskrcnn": "maskrcnn"}


def epochs_at(batch: float, results: Sequence[Row]) -> tuple[float | None, str]:
    """(epochs to target at a global batch in the unit of `results`, where they come from).

    Measured at this batch or on both sides of it, else from RCPs if the target is theirs, else unknown. Never extrapolated.
    """
    measured = [(float(row.batch_size_global), row.epochs) for row in results if row.batch_size_global and row.epochs]
    found = _between(batch, measured)
    if found is not None:
        return found, "measured" if any(size == batch for size, _ in measured) else "between measured batches"
    if results and _has_official_target(results[0]):
        found = _between(batch, reference_points(results[0].workload))
    return found, RCP if found is not None else ""


@functools.cache
def reference_points(workload: str) -> tuple[tuple[float, float], ...]:
    """(global batch, mean epochs to target) of the rules' reference runs; empty for a workload without them."""
    name = _RCP_NAMES.get(workload)
    if name is None:
        return ()
    import mlperf_logging.rcp_checker as checker

    path = Path(checker.__path__[0]) / _RCP_ROUND / f"rcps_{name}.json"
    gathered: dict[float, list[float]] = {}
    for point in json.loads(path.read_text(encoding="utf-8")).values():
        gathered.setdefault(float(point["BS"]), []).extend(map(float, point["Epochs to converge"]))
    return tuple(sorted((batch, math.fsum(epochs) / len(epochs)) for batch, epochs in gathered.items()))


def _has_official_target(row: Row) -> bool:
    wanted = OFFICIAL_TARGETS["MLLOG"].get(_RCP_NAMES.get(row.workload, ""), {})
    named = {metric_name(metric, row.workload): value for metric, value in row.targets.items()}
    shared = wanted.keys() & named.keys()
    return bool(shared) and all(math.isclose(wanted[metric], named[metric]) for metric in shared)


def _between(batch: float, points: Sequence[tuple[float, float]]) -> float | None:
    """Epochs at `batch`, straight in the logarithms of both between the points on either side; None outside of them."""
    same = [epochs for size, epochs in points if size == batch]
    if same:
        return math.fsum(same) / len(same)
    below = max((point for point in points if point[0] < batch), default=None)
    above = min((point for point in points if point[0] > batch), default=None)
    if below is None or above is None:
        return None
    part = math.log(batch / below[0]) / math.log(above[0] / below[0])
    return math.exp((1.0 - part) * math.log(below[1]) + part * math.log(above[1]))
