"""SGD with momentum and LARS, one tensor at a time, in NumPy: what every framework's optimizer must compute.

Trainers implement the same arithmetic with their own operators; tests hold them against these functions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workloads.api import Array


@dataclass(frozen=True)
class Rule:
    """How one parameter is updated."""

    decay: float
    """Weight decay: decay · w is added to the gradient (L2, coupled)."""
    adapt: bool
    """LARS: whether the trust ratio applies; False where the parameter is excluded, and under SGD."""


def sgd(
    weight: Array, velocity: Array, gradient: Array, rate: float, momentum: float, decay: float
) -> tuple[Array, Array]:
    """(weight, velocity) after one step: v ← m·v + (g + d·w), w ← w - rate·v.

    The rate multiplies afterwards, as in TensorFlow and PyTorch (MXNet's own operator multiplies before).
    """
    velocity = momentum * velocity + (gradient + decay * weight)
    return weight - rate * velocity, velocity


def trust_ratio(weight: Array, gradient: Array, coefficient: float, decay: float, epsilon: float = 0.0) -> float:
    """coefficient · ‖w‖ / (‖g‖ + decay·‖w‖ + epsilon); 1 where either norm is 0 (reference lars_util.py)."""
    of_weight, of_gradient = float(np.linalg.norm(weight)), float(np.linalg.norm(gradient))
    if of_weight == 0.0 or of_gradient == 0.0:
        return 1.0
    return coefficient * of_weight / (of_gradient + decay * of_weight + epsilon)


def lars(
    weight: Array, velocity: Array, gradient: Array, rate: float, momentum: float, coefficient: float, rule: Rule
) -> tuple[Array, Array]:
    """(weight, velocity) after one step: v ← m·v + rate·ratio·(g + d·w), w ← w - v.

    The rate is inside the momentum buffer, unlike SGD above (reference lars_optimizer.py).
    """
    ratio = trust_ratio(weight, gradient, coefficient, rule.decay) if rule.adapt else 1.0
    velocity = momentum * velocity + rate * ratio * (gradient + rule.decay * weight)
    return weight - velocity, velocity
