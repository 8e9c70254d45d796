"""Epochs to target at a batch that was not run: from measured runs, or from the rules' reference convergence points (RCP)."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.results.score.measurement import Measurement
from suite.results.targets import OFFICIAL_TARGETS, metric_name

_RCP_ROUND = "training_1.1.0"
"""mlperf-logging's points of round v1.1: later rounds have another SSD, and the same ResNet-50 and Mask R-CNN."""
_RCP_NAMES: Mapping[str, str] = {"resnet50": "resnet", "ssd": "ssd", "maskrcnn": "maskrcnn"}


@dataclass(frozen=True)
class Epochs:
    """Epochs to target and where they come from."""

    value: float | None
    source: str

    @property
    def text(self) -> str:
        """`40.2 (RCP)`, `unknown`."""
        return "unknown" if self.value is None else f"{self.value:.4g} ({self.source})"


UNKNOWN = Epochs(None, "")


def epochs_at(batch: float, items: Sequence[Measurement]) -> Epochs:
    """Epochs to target at a global batch, in the unit of `items` (one workload, one target): measured at this batch or on both
    sides of it, else from RCPs if the target is theirs, else unknown. Nothing is extrapolated."""
    measured = [
        (float(item.batch_size_global), item.score.epochs)
        for item in items
        if item.batch_size_global and item.score.epochs
    ]
    found = _between(batch, measured)
    if found is not None:
        return Epochs(found, "measured" if any(size == batch for size, _ in measured) else "between measured batches")
    if items and _has_official_target(items[0]):
        found = _between(batch, reference_points(items[0].workload))
        if found is not None:
            return Epochs(found, "RCP")
    return UNKNOWN


@functools.cache
def reference_points(workload: str) -> tuple[tuple[float, float], ...]:
    """(global batch, mean epochs to target) of the rules' reference runs; empty for a workload without them."""
    name = _RCP_NAMES.get(workload)
    if name is None:
        return ()
    import mlperf_logging.rcp_checker as checker

    path = Path(checker.__path__[0]) / _RCP_ROUND / f"rcps_{name}.json"
    points = json.loads(path.read_text(encoding="utf-8"))
    gathered: dict[float, list[float]] = {}
    for point in points.values():
        gathered.setdefault(float(point["BS"]), []).extend(map(float, point["Epochs to converge"]))
    return tuple(sorted((batch, math.fsum(epochs) / len(epochs)) for batch, epochs in gathered.items()))


def _has_official_target(item: Measurement) -> bool:
    wanted = OFFICIAL_TARGETS["MLLOG"].get(_RCP_NAMES.get(item.workload, ""), {})
    named = {metric_name(metric, item.workload): value for metric, value in item.targets.items()}
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
