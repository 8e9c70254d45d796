"""Step model: t(n, b) = t0 + c·b + max(0, a(n) - overlap·backward).

`n` is the number of devices, and `b` is the number of samples per device. `t0` is the fixed cost of
a step (kernel launches, optimizer). `c` is the time per sample. `a(n)` is the time of the gradient
all-reduce on a system. `backward` is the time of the backward pass within c·b, which can overlap
with the all-reduce.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from suite.results.columns import Result
from suite.results.predict.fits import StepFit, fit_steps, fit_through_zero
from suite.results.predict.systems import System, Traffic
from workloads.api import GradientAllReduceInfo

BACKWARD_SHARE = 2.0 / 3.0
"""Fraction of c·b that the backward pass takes. The backward pass has twice the multiply-adds of
the forward pass (gradients of inputs and of weights).
"""
DEFAULT_OVERLAP = 0.7
"""Fraction of the backward pass that overlaps with the all-reduce.

This default is used if no steps on several devices were measured.
"""
_FLOAT32_BYTES = 4.0
_PARAMETERS: Mapping[str, tuple[int, int]] = {
    "resnet50": (25_557_032, 161),
    "ssd": (19_972_534, 131),
    "maskrcnn": (44_125_173, 84),
    "gnmt": (160_671_297, 44),
    "transformer": (210_804_736, 155),
    "ncf": (31_832_577, 12),
}
"""Number of trained parameters and number of tensors in the suite's reference models. A test checks
the numbers.
"""
Steps = Sequence[tuple[int, float, float]]
"""Measured steps as tuples (devices, samples per device, seconds)."""


def fit_step(points: Sequence[tuple[float, float]]) -> StepFit:
    """Fit t0 and c to steps on one device, given as pairs (samples, seconds).

    t0 and c are never negative.

    Raises:
        ValueError: All steps have the same batch size.
    """
    fit = fit_steps(points)
    if fit is None:
        raise ValueError(
            "t0 and c need two batch sizes on one device. Measure a second batch size, for example"
            " batch=per_device:64"
        )
    if fit.t0 < 0.0:
        return replace(fit, t0=0.0, c=fit_through_zero(points))
    if fit.c < 0.0:
        return replace(fit, t0=fit_through_zero([(1.0, seconds) for _, seconds in points]), c=0.0)
    return fit


@dataclass(frozen=True)
class StepTime:
    """Components of a step on several devices, in seconds."""

    fixed: float
    samples: float
    traffic: Traffic
    """Time of the whole all-reduce, including the time that overlaps with the backward pass."""
    exposed: float
    """All-reduce time in seconds that does not overlap with the backward pass."""

    @property
    def seconds(self) -> float:
        """Return the total time of the step."""
        return self.fixed + self.samples + self.exposed

    @property
    def binds(self) -> str:
        """Return the name of the component that takes the most time in the step.

        The name is `samples`, `fixed cost`, or a component of the exposed all-reduce.
        """
        share = self.exposed / self.traffic.seconds if self.traffic.seconds else 0.0
        parts = {
            "samples": self.samples,
            "fixed cost": self.fixed,
            "bandwidth in the node": self.traffic.inside * share,
            "bandwidth between nodes": self.traffic.between * share,
            "latency": self.traffic.latency * share,
            "tensors": self.traffic.tensors * share,
        }
        return max((seconds, name) for name, seconds in parts.items())[1]


def step_time(
    cost: StepFit,
    batch: float,
    devices: int,
    gradients: GradientAllReduceInfo,
    system: System,
    overlap: float,
) -> StepTime:
    """Return the components of a step.

    Args:
        cost: The fitted t0 and c.
        batch: Samples per device.
        devices: Number of devices.
        gradients: Size of the gradients in the all-reduce.
        system: Interconnects between the devices.
        overlap: Fraction of the backward pass that overlaps with the all-reduce, from 0 to 1.
    """
    samples, traffic = cost.c * batch, system.all_reduce(devices, gradients)
    exposed = max(0.0, traffic.seconds - overlap * BACKWARD_SHARE * samples)
    return StepTime(cost.t0, samples, traffic, exposed)


class StepModel:
    """Step model that is fitted to measured steps."""

    def __init__(
        self, steps: Steps, gradients: GradientAllReduceInfo, system: System, on_cpu: bool
    ) -> None:
        """Fit t0 and c to steps on one device, and the overlap to steps on several devices.

        Args:
            steps: Measured steps.
            gradients: Size of the gradients in the all-reduce.
            system: Interconnects between the devices.
            on_cpu: True if the cores that compute also transfer the gradients. The all-reduce then
                does not overlap with the backward pass.

        Raises:
            ValueError: All steps on one device have the same batch size.
        """
        self.cost = fit_step(
            [(batch, seconds) for devices, batch, seconds in steps if devices == 1]
        )
        self.gradients, self.on_cpu = gradients, on_cpu
        self._step = functools.partial(step_time, self.cost, gradients=gradients, system=system)
        several = [step for step in steps if step[0] > 1]
        self.is_overlap_fitted = bool(several) and not on_cpu
        self.overlap = 0.0 if on_cpu else DEFAULT_OVERLAP
        if self.is_overlap_fitted:

            def squared_error(overlap: float) -> float:
                return sum((ratio - 1) ** 2 for ratio in self._ratios(several, overlap))

            self.overlap = min((hundredths / 100 for hundredths in range(101)), key=squared_error)
        self.misfit = max(abs(math.log(ratio)) for ratio in self._ratios(steps, self.overlap))
        """Largest |log(predicted / measured)| over the measured steps."""

    def _ratios(self, steps: Steps, overlap: float) -> list[float]:
        """Return predicted seconds divided by measured seconds for each step."""
        return [
            self._step(batch, devices, overlap=overlap).seconds / seconds
            for devices, batch, seconds in steps
        ]

    def seconds(self, devices: int, batch: float) -> tuple[tuple[float, float, float], str]:
        """Return the step time with its bounds, and the name of the largest component."""
        overlaps, factor = (self.overlap, 0.0 if self.on_cpu else 1.0, 0.0), math.exp(self.misfit)
        middle, low, high = (self._step(batch, devices, overlap=overlap) for overlap in overlaps)
        return (middle.seconds, low.seconds / factor, high.seconds * factor), middle.binds

    def text(self, unit: str) -> str:
        """Describe the fitted constants and the meaning of the bounds.

        Example: `t0 2 ms, c 0.01 ms per sample, 102.2 MB of gradients. …`.
        """
        cost = f"t0 {self.cost.t0 * 1e3:.3g} ms, c {self.cost.c * 1e3:.3g} ms per {unit}"
        source = (
            "fitted to measured steps on several devices" if self.is_overlap_fitted else "assumed"
        )
        overlap = (
            "from full overlap of gradients and backward pass to no overlap (middle:"
            f" {self.overlap:g}, {source})"
        )
        if self.on_cpu:
            overlap = (
                "no overlap of gradients and backward pass, since the same cores compute and"
                " transfer"
            )
        misfit = (
            "the largest factor between a predicted and a measured step,"
            f" {math.exp(self.misfit):.3g}"
        )
        return f"{cost}, {traffic_text(self.gradients)}. Bounds: {overlap}, times {misfit}."


def gradients_of(results: Sequence[Result]) -> GradientAllReduceInfo:
    """Return the size of the gradients that an all-reduce sums.

    The size is read from the log. If the log does not contain it, the size of the reference model
    is used. The model of a demo differs from the reference model, so its size must be logged.

    Raises:
        ValueError: The size is not logged, and there is no reference model.
    """
    for result in results:
        if result.gradients is not None:
            return result.gradients
    if results[0].workload not in _PARAMETERS or results[0].profile == "demo":
        raise ValueError("the size of its gradients is not known. Set --gradient-mb")
    parameters, tensors = _PARAMETERS[results[0].workload]
    return GradientAllReduceInfo(parameters * _FLOAT32_BYTES, tensors)


def traffic_text(gradients: GradientAllReduceInfo) -> str:
    """Describe the size of gradients: `102.2 MB of gradients in 161 tensors, 5 buckets`."""
    parts = [f"{gradients.tensors} tensors"] if gradients.tensors else []
    parts += [f"{gradients.buckets} buckets"] if gradients.buckets > 1 else []
    suffix = f" in {', '.join(parts)}" if parts else ""
    return f"{gradients.size_bytes / 1e6:,.1f} MB of gradients{suffix}"
