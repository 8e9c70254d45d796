"""Optimizers, clipping and loss scaling, one tensor at a time, in NumPy: what every framework must compute.

Trainers implement the same arithmetic with their own operators; tests hold them against these functions in float64. Rates are
those of the parameter: the scheduled one times `ParameterRule.lr_multiplier`. Weight decay is coupled: decay · w is added to
the gradient before anything else but clipping, which sees the bare gradients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from workloads.api import Array, Arrays, LossScaling, OptimizerSettings, ParameterRule, invalid_choice


class Skips(Protocol):
    """A framework's class of an optimizer."""

    skips: ClassVar[bool]
    """Whether a step of it can be left out on the device, as dynamic loss scaling asks."""


Kind = TypeVar("Kind", bound=Skips)


def chosen(settings: OptimizerSettings, kinds: Mapping[str, type[Kind]]) -> type[Kind]:
    """Of a framework's optimizers by name the one that `settings` ask for; SGD with the rate inside its velocities is the LARS
    of parameters without trust ratios.

    Raises ValueError for one that the framework does not have, or has not with dynamic loss scaling.
    """
    if settings.name not in kinds:
        raise invalid_choice("optimizer", settings.name, kinds)
    kind = kinds["lars" if settings.name == "sgd" and settings.lr_in_momentum else settings.name]
    if settings.loss_scaling.mode == "dynamic" and not kind.skips:
        raise ValueError(
            f"optimizer={settings.name}: it skips no steps here, as dynamic loss scaling asks; give a static scale"
        )
    return kind


def sgd(
    weight: Array, velocity: Array, gradient: Array, rate: float, momentum: float, decay: float
) -> tuple[Array, Array]:
    """(weight, velocity) after one step: v ← m·v + (g + d·w), w ← w - rate·v.

    The rate multiplies afterwards, as in TensorFlow and PyTorch. MXNet's own SGD multiplies before: that is `lars` below
    with the rate inside and without a trust ratio.
    """
    velocity = momentum * velocity + (gradient + decay * weight)
    return weight - rate * velocity, velocity


def trust_ratio(weight: Array, gradient: Array, coefficient: float, decay: float, epsilon: float = 0.0) -> float:
    """coefficient · ‖w‖ / (‖g‖ + decay·‖w‖ + epsilon); 1 where either norm is 0 (reference lars_util.py)."""
    weight_norm, gradient_norm = float(np.linalg.norm(weight)), float(np.linalg.norm(gradient))
    if weight_norm == 0.0 or gradient_norm == 0.0:
        return 1.0
    return coefficient * weight_norm / (gradient_norm + decay * weight_norm + epsilon)


def lars(
    weight: Array,
    velocity: Array,
    gradient: Array,
    rate: float,
    momentum: float,
    coefficient: float,
    rule: ParameterRule,
    lr_in_momentum: bool,
) -> tuple[Array, Array]:
    """(weight, velocity) after one step; the trust ratio is always in the velocity, the learning rate if `lr_in_momentum`.

    True: v ← m·v + rate·ratio·(g + d·w), w ← w - v (reference lars_optimizer.py). False: v ← m·v + ratio·(g + d·w),
    w ← w - rate·v, which is what NVIDIA's SGDwFASTLARS computes: its buffer holds rate·v of the last rate, and the momentum
    is multiplied by the quotient of the two rates (v0.6 and v0.7, common/fit.py).
    """
    ratio = trust_ratio(weight, gradient, coefficient, rule.decay) if rule.lars_adapt else 1.0
    update = ratio * (gradient + rule.decay * weight)
    if lr_in_momentum:
        velocity = momentum * velocity + rate * update
        return weight - velocity, velocity
    velocity = momentum * velocity + update
    return weight - rate * velocity, velocity


def with_momentum(
    settings: OptimizerSettings, weight: Array, velocity: Array, gradient: Array, rate: float, rule: ParameterRule
) -> tuple[Array, Array]:
    """(weight, velocity) after one step of the `sgd` or `lars` that `settings` describe."""
    if settings.name == "sgd" and not settings.lr_in_momentum:
        return sgd(weight, velocity, gradient, rate, settings.momentum, rule.decay)
    coefficient = settings.trust_coefficient
    return lars(weight, velocity, gradient, rate, settings.momentum, coefficient, rule, settings.lr_in_momentum)


