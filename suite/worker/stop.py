"""Convert the setting `stop` to the number of steps after which a run ends."""

from __future__ import annotations

import math
from dataclasses import dataclass

from workloads.api import Settings, Workload


@dataclass(frozen=True)
class Stop:
    """Maximum number of steps, and whether the run ends as soon as it reaches its target."""

    at_target: bool
    limit_steps: int


def stop_rule(workload: Workload, settings: Settings) -> Stop:
    """Return the step limit for `settings.stop`.

    The values of `stop` are `target`, `epochs:N`, `steps:N`, and `samples:N`. A run with `target`
    ends after at most `max_epochs` epochs. `samples:N` is allowed only if the batch size of the
    workload is in samples.
    """
    kind, _, number = settings.stop.partition(":")
    if kind == "target":
        return Stop(True, workload.epochs.start(int(settings.hyperparameters["max_epochs"])))
    count = int(number)
    if kind == "epochs":
        return Stop(False, workload.epochs.start(count))
    if kind == "samples":
        return Stop(False, math.ceil(count / settings.global_batch_size))
    assert kind == "steps", settings.stop
    return Stop(False, count)
