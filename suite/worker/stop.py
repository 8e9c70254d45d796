"""When a run ends: the setting `stop`, as numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from workloads.api import Settings, Workload


@dataclass(frozen=True)
class Stop:
    """How far to train, and whether reaching the target ends the run."""

    at_target: bool
    limit_steps: int


def stop_rule(workload: Workload, settings: Settings) -> Stop:
    """The meaning of `settings.stop` for a workload: `target` (at most `max_epochs`), `epochs:N`, `steps:N`, `samples:N`.

    The last is planned only where batches are counted in samples.
    """
    kind, _, number = settings.stop.partition(":")
    if kind == "target":
        return Stop(True, workload.epochs.start(int(settings.hyperparameters["max_epochs"])))
    count = int(number)
    if kind == "epochs":
        return Stop(False, workload.epochs.start(count))
    if kind == "samples":
        return Stop(False, math.ceil(count / settings.batch_size_global))
    assert kind == "steps", settings.stop
    return Stop(False, count)
