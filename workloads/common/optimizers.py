"""Optimizers, gradient clipping, and loss scaling in NumPy, as a specification.

The trainers of all frameworks implement the same formulas with the operators of their framework.
Tests compare the trainers with these functions in float64, one tensor at a time. The argument
`rate` of a function is the learning rate of the parameter: the scheduled learning rate times
`ParameterRule.lr_multiplier`.

The weight decay of AdamW is decoupled: rate · decay · w is subtracted from the weight w. The weight
decay of all other optimizers is coupled: decay · w is added to the gradient after clipping and
before the optimizer's update.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from workloads.api import (
    Array,
    Arrays,
    LossScaling,
    OptimizerSettings,
    ParameterRule,
    invalid_choice,
)


class Skips(Protocol):
    """Protocol of a framework's optimizer classes."""

    skips: ClassVar[bool]
    """Whether the optimizer can skip a step on the device. Dynamic loss scaling requires an
    optimizer that can skip steps.
    """


Kind = TypeVar("Kind", bound=Skips)


def chosen(settings: OptimizerSettings, kinds: Mapping[str, type[Kind]]) -> type[Kind]:
    """Return the optimizer class of a framework for these settings.

    With `lr_in_momentum`, the velocities of SGD include the learning rate. This variant of SGD uses
    the LARS class, because LARS without trust ratios computes the same update.

    Args:
        settings: Settings of the optimizer.
        kinds: Optimizer classes of the framework by name.

    Raises:
        ValueError: The framework does not have this optimizer, or the optimizer does not support
            dynamic loss scaling.
    """
    if settings.name not in kinds:
        raise invalid_choice("optimizer", settings.name, kinds)
    kind = kinds["lars" if settings.name == "sgd" and settings.lr_in_momentum else settings.name]
    if settings.loss_scaling.mode == "dynamic" and not kind.skips:
        raise ValueError(
            f"optimizer={settings.name}: this framework cannot skip steps of this optimizer, and"
            " dynamic loss scaling needs skipped steps. Set a static loss scale"
        )
    return kind


def sgd(
    weight: Array, velocity: Array, gradient: Array, rate: float, momentum: float, decay: float
) -> tuple[Array, Array]:
    """Return (weight, velocity) after one step: v ← m·v + (g + d·w), w ← w - rate·v.

    The velocity does not include the learning rate, as in TensorFlow and PyTorch. The velocity of
    MXNet's built-in SGD includes the learning rate. `lars` with `lr_in_momentum` and without a
    trust ratio computes the update of MXNet's SGD.
    """
    velocity = momentum * velocity + (gradient + decay * weight)
    return weight - rate * velocity, velocity


def trust_ratio(
    weight: Array, gradient: Array, coefficient: float, decay: float, epsilon: float = 0.0
) -> float:
    """Return coefficient · ‖w‖ / (‖g‖ + decay·‖w‖ + epsilon), or 1 if ‖w‖ or ‖g‖ is 0.

    The formula is from reference lars_util.py.
    """
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
    """Return (weight, velocity) after one step of LARS.

    The velocity includes the trust ratio. With `lr_in_momentum`, the velocity also includes the
    learning rate (reference lars_optimizer.py): v ← m·v + rate·ratio·(g + d·w), w ← w - v.

    Without `lr_in_momentum`, the update is v ← m·v + ratio·(g + d·w), w ← w - rate·v. NVIDIA's
    SGDwFASTLARS computes the same update as LARS without `lr_in_momentum` (v0.6 and v0.7,
    common/fit.py). SGDwFASTLARS stores rate·v with the previous rate, and multiplies the momentum
    by the quotient of the new and the previous rate.
    """
    ratio = trust_ratio(weight, gradient, coefficient, rule.decay) if rule.lars_adapt else 1.0
    update = ratio * (gradient + rule.decay * weight)
    if lr_in_momentum:
        velocity = momentum * velocity + rate * update
        return weight - velocity, velocity
    velocity = momentum * velocity + update
    return weight - rate * velocity, velocity


