"""Settings of parameter updates.

Workloads define these settings. The optimizers and trainers of each framework apply the settings.

`workloads/common/optimizers.py` defines the formulas of the optimizers in NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ParameterRule:
    """Update rule of a parameter."""

    decay: float = 0.0
    """Coefficient of the weight decay.

    adamw subtracts rate · decay · w from the weight w (decoupled weight decay). All other
    optimizers add decay · w to the gradient (L2 regularization, coupled).
    """
    lars_adapt: bool = False
    """True if LARS multiplies the learning rate of this parameter by the trust ratio.

    False for parameters that LARS excludes, and with all other optimizers.
    """
    lr_multiplier: float = 1.0
    """Ratio of the parameter's learning rate to the scheduled learning rate (detectors: 2 for
    biases).
    """
    frozen: bool = False
    """True if the parameter is never updated. A frozen parameter has no gradient and no optimizer
    state, and the all-reduce does not include a frozen parameter.
    """


@dataclass(frozen=True)
class LossScaling:
    """Loss scaling: the loss is multiplied by a scale before the backward pass.

    The scale prevents small gradients from underflowing in fp16.
    """

    mode: str = "none"
    """`none`, `static`, or `dynamic`. With `static`, the scale is always `start`."""
    start: float = 1.0
    growth_factor: float = 2.0
    """Factor by which dynamic scaling increases the scale after `growth_interval` consecutive steps
    without an overflow.
    """
    growth_interval: int = 2_000
    backoff_factor: float = 0.5
    """Factor by which dynamic scaling decreases the scale after an overflow. Every replica skips
    the step that overflowed.
    """
    maximum: float = 2.0**24
    """Upper limit of the scale for dynamic scaling."""


@dataclass(frozen=True)
class OptimizerSettings:
    """Optimizer settings of a run.

    `Workload.learning_rate` returns the learning rate of each step.
    """

    name: str
    """Name of an optimizer in workloads/common/optimizers.py, such as `sgd` (with momentum) or
    `lars`.
    """
    momentum: float = 0.0
    """Momentum of sgd and lars."""
    lr_in_momentum: bool = False
    """True if the momentum buffer v of sgd and lars includes the learning rate r.

    With False, v = m v + g and w = w - r v. With True, v = m v + r g and w = w - v. Both formulas
    compute the same weights while r is constant.
    """
    trust_coefficient: float = 0.001
    """Trust coefficient (eta) of lars."""
    beta1: float = 0.9
    """Decay rate of the mean of gradients in adam and adamw."""
    beta2: float = 0.999
    """Decay rate of the mean of squared gradients in adam and adamw."""
    rho: float = 0.9
    """Decay rate of the mean of squared gradients in rmsprop."""
    epsilon: float = 1e-8
    """Constant that adamw and adam add to √(v / (1 - β2^t)), and that rmsprop adds to √s."""
    clip_norm: float | None = None
    """Maximum global L2 norm of all gradients. The gradients are summed over replicas and unscaled
    before clipping. None disables clipping.
    """
    accumulation_steps: int = 1
    """Number of micro-batches into which each replica's batch is split.

    The gradients of all micro-batches are summed for a single update.
    """
    loss_scaling: LossScaling = LossScaling()
