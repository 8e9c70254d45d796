"""Settings of parameter updates.

Workloads define them, and the optimizers and trainers of each framework apply them.

`workloads/common/optimizers.py` defines the arithmetic in NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ParameterRule:
    """Update rule of a parameter."""

    decay: float = 0.0
    """Weight decay: decay · w is added to the gradient (L2, coupled)."""
    lars_adapt: bool = False
    """Whether LARS applies the trust ratio.

    False for excluded parameters, and with every other optimizer.
    """
    lr_multiplier: float = 1.0
    """Factor from the scheduled learning rate to the rate of the parameter (detectors: 2 for
    biases).
    """
    frozen: bool = False
    """True: the parameter is never updated, and has neither a gradient, nor optimizer state, nor a
    part in the all-reduce.
    """


@dataclass(frozen=True)
class LossScaling:
    """Factor of the loss before the backward pass.

    It keeps small gradients from underflowing in fp16.
    """

    mode: str = "none"
    """`none`, `static` (always `start`) or `dynamic`."""
    start: float = 1.0
    growth_factor: float = 2.0
    """dynamic: factor of the scale after `growth_interval` consecutive steps without an overflow.
    """
    growth_interval: int = 2_000
    backoff_factor: float = 0.5
    """dynamic: factor of the scale after an overflow. Every replica skips the step."""
    maximum: float = 2.0**24
    """dynamic: upper limit of the scale."""


@dataclass(frozen=True)
class OptimizerSettings:
    """Optimizer of a run. `Workload.learning_rate` returns the learning rate of each step."""

    name: str
    """Name of an optimizer in workloads/common/optimizers.py: `sgd` (with momentum), `lars`, …"""
    momentum: float = 0.0
    """Momentum of sgd and lars."""
    lr_in_momentum: bool = False
    """sgd and lars: whether the momentum buffer v includes the learning rate r.

    False: v = m v + g, w = w - r v. True: v = m v + r g, w = w - v. Both compute the same weights
    while r is constant.
    """
    trust_coefficient: float = 0.001
    """lars: eta."""
    beta1: float = 0.9
    """adam: decay of the mean of gradients."""
    beta2: float = 0.999
    """adam: decay of the mean of squared gradients."""
    rho: float = 0.9
    """rmsprop: decay of the mean of squared gradients."""
    epsilon: float = 1e-8
    """Term that adam adds to √(v / (1 - β2^t)), and rmsprop to √s."""
    clip_norm: float | None = None
    """Limit of the global L2 norm of all gradients, applied after the sum over replicas and after
    unscaling. None: no limit.
    """
    accumulation_steps: int = 1
    """Number of equal parts of each replica's batch.

    The gradients of the parts are summed for a single update.
    """
    loss_scaling: LossScaling = LossScaling()
