"""Optimizers, clipping, and loss scaling in JAX, as pure functions.

workloads/common/optimizers.py defines the formulas.

The optimizer state is a dictionary of fp32 arrays. The names of the arrays are the same as in
`state_dict` of a trainer. The number of steps is counted on the device.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from workloads.api import Arrays, OptimizerSettings, ParameterRule
from workloads.common.optimizers import SLOTS, chosen

Values = dict[str, jax.Array]


class Sgd:
    """SGD with momentum."""

    skips: ClassVar[bool] = True
    """Whether the optimizer can skip a step. The JAX code selects between the old and the new
    arrays, so every optimizer can skip a step.
    """
    counts_steps: ClassVar[bool] = False
    """Whether the optimizer state contains the number of executed steps."""

    @staticmethod
    def updated(
        settings: OptimizerSettings,
        rule: ParameterRule,
        rate: jax.Array,
        step: jax.Array,
        *arrays: jax.Array,
    ) -> tuple[jax.Array, ...]:
        """Return (weight, velocity): v ← m·v + (g + d·w), w ← w - rate·v."""
        gradient, weight, velocity = arrays
        velocity = settings.momentum * velocity + (gradient + rule.decay * weight)
        return weight - rate * velocity, velocity


class Lars(Sgd):
    """LARS, with a trust ratio for each parameter.

    The class also implements SGD with the learning rate in the velocity, which is LARS without
    trust ratios.
    """

    @staticmethod
    def updated(
        settings: OptimizerSettings,
        rule: ParameterRule,
        rate: jax.Array,
        step: jax.Array,
        *arrays: jax.Array,
    ) -> tuple[jax.Array, ...]:
        """Return (weight, velocity).

        With `lr_in_momentum`, the update is v ← m·v + rate·ratio·(g + d·w), w ← w - v. Without
        `lr_in_momentum`, the update is v ← m·v + ratio·(g + d·w), w ← w - rate·v.
        """
        gradient, weight, velocity = arrays
        before, after = (rate, 1.0) if settings.lr_in_momentum else (1.0, rate)
        if rule.lars_adapt:
            of_weight, of_gradient = (
                jnp.linalg.norm(weight.ravel()),
                jnp.linalg.norm(gradient.ravel()),
            )
            below = of_gradient + rule.decay * of_weight
            adapts = (of_weight > 0) & (of_gradient > 0)
            before *= jnp.where(
                adapts, settings.trust_coefficient * of_weight / jnp.where(adapts, below, 1.0), 1.0
            )
        velocity = settings.momentum * velocity + before * (gradient + rule.decay * weight)
        return weight - after * velocity, velocity


class Adam(Sgd):
    """Adam with epsilon added to √(v / (1 - β2^t)), as in PyTorch."""

    counts_steps = True

    @staticmethod
    def updated(
        settings: OptimizerSettings,
        rule: ParameterRule,
        rate: jax.Array,
        step: jax.Array,
        *arrays: jax.Array,
    ) -> tuple[jax.Array, ...]:
        """Return the weight and Adam's two moment estimates.

        The formulas are m ← β1·m + (1 - β1)·g, v ← β2·v + (1 - β2)·g², w ← w - rate · m/(1 - β1^t)
        / (√(v/(1 - β2^t)) + ε).
        """
        gradient, weight, mean, square = arrays
        gradient = gradient + rule.decay * weight
        mean = settings.beta1 * mean + (1 - settings.beta1) * gradient
        square = settings.beta2 * square + (1 - settings.beta2) * gradient**2
        # In fp32, 1 - β^t would lose precision if β^t is close to 1.
        correction1, correction2 = (
            -jnp.expm1(step * math.log(beta)) for beta in (settings.beta1, settings.beta2)
        )
        return (
            weight
            - rate * (mean / correction1) / (jnp.sqrt(square / correction2) + settings.epsilon),
            mean,
            square,
        )


class AdamW(Adam):
    """Adam with decoupled weight decay, which does not enter the moment estimates."""

    @staticmethod
    def updated(
        settings: OptimizerSettings,
        rule: ParameterRule,
        rate: jax.Array,
        step: jax.Array,
        *arrays: jax.Array,
    ) -> tuple[jax.Array, ...]:
        """Return the weight and Adam's two moment estimates.

        The update w ← w - rate·d·w is followed by Adam's update without weight decay.
        """
        gradient, weight, *slots = arrays
        decayed = weight - rate * rule.decay * weight
        without_decay = replace(rule, decay=0.0)
        return Adam.updated(settings, without_decay, rate, step, gradient, decayed, *slots)


class Rmsprop(Sgd):
    """RMSprop as in Keras 2.1."""

    @staticmethod
    def updated(
        settings: OptimizerSettings,
        rule: ParameterRule,
        rate: jax.Array,
        step: jax.Array,
        *arrays: jax.Array,
    ) -> tuple[jax.Array, ...]:
        """Return (weight, mean square): s ← ρ·s + (1 - ρ)·g², w ← w - rate·g / (√s + ε)."""
        gradient, weight, square = arrays
        gradient = gradient + rule.decay * weight
        square = settings.rho * square + (1 - settings.rho) * gradient**2
        return weight - rate * gradient / (jnp.sqrt(square) + settings.epsilon), square


KINDS: dict[str, type[Sgd]] = {
    "sgd": Sgd,
    "lars": Lars,
    "adam": Adam,
    "adamw": AdamW,
    "rmsprop": Rmsprop,
}
COUNTED, SCALE, CLEAN_STEPS = "step", "loss_scale", "loss_scale.clean_steps"
"""Names of scalars in the optimizer state. `step` is the number of steps of Adam and AdamW.
`loss_scale` and `loss_scale.clean_steps`, the number of steps without overflow, exist only with
dynamic loss scaling.
"""


class Optimizer:
    """The workload's optimizer, clipping, and loss scale for the trained parameters.

    The object contains settings but no arrays.

    A replica's share of the loss is the sum of its loss terms divided by the total weight of all
    replicas. The share is multiplied by the number of replicas, so that fp16 gradients do not
    shrink with more replicas. The fp32 sum of gradients is then divided by the number of replicas.
    """

    def __init__(
        self, settings: OptimizerSettings, rules: Mapping[str, ParameterRule], replicas: int
    ) -> None:
        """Create the optimizer.

        Args:
            settings: Optimizer, clipping, and loss scaling of the workload.
            rules: Update rules of the trained parameters, by name.
            replicas: Number of replicas in the run.

        Raises:
            ValueError: The name of the optimizer is unknown.
        """
        self.settings, self.rules, self.scaling = settings, rules, settings.loss_scaling
        self.kind, self.slots = chosen(settings, KINDS), SLOTS[settings.name]
        self.dynamic = self.scaling.mode == "dynamic"
        self.multiple = 1.0 if self.scaling.mode == "none" else float(replicas)

    def fresh(self, shapes: Mapping[str, tuple[int, ...]]) -> Arrays:
        """Return the initial optimizer state, with the names of a trainer's `state_dict`.

        The arrays are fp32 in host memory.
        """
        slots = {
            f"{kind}.{name}": np.zeros(shapes[name], np.float32)
            for kind in self.slots
            for name in self.rules
        }
        counted = {COUNTED: 0.0} if self.kind.counts_steps else {}
        scale = {SCALE: self.scaling.start, CLEAN_STEPS: 0.0} if self.dynamic else {}
        return {
            **slots,
            **{name: np.array([value], np.float32) for name, value in {**counted, **scale}.items()},
        }

    def scale_of(self, state: Values) -> jax.Array | float:
        """Return the factor by which the loss is multiplied before differentiation."""
        if self.dynamic:
            return state[SCALE][0] * self.multiple
        return self.scaling.start * self.multiple if self.scaling.mode == "static" else 1.0

    def apply(
        self, weights: Values, state: Values, gradients: Values, rate: jax.Array
    ) -> tuple[Values, Values]:
        """Return the weights and the optimizer state after a step.

        `gradients` are the summed gradients of the scaled loss. If the gradients overflow, the step
        is skipped.
        """
        scale = self.scale_of(state)
        bare = {name: gradient / scale for name, gradient in gradients.items()}
        taken = (
            jnp.stack([jnp.isfinite(value).all() for value in gradients.values()]).all()
            if self.dynamic
            else None
        )
        bare = _clipped(bare, self.settings.clip_norm)
        step = state[COUNTED][0] + 1 if COUNTED in state else jnp.float32(0)
        after, kept = dict(weights), dict(state)
        for name, rule in self.rules.items():
            slots = [f"{kind}.{name}" for kind in self.slots]
            parameter_rate = rate * rule.lr_multiplier
            arrays = (bare[name], weights[name], *(state[slot] for slot in slots))
            after[name], *values = self.kind.updated(
                self.settings, rule, parameter_rate, step, *arrays
            )
            kept |= dict(zip(slots, values, strict=True))
        if COUNTED in state:
            kept[COUNTED] = step[None]
        if taken is None:
            return after, kept
        after, kept = jax.tree.map(
            lambda new, old: jnp.where(taken, new, old), (after, kept), (weights, state)
        )
        return after, {**kept, **self._next_scale(state, taken)}

    def _next_scale(self, state: Values, taken: jax.Array) -> Values:
        """Return the loss scale after a step that was executed or skipped.

        LossScale in workloads/common/optimizers.py defines how the loss scale changes.
        """
        scale, scaling = state[SCALE], self.scaling
        clean = jnp.where(taken, state[CLEAN_STEPS] + 1, 0.0)
        due = clean >= scaling.growth_interval
        grown = jnp.where(due, jnp.minimum(scale * scaling.growth_factor, scaling.maximum), scale)
        return {
            SCALE: jnp.where(taken, grown, scale * scaling.backoff_factor),
            CLEAN_STEPS: jnp.where(due, 0.0, clean),
        }


def _clipped(gradients: Values, clip_norm: float | None) -> Values:
    """Scale the gradients so that their global L2 norm is at most `clip_norm`.

    If `clip_norm` is None, the gradients are returned unchanged.
    """
    if clip_norm is None:
        return gradients
    norm = jnp.sqrt(sum(jnp.vdot(gradient, gradient) for gradient in gradients.values()))
    # The factor is min(1, clip_norm / norm). If the norm is 0, the factor is 1.
    factor = clip_norm / jnp.maximum(norm, clip_norm)
    return {name: gradient * factor for name, gradient in gradients.items()}