def adam(
    weight: Array,
    mean: Array,
    square: Array,
    gradient: Array,
    rate: float,
    step: int,
    betas: tuple[float, float],
    epsilon: float,
    decay: float = 0.0,
) -> tuple[Array, Array, Array]:
    """(weight, mean, square) after update number `step`, from 1 (skipped steps do not count).

    m ← β1·m + (1 - β1)·g, v ← β2·v + (1 - β2)·g², w ← w - rate · m/(1 - β1^t) / (√(v/(1 - β2^t)) + ε): epsilon stands where
    PyTorch has it.
    """
    gradient = gradient + decay * weight
    mean = betas[0] * mean + (1 - betas[0]) * gradient
    square = betas[1] * square + (1 - betas[1]) * gradient**2
    corrected = np.sqrt(square / (1 - betas[1] ** step)) + epsilon
    return weight - rate * (mean / (1 - betas[0] ** step)) / corrected, mean, square


def rmsprop(
    weight: Array, square: Array, gradient: Array, rate: float, rho: float, epsilon: float, decay: float = 0.0
) -> tuple[Array, Array]:
    """(weight, square) after one step: s ← ρ·s + (1 - ρ)·g², w ← w - rate · g / (√s + ε).

    Keras 2.1's form, which the scaling article used (keras/optimizers.py): no centring, no momentum, s starts at 0.
    """
    gradient = gradient + decay * weight
    square = rho * square + (1 - rho) * gradient**2
    return weight - rate * gradient / (np.sqrt(square) + epsilon), square


SLOTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("sgd", "lars"), ("velocity",)), "adam": ("exp_avg", "exp_avg_sq"), "rmsprop": ("square",),
}  # fmt: skip
"""Optimizer to what it keeps of each parameter, 0 at first, as the frameworks' states call it."""


def updated(
    settings: OptimizerSettings,
    rule: ParameterRule,
    rate: float,
    step: int,
    gradient: Array,
    weight: Array,
    *slots: Array,
) -> tuple[Array, ...]:
    """The weight, and the optimizer's slots in the order of `SLOTS`, after update number `step` at the parameter's own rate."""
    first, *others = slots
    if settings.name == "adam":
        betas = (settings.beta1, settings.beta2)
        return adam(weight, first, others[0], gradient, rate, step, betas, settings.epsilon, rule.decay)
    if settings.name == "rmsprop":
        return rmsprop(weight, first, gradient, rate, settings.rho, settings.epsilon, rule.decay)
    return with_momentum(settings, weight, first, gradient, rate, rule)


def clip_factor(gradients: Arrays, clip_norm: float) -> float:
    """What all gradients are multiplied by so that their global L2 norm is at most `clip_norm`: min(1, clip_norm / norm)."""
    norm = float(np.sqrt(sum(float(np.square(gradient).sum()) for gradient in gradients.values())))
    return min(1.0, clip_norm / norm) if norm > 0 else 1.0


@dataclass
class LossScale:
    """The scale of the loss, step by step."""

    settings: LossScaling
    scale: float = 0.0
    """Of the next step."""
    clean_steps: int = 0
    """Steps in a row without overflow since the scale last changed."""

    def __post_init__(self) -> None:
        self.scale = self.scale or (self.settings.start if self.settings.mode != "none" else 1.0)

    def update(self, gradients: Mapping[str, Array]) -> bool:
        """True if the step is taken: every scaled gradient, summed over replicas, is finite. Otherwise it is skipped."""
        if self.settings.mode != "dynamic":
            return True
        if not all(np.isfinite(gradient).all() for gradient in gradients.values()):
            self.scale, self.clean_steps = self.scale * self.settings.backoff_factor, 0
            return False
        self.clean_steps += 1
        if self.clean_steps == self.settings.growth_interval:
            self.scale = min(self.scale * self.settings.growth_factor, self.settings.maximum)
            self.clean_steps = 0
        return True
