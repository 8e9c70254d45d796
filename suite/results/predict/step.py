"""The time of a training step from its parts: t(n, b) = t0 + c·b + max(0, a(n) - overlap·backward).

`t0` is what a step costs whatever its batch (launches, the optimizer), `c` what each sample adds, `a(n)` the all-reduce of the
gradients on a system, `backward` the part of c·b that gradients can travel beside.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from suite.results.columns import Result
from suite.results.predict.fits import StepFit, fit_steps, through_zero
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
Steps = Sequence[tuple[int, float, float]]
"""Devices, samples a device, seconds."""


def fit_step(points: Sequence[tuple[float, float]]) -> StepFit:
    """t0 and c from (samples, seconds of a step) on one device, neither below 0. Raises ValueError for one batch."""
    line = fit_steps(points)
    if line is None:
        raise ValueError("t0 and c need two batch sizes on one device: measure another, such as batch=per_device:64")
    if line.t0 < 0.0:
        return replace(line, t0=0.0, c=through_zero(points))
    if line.c < 0.0:
        return replace(line, t0=through_zero([(1.0, seconds) for _, seconds in points]), c=0.0)
    return line


@dataclass(frozen=True)
class StepTime:
    """A step on several devices, decomposed; in seconds."""

    fixed: float
    samples: float
    traffic: Traffic  # all of the all-reduce
    exposed: float  # the part of the all-reduce that nothing hides

    @property
    def seconds(self) -> float:
        return self.fixed + self.samples + self.exposed

    @property
    def binds(self) -> str:
        """The largest part: `samples`, `fixed cost`, or what the exposed all-reduce waits for most."""
        share = self.exposed / self.traffic.seconds if self.traffic.seconds else 0.0
        names = ("samples", "fixed cost", "bandwidth in the node", "bandwidth between nodes", "latency", "tensors")
        return max(zip((self.samples, self.fixed, *(part * share for part in self.traffic)), names, strict=True))[1]


def step_time(
    cost: StepFit, batch: float, devices: int, gradients: GradientTraffic, system: System, overlap: float
) -> StepTime:
    """A step with `batch` samples on each of `devices`; `overlap` from 0 (nothing is hidden) to 1."""
    samples, traffic = cost.c * batch, system.all_reduce(devices, gradients)
    exposed = max(0.0, traffic.seconds - overlap * BACKWARD_SHARE * samples)
    return StepTime(cost.t0, samples, traffic, exposed)


class Parts:
    """What measured steps say of the parts of a step."""

    def __init__(self, steps: Steps, gradients: GradientTraffic, system: System, on_cpu: bool) -> None:
        """On CPUs the cores that compute also carry the bytes: nothing overlaps. Raises ValueError as `fit_step`."""
        self.cost = fit_step([(batch, seconds) for devices, batch, seconds in steps if devices == 1])
        self.gradients, self.on_cpu = gradients, on_cpu
        self._step = functools.partial(step_time, self.cost, gradients=gradients, system=system)
        several = [step for step in steps if step[0] > 1]
        self.fitted, self.overlap = bool(several) and not on_cpu, 0.0 if on_cpu else DEFAULT_OVERLAP
        if self.fitted:  # in hundredths
            tried = (step / 100 for step in range(101))
            self.overlap = min(tried, key=lambda one: sum((ratio - 1) ** 2 for ratio in self._ratios(several, one)))
        self.misfit = max(abs(math.log(ratio)) for ratio in self._ratios(steps, self.overlap))

    def _ratios(self, steps: Steps, overlap: float) -> list[float]:
        """Predicted over measured steps."""
        return [self._step(batch, devices, overlap=overlap).seconds / seconds for devices, batch, seconds in steps]

    def seconds(self, devices: int, batch: float) -> tuple[tuple[float, float, float], str]:
        """((a step, its lower and its upper bound), what it waits for most)."""
        overlaps, factor = (self.overlap, 0.0 if self.on_cpu else 1.0, 0.0), math.exp(self.misfit)
        middle, low, high = (self._step(batch, devices, overlap=overlap) for overlap in overlaps)
        return (middle.seconds, low.seconds / factor, high.seconds * factor), middle.binds

    def text(self, unit: str) -> str:
        """What a prediction rests on: `t0 2 ms, c 0.01 ms a sample, 102.2 MB of gradients. Bounds: …`."""
        cost = f"t0 {self.cost.t0 * 1e3:.3g} ms, c {self.cost.c * 1e3:.3g} ms a {unit}"
        middle = f"{self.overlap:g}, {'from measured steps on several devices' if self.fitted else 'assumed'}"
        hidden = f"from gradients beside all of the backward pass to beside none of it (middle: {middle})"
        if self.on_cpu:
            hidden = "gradients beside none of the backward pass, since the cores that compute also carry them"
        missed = f"the factor of {math.exp(self.misfit):.3g} by which these parts miss a measured step"
        return f"{cost}, {traffic_text(self.gradients)}. Bounds: {hidden}, and {missed}."


def gradients_of(results: Sequence[Result]) -> GradientTraffic:
    """What a step's all-reduce moves: as logged, else of the reference model, not of a demo. Raises ValueError for neither."""
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
