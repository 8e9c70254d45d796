"""The time of a training step from its parts: t(n, b) = t0 + c·b + max(0, a(n) - overlap·backward).

`t0` is what a step costs whatever its batch (launches, the optimizer), `c` what each sample adds, `a(n)` the all-reduce of the
gradients on a system, `backward` the part of c·b that gradients can travel beside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from suite.results.predict.systems import System, Traffic
from workloads.api import GradientTraffic

BACKWARD_SHARE = 2.0 / 3.0
"""Of c·b: the backward pass multiplies twice where the forward pass multiplies once (gradients of inputs and of weights)."""
DEFAULT_OVERLAP = 0.7
"""Share of the backward pass beside which gradients travel: assumed, and said so; times on 2 and 8 devices give it."""


@dataclass(frozen=True)
class StepCost:
    """t0 and c of one device."""

    fixed_seconds: float
    """t0."""
    seconds_per_sample: float
    """c."""
    notes: tuple[str, ...] = ()
    """What the measured points say against this form."""

    def seconds(self, batch: float) -> float:
        """A step on one device."""
        return self.fixed_seconds + self.seconds_per_sample * batch


def fit_step(points: Sequence[tuple[float, float]]) -> StepCost:
    """t0 and c from (samples, seconds of a step) on one device: least squares of relative errors; neither is below 0.

    Raises ValueError for fewer than two batch sizes.
    """
    if len({batch for batch, _ in points}) < 2:
        raise ValueError("t0 and c need two batch sizes on one device: measure another, such as batch=per_device:64")
    batches, seconds = (np.array(values, dtype=np.float64) for values in zip(*points, strict=True))
    system = np.stack([1.0 / seconds, batches / seconds], axis=1)
    fixed, slope = (float(value) for value in np.linalg.lstsq(system, np.ones(len(points)), rcond=None)[0])
    if fixed < 0.0:
        through = float((batches / seconds).sum() / ((batches / seconds) ** 2).sum())
        note = "larger batches take longer for each sample, which t0 + c·b cannot say: t0 is taken as 0"
        return StepCost(0.0, through, (note,))
    if slope < 0.0:
        flat = float((1.0 / seconds).sum() / (1.0 / seconds**2).sum())
        return StepCost(flat, 0.0, ("larger batches take no longer: c is taken as 0",))
    return StepCost(fixed, slope)


@dataclass(frozen=True)
class StepTime:
    """A step on several devices, decomposed; in seconds."""

    fixed: float
    samples: float
    traffic: Traffic
    """All of the all-reduce."""
    exposed: float
    """The part of the all-reduce that nothing hides."""

    @property
    def seconds(self) -> float:
        """The step."""
        return self.fixed + self.samples + self.exposed

    @property
    def binds(self) -> str:
        """The largest part: `samples`, `fixed cost`, or what the exposed all-reduce waits for most."""
        traffic = self.traffic
        parts = {
            "bandwidth between nodes": traffic.between,
            "bandwidth in the node": traffic.inside,
            "latency": traffic.latency,
            "tensors": traffic.tensors,
        }
        share = self.exposed / traffic.seconds if traffic.seconds else 0.0
        largest = {
            "samples": self.samples,
            "fixed cost": self.fixed,
            **{name: part * share for name, part in parts.items()},
        }
        return max(largest, key=lambda name: largest[name])


def step_time(
    cost: StepCost,
    batch: float,
    devices: int,
    gradients: GradientTraffic,
    system: System,
    overlap: float = DEFAULT_OVERLAP,
) -> StepTime:
    """A step with `batch` samples on each of `devices`; `overlap` from 0 (nothing is hidden) to 1."""
    samples = cost.seconds_per_sample * batch
    traffic = system.all_reduce(devices, gradients)
    exposed = max(0.0, traffic.seconds - overlap * BACKWARD_SHARE * samples)
    return StepTime(cost.fixed_seconds, samples, traffic, exposed)


def fit_overlap(
    cost: StepCost, gradients: GradientTraffic, system: System, measured: Sequence[tuple[int, float, float]]
) -> float:
    """Overlap that suits (devices, samples a device, seconds of a step) best: least squares of relative errors.

    From 0 to 1 in hundredths; the smallest of equals.
    """
    choices = [step / 100 for step in range(101)]

    def error(overlap: float) -> float:
        return sum(
            (step_time(cost, batch, devices, gradients, system, overlap).seconds / seconds - 1.0) ** 2
            for devices, batch, seconds in measured
        )

    return min(choices, key=error)
