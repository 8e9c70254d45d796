"""How parameters are updated: what a workload says, and every framework's optimizers and trainers do.

The arithmetic stands in `workloads/common/optimizers.py`, in NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ParameterRule:
    """How one parameter is updated."""

    decay: float = 0.0
    """Weight decay: decay · w is added to the gradient (L2, coupled)."""
    lars_adapt: bool = False
    """LARS: whether the trust ratio applies; False where the parameter is excluded, and under every other optimizer."""
    lr_multiplier: float = 1.0
    """The parameter's learning rate over the scheduled one (detectors: 2 for biases)."""
    frozen: bool = False
    """Never updated: no gradient, no optimizer state, no part of the all-reduce."""


@dataclass(frozen=True)
class LossScaling:
    """What the loss is multiplied by before the backward pass, so that small gradients survive fp16."""

    mode: str = "none"
    """`none`, `static` (always `start`) or `dynamic`."""
    start: float = 1.0
    growth_factor: float = 2.0
    """dynamic: after `growth_interval` steps in a row without overflow the scale is multiplied by this."""
    growth_interval: int = 2_000
    backoff_factor: float = 0.5
    """dynamic: after an overflow the scale is multiplied by this, and the step is skipped on every replica."""
    maximum: float = 2.0**24
    """dynamic: the scale never exceeds this."""


@dataclass(frozen=True)
class OptimizerSettings:
    """The optimizer of a run; the learning rate of each step is `Workload.learning_rate`."""

    name: str
    """One of workloads/common/optimizers.py: `sgd` (with momentum), `lars`, …"""
    momentum: float = 0.0
    """sgd and lars."""
    lr_in_momentum: bool = False
    """sgd and lars: where the learning rate r is applied. False: v = m v + g, w = w - r v. True: v = m v + r g, w = w - v.
    Both compute the same weights while r is constant."""
    trust_coefficient: float = 0.001
    """lars: eta."""
    beta1: float = 0.9
    """adam: decay of the mean of gradients."""
    beta2: float = 0.999
    """adam: decay of the mean of squared gradients."""
    rho: float = 0.9
    """rmsprop: decay of the mean of squared gradients."""
    epsilon: float = 1e-8
    """adam: added to √(v / (1 - β2^t)); rmsprop: added to √s."""
    clip_norm: float | None = None
    """The global L2 norm of all gradients is cut to this, after the sum over replicas and after unscaling; None: never."""
    accumulation_steps: int = 1
    """Equal pieces that each replica's batch is computed in, one after the other; gradients are summed, then one update."""
    loss_scaling: LossScaling = LossScaling()
