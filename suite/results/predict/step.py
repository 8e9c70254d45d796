"""The time of a training step from its parts: t(n, b) = t0 + c·b + max(0, a(n) - overlap·backward).

`t0` is what a step costs whatever its batch (launches, the optimizer), `c` what each sample adds, `a(n)` the all-reduce of the
gradients on a system, `backward` the part of c·b that gradients can travel beside.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from suite.results.fits import fit_steps, through_zero
from suite.results.identity import Row
from suite.results.predict.systems import System, Traffic
from workloads.api import GradientTraffic

BACKWARD_SHARE = 2.0 / 3.0
"""Of c·b: the backward pass multiplies twice where the forward pass multiplies once (gradients of inputs and of weights)."""
DEFAULT_OVERLAP = 0.7
"""Share of the backward pass beside which gradients travel: assumed, and said so; times on 2 and 8 devices give it."""
_FLOAT32 = 4.0
_PARAMETERS: Mapping[str, tuple[int, int]] = {
    "resnet50": (25_557_032, 161),
    "ssd": (19_972_534, 131),
    "maskrcnn": (44_125_173, 84),
    "gnmt": (160_671_297, 44),
    "transformer": (210_804_736, 155),
    "ncf": (31_832_577, 12),
}
"""Trained parameters and tensors of the reference models, as the suite builds them (a test counts); gradients are float32."""
Step = tuple[int, float, float]
"""Devices, samples a device, seconds."""


@dataclass(frozen=True)
class StepCost:
    """t0 and c of one device."""

    fixed_seconds: float  # t0
    seconds_per_sample: float  # c
    notes: tuple[str, ...] = ()  # what the measured points say against this form

    def seconds(self, batch: float) -> float:
        """A step on one device."""
        return self.fixed_seconds + self.seconds_per_sample * batch

    def text(self, unit: str) -> str:
        """`t0 2 ms, c 0.01 ms a sample`."""
        return f"t0 {self.fixed_seconds * 1e3:.3g} ms, c {self.seconds_per_sample * 1e3:.3g} ms a {unit}"


def fit_step(points: Sequence[tuple[float, float]]) -> StepCost:
    """t0 and c from (samples, seconds of a step) on one device, neither below 0. Raises ValueError for one batch."""
    line = fit_steps(points)
    if line is None:
        raise ValueError("t0 and c need two batch sizes on one device: measure another, such as batch=per_device:64")
    if line.t0 < 0.0:
        note = "Larger batches take longer for each sample, which t0 + c·b cannot say: t0 is taken as 0."
        return StepCost(0.0, through_zero(points), (note,))
    if line.c < 0.0:
        flat = through_zero([(1.0, seconds) for _, seconds in points])
        return StepCost(flat, 0.0, ("Larger batches take no longer: c is taken as 0.",))
    return StepCost(line.t0, line.c)


@dataclass(frozen=True)
class StepTime:
    """A step on several devices, decomposed; in seconds."""

    fixed: float
    samples: float
    traffic: Traffic  # all of the all-reduce
    exposed: float  # the part of the all-reduce that nothing hides

    @property
    def seconds(self) -> float:
        """The step."""
        return self.fixed + self.samples + self.exposed

    @property
    def binds(self) -> str:
        """The largest part: `samples`, `fixed cost`, or what the exposed all-reduce waits for most."""
        share = self.exposed / self.traffic.seconds if self.traffic.seconds else 0.0
        parts = {
            "samples": self.samples,
            "fixed cost": self.fixed,
            "bandwidth between nodes": self.traffic.between * share,
            "bandwidth in the node": self.traffic.inside * share,
            "latency": self.traffic.latency * share,
            "tensors": self.traffic.tensors * share,
        }
        return max(parts, key=lambda name: parts[name])


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


def fit_overlap(cost: StepCost, gradients: GradientTraffic, system: System, measured: Sequence[Step]) -> float:
    """Overlap from 0 to 1 in hundredths that suits measured steps best, by relative errors."""

    def error(overlap: float) -> float:
        return sum(
            (step_time(cost, batch, devices, gradients, system, overlap).seconds / seconds - 1.0) ** 2
            for devices, batch, seconds in measured
        )

    return min((step / 100 for step in range(101)), key=error)


@dataclass(frozen=True)
class Parts:
    """What measured steps say of the parts of a step."""

    cost: StepCost
    gradients: GradientTraffic
    system: System
    overlaps: tuple[float, float, float]  # of the middle, of the shortest step and of the longest
    misfit: float  # largest distance of a measured step, in log time
    bounds: str

    def seconds(self, devices: int, batch: float) -> tuple[tuple[float, float, float], str]:
        """((a step, its lower and its upper bound), what it waits for most)."""
        middle, low, high = (
            step_time(self.cost, batch, devices, self.gradients, self.system, overlap) for overlap in self.overlaps
        )
        factor = math.exp(self.misfit)
        return (middle.seconds, low.seconds / factor, high.seconds * factor), middle.binds


def parts_of_step(steps: Sequence[Step], gradients: GradientTraffic, system: System, on_cpu: bool) -> Parts:
    """The parts from measured steps; on CPUs the cores that compute also carry the bytes. Raises ValueError as `fit_step`."""
    cost = fit_step([(batch, seconds) for devices, batch, seconds in steps if devices == 1])
    several = [step for step in steps if step[0] > 1]
    overlap, most, origin = DEFAULT_OVERLAP, 1.0, "assumed"
    if on_cpu:
        overlap = most = 0.0
    elif several:
        overlap, origin = fit_overlap(cost, gradients, system, several), "from measured steps on several devices"
    misfit = max(
        abs(math.log(step_time(cost, batch, devices, gradients, system, overlap).seconds / seconds))
        for devices, batch, seconds in steps
    )
    hidden = (
        "gradients beside none of the backward pass, since the cores that compute also carry them"
        if on_cpu
        else f"from gradients beside all of the backward pass to beside none of it (middle: {overlap:g}, {origin})"
    )
    bounds = f"{hidden}, and the factor of {math.exp(misfit):.3g} by which these parts miss a measured step"
    return Parts(cost, gradients, system, (overlap, most, 0.0), misfit, bounds)


def gradients_of(results: Sequence[Row]) -> GradientTraffic:
    """What a step's all-reduce moves: as logged, else of the reference model, which no demo has.

    Raises ValueError where neither is known.
    """
    logged: GradientTraffic | None = next((row.gradients for row in results if row.gradients is not None), None)
    if logged is not None:
        return logged
    if results[0].workload not in _PARAMETERS or results[0].profile == "demo":
        raise ValueError("the size of its gradients is not known; give --gradient-mb")
    parameters, tensors = _PARAMETERS[results[0].workload]
    return GradientTraffic(parameters * _FLOAT32, tensors)


def traffic_text(gradients: GradientTraffic) -> str:
    """`102.2 MB of gradients in 161 tensors, 5 buckets`."""
    parts = [f"{gradients.tensors} tensors"] if gradients.tensors else []
    parts += [f"{gradients.buckets} buckets"] if gradients.buckets > 1 else []
    return f"{gradients.size_bytes / 1e6:,.1f} MB of gradients" + (f" in {', '.join(parts)}" if parts else "")