def with_momentum(
    settings: OptimizerSettings,
    weight: Array,
    velocity: Array,
    gradient: Array,
    rate: float,
    rule: ParameterRule,
) -> tuple[Array, Array]:
    """Return (weight, velocity) after one step of SGD or LARS, depending on the settings."""
    if settings.name == "sgd" and not settings.lr_in_momentum:
        return sgd(weight, velocity, gradient, rate, settings.momentum, rule.decay)
    coefficient = settings.trust_coefficient
    return lars(
        weight,
        velocity,
        gradient,
        rate,
        settings.momentum,
        coefficient,
        rule,
        settings.lr_in_momentum,
    )


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
    """Return (weight, mean, square) after update number `step`.

    The formulas are m ← β1·m + (1 - β1)·g, v ← β2·v + (1 - β2)·g², w ← w - rate · m/(1 - β1^t) /
    (√(v/(1 - β2^t)) + ε). Epsilon is added after the bias correction, as in PyTorch.

    Args:
        weight: Weight w.
        mean: First moment estimate m.
        square: Second moment estimate v.
        gradient: Gradient g.
        rate: Learning rate.
        step: Number of this update, t in the formula. The first update is number 1. Skipped steps
            are not counted.
        betas: β1 and β2.
        epsilon: ε.
        decay: L2 decay of the weight.
    """
    gradient = gradient + decay * weight
    mean = betas[0] * mean + (1 - betas[0]) * gradient
    square = betas[1] * square + (1 - betas[1]) * gradient**2
    corrected = np.sqrt(square / (1 - betas[1] ** step)) + epsilon
    return weight - rate * (mean / (1 - betas[0] ** step)) / corrected, mean, square


def adamw(
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
    """Return (weight, mean, square) after one update of Adam with decoupled weight decay.

    The update w ← w - rate·decay·w is followed by Adam's update without weight decay. The weight
    decay does not enter the moment estimates (arXiv 1711.05101, and torch.optim.AdamW). `adam`
    documents the arguments.
    """
    decayed = weight - rate * decay * weight
    return adam(decayed, mean, square, gradient, rate, step, betas, epsilon)


def rmsprop(
    weight: Array,
    square: Array,
    gradient: Array,
    rate: float,
    rho: float,
    epsilon: float,
    decay: float = 0.0,
) -> tuple[Array, Array]:
    """Return (weight, square) after one step of RMSprop.

    The formulas are s ← ρ·s + (1 - ρ)·g², w ← w - rate · g / (√s + ε). The update is RMSprop as in
    Keras 2.1 (keras/optimizers.py), which the article on scaling used. This RMSprop has no
    centering and no momentum, and s starts at 0.
    """
    gradient = gradient + decay * weight
    square = rho * square + (1 - rho) * gradient**2
    return weight - rate * gradient / (np.sqrt(square) + epsilon), square


SLOTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("sgd", "lars"), ("velocity",)),
    **dict.fromkeys(("adam", "adamw"), ("exp_avg", "exp_avg_sq")),
    "rmsprop": ("square",),
}  # fmt: skip
"""Names of the optimizer state arrays of each parameter, by optimizer.

The optimizers of the frameworks use the same names. All arrays start at 0.
"""


def updated(
    settings: OptimizerSettings,
    rule: ParameterRule,
    rate: float,
    step: int,
    gradient: Array,
    weight: Array,
    *slots: Array,
) -> tuple[Array, ...]:
    """Return the weight and the optimizer's state arrays after update number `step`.

    Args:
        settings: Settings of the optimizer.
        rule: Update rule of the parameter.
        rate: Learning rate of this parameter.
        step: Number of this update. The first update is number 1.
        gradient: Gradient of the weight.
        weight: Weight before the update.
        slots: Optimizer state arrays in the order of `SLOTS`.
    """
    first, *rest = slots
    if settings.name in ("adam", "adamw"):
        update = adam if settings.name == "adam" else adamw
        betas = (settings.beta1, settings.beta2)
        return update(
            weight, first, rest[0], gradient, rate, step, betas, settings.epsilon, rule.decay
        )
    if settings.name == "rmsprop":
        return rmsprop(weight, first, gradient, rate, settings.rho, settings.epsilon, rule.decay)
    return with_momentum(settings, weight, first, gradient, rate, rule)


def clip_factor(gradients: Arrays, clip_norm: float) -> float:
    """Return the factor that reduces the gradients' global L2 norm to at most `clip_norm`."""
    norm = float(np.sqrt(sum(float(np.square(gradient).sum()) for gradient in gradients.values())))
    return min(1.0, clip_norm / norm) if norm > 0 else 1.0


@dataclass
class LossScale:
    """Static or dynamic loss scale of a run."""

    settings: LossScaling
    scale: float = 0.0
    """Loss scale of the next step. The default is `start` in the settings."""
    clean_steps: int = 0
    """Number of consecutive steps without overflow since the last change of the scale."""

    def __post_init__(self) -> None:
        self.scale = self.scale or (self.settings.start if self.settings.mode != "none" else 1.0)

    def update(self, gradients: Mapping[str, Array]) -> bool:
        """Update the scale after a step, and return False if the step must be skipped.

        With dynamic loss scaling, a step is skipped if any gradient is not finite.

        Args:
            gradients: Gradients of the scaled loss, summed over all replicas.
        """
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
