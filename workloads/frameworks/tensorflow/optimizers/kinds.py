"""Optimizers of the TensorFlow trainers.

An optimizer selects the trained parameters, stores the optimizer state, and implements the formulas
of workloads/common/optimizers.py with TensorFlow operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np
import tensorflow as tf

from workloads.api import Array, Arrays, OptimizerSettings, ParameterRule, Workload
from workloads.common.optimizers import SLOTS, chosen
from workloads.frameworks.tensorflow.variables import Model


class Optimizer:
    """Base class of the optimizers, with the optimizer state and the update `apply`.

    The arrays of the optimizer state are initially 0. A `tf.function` may call `apply`, because
    `apply` does not depend on any Python value that changes from step to step.
    """

    skips: ClassVar[bool] = False
    """Whether `apply` supports the argument `taken`, which can skip an update."""

    def __init__(
        self, model: Model, rules: Callable[[str], ParameterRule], settings: OptimizerSettings
    ) -> None:
        self.model, self.settings = model, settings
        all_rules = {name: rules(name) for name in model.parameters}
        self.rules = {name: rule for name, rule in all_rules.items() if not rule.frozen}
        self.parameters = {name: model.parameters[name] for name in self.rules}
        """Trained parameters by name. Frozen parameters have no gradient and no optimizer state."""
        self.slots = {
            kind: {
                name: tf.Variable(tf.zeros(value.shape), trainable=False)
                for name, value in self.parameters.items()
            }
            for kind in SLOTS[settings.name]
        }
        """Optimizer state as variables, by the name of the state array and the name of the
        parameter. The variables have the layout of the parameters.
        """

    def scalars(self, rate: float) -> list[float]:
        """Return the scalars that `apply` needs for the next step, as numbers on the host.

        The trainer must call this method exactly once before each step.
        """
        return [rate]

    def apply(
        self, gradients: Mapping[str, tf.Tensor], scalars: tf.Tensor, taken: tf.Tensor | None
    ) -> None:
        """Run one update with gradients in the parameters' layout.

        Args:
            gradients: Gradients by parameter name.
            scalars: Result of the method `scalars`, fp32 (n,).
            taken: Boolean scalar on the device. False skips the update. None is equivalent to True.
        """
        raise NotImplementedError

    def reset(self) -> None:
        for slots in self.slots.values():
            for slot in slots.values():
                slot.assign(tf.zeros(slot.shape))

    def state_dict(self) -> dict[str, Array]:
        """Return copies of the optimizer state with names `KIND.PARAMETER`.

        The arrays have the canonical layout.
        """
        return {
            f"{kind}.{name}": self.model.outside(name, slot.numpy())
            for kind, slots in self.slots.items()
            for name, slot in slots.items()
        }

    def load_state_dict(self, state: Arrays) -> None:
        for kind, slots in self.slots.items():
            for name, slot in slots.items():
                slot.assign(self.model.inside(name, state[f"{kind}.{name}"]))

    def rate_of(self, name: str, rate: tf.Tensor) -> tf.Tensor:
        """Return the learning rate of a parameter, given the scheduled learning rate."""
        multiple = self.rules[name].lr_multiplier
        return rate if multiple == 1 else rate * multiple

    def decayed(self, name: str, gradient: tf.Tensor) -> tf.Tensor:
        """Return the gradient with weight decay, g + d·w."""
        decay = self.rules[name].decay
        return gradient + decay * self.parameters[name] if decay else gradient


class Sgd(Optimizer):
    """SGD with momentum."""

    skips = True

    def apply(
        self, gradients: Mapping[str, tf.Tensor], scalars: tf.Tensor, taken: tf.Tensor | None
    ) -> None:
        """Run v ← m·v + (g + d·w), w ← w - rate·v.

        `scalars` contains only the learning rate.
        """
        for name, gradient in gradients.items():
            self.accumulate(
                name, self.decayed(name, gradient), self.rate_of(name, scalars[0]), taken
            )

    def accumulate(
        self, name: str, update: tf.Tensor, rate: tf.Tensor, taken: tf.Tensor | None
    ) -> None:
        """Run v ← m·v + update, w ← w - rate·v in one operator.

        For a skipped step, the operator runs v ← 1·v + 0, w ← w - 0·v. The device selects the
        factors, because a branch would copy the decision to the host.
        """
        weight, velocity = self.parameters[name], self.slots["velocity"][name]
        values = {"lr": rate, "grad": update, "momentum": float(self.settings.momentum)}
        if taken is not None:
            without = {"lr": 0.0, "grad": 0.0, "momentum": 1.0}
            values = {name: tf.where(taken, value, without[name]) for name, value in values.items()}
        tf.raw_ops.ResourceApplyMomentum(var=weight.handle, accum=velocity.handle, **values)


class Lars(Sgd):
    """LARS, with a trust ratio for each parameter in the velocity.

    The velocity may also include the learning rate. The class also implements SGD with the learning
    rate in the velocity, which is LARS without trust ratios.
    """

    def apply(
        self, gradients: Mapping[str, tf.Tensor], scalars: tf.Tensor, taken: tf.Tensor | None
    ) -> None:
        """Run an update. `scalars` contains only the learning rate.

        With `lr_in_momentum`, the update is v ← m·v + rate·ratio·(g + d·w), w ← w - v. Without
        `lr_in_momentum`, the update is v ← m·v + ratio·(g + d·w), w ← w - rate·v.
        """
        unit, inside = tf.constant(1.0), self.settings.lr_in_momentum
        for name, gradient in gradients.items():
            weight, rule = self.parameters[name].read_value(), self.rules[name]
            rate = self.rate_of(name, scalars[0])
            before, after = (rate, unit) if inside else (unit, rate)
            scale = before * self._ratio(weight, gradient, rule) if rule.lars_adapt else before
            self.accumulate(name, scale * self.decayed(name, gradient), after, taken)

    def _ratio(self, weight: tf.Tensor, gradient: tf.Tensor, rule: ParameterRule) -> tf.Tensor:
        """Return the trust ratio on the device, without synchronization."""
        of_weight, of_gradient = tf.norm(weight), tf.norm(gradient)
        coefficient = self.settings.trust_coefficient
        ratio = coefficient * tf.math.divide_no_nan(of_weight, of_gradient + rule.decay * of_weight)
        return tf.where((of_weight > 0) & (of_gradient > 0), ratio, 1.0)


class Adam(Optimizer):
    """Adam with epsilon added to √(v / (1 - β2^t)), as in PyTorch.

    TensorFlow's operator adds epsilon to √v. The learning rate and epsilon that are passed to the
    operator therefore include the bias corrections for step t. The host counts the steps.
    """

    def __init__(
        self, model: Model, rules: Callable[[str], ParameterRule], settings: OptimizerSettings
    ) -> None:
        super().__init__(model, rules, settings)
        # TensorFlow's operator uses float32 betas. If the bias corrections use the same float32
        # betas, the corrected moment estimates are unbiased.
        self.betas = (float(np.float32(settings.beta1)), float(np.float32(settings.beta2)))
        self.steps = 0

    def scalars(self, rate: float) -> list[float]:
        self.steps += 1
        correction1, correction2 = (1 - beta**self.steps for beta in self.betas)
        return [
            rate * math.sqrt(correction2) / correction1,
            self.settings.epsilon * math.sqrt(correction2),
        ]

    def apply(
        self, gradients: Mapping[str, tf.Tensor], scalars: tf.Tensor, taken: tf.Tensor | None
    ) -> None:
        """Run m ← β1·m + (1 - β1)·g, v ← β2·v + (1 - β2)·g², w ← w - rate·m / (√v + ε).

        The learning rate and ε already include the bias corrections. With beta powers of 0,
        TensorFlow's operator applies no further bias correction.
        """
        rate, epsilon = scalars[0], scalars[1]
        for name, gradient in gradients.items():
            means, squares = (slots[name] for slots in self.slots.values())
            tf.raw_ops.ResourceApplyAdam(
                var=self.parameters[name].handle, m=means.handle, v=squares.handle, beta1_power=0.0,
                beta2_power=0.0,
                lr=self.rate_of(name, rate), epsilon=epsilon, beta1=self.betas[0],
                beta2=self.betas[1],
                grad=self.decayed(name, gradient),
            )  # fmt: skip

    def reset(self) -> None:
        super().reset()
        self.steps = 0

    def state_dict(self) -> dict[str, Array]:
        """Return Adam's moment estimates, and `step` (1,)."""
        return {**super().state_dict(), "step": np.array([self.steps], np.float32)}

    def load_state_dict(self, state: Arrays) -> None:
        super().load_state_dict(state)
        self.steps = int(state["step"][0])


class AdamW(Adam):
    """Adam with decoupled weight decay, which does not enter the moment estimates."""

    def scalars(self, rate: float) -> list[float]:
        """Return Adam's two scalars, followed by the scheduled learning rate."""
        return [*super().scalars(rate), rate]

    def decayed(self, name: str, gradient: tf.Tensor) -> tf.Tensor:
        """Return the gradient unchanged, because AdamW subtracts the decay from the weight."""
        return gradient

    def apply(
        self, gradients: Mapping[str, tf.Tensor], scalars: tf.Tensor, taken: tf.Tensor | None
    ) -> None:
        """Run w ← w - rate·d·w, followed by Adam's update without weight decay."""
        for name in gradients:
            weight, decay = self.parameters[name], self.rules[name].decay
            if decay:
                weight.assign_sub(self.rate_of(name, scalars[2]) * decay * weight)
        super().apply(gradients, scalars, taken)


class Rmsprop(Optimizer):
    """RMSprop as in Keras 2.1.

    TensorFlow's built-in operator is not used, because it adds epsilon under the square root.
    """

    def apply(
        self, gradients: Mapping[str, tf.Tensor], scalars: tf.Tensor, taken: tf.Tensor | None
    ) -> None:
        """Run s ← ρ·s + (1 - ρ)·g², w ← w - rate·g / (√s + ε).

        `scalars` contains only the learning rate.
        """
        rho, epsilon = self.settings.rho, self.settings.epsilon
        for name, bare in gradients.items():
            gradient, rate = self.decayed(name, bare), self.rate_of(name, scalars[0])
            slot = self.slots["square"][name]
            square = rho * slot + (1 - rho) * tf.square(gradient)
            slot.assign(square)
            self.parameters[name].assign_sub(rate * gradient / (tf.sqrt(square) + epsilon))


KINDS: dict[str, type[Optimizer]] = {
    "sgd": Sgd,
    "lars": Lars,
    "adam": Adam,
    "adamw": AdamW,
    "rmsprop": Rmsprop,
}


def build_optimizer(model: Model, workload: Workload) -> Optimizer:
    """Return the workload's optimizer for the trained parameters.

    Raises:
        ValueError: The optimizer is unknown.
    """
    settings = workload.optimizer()
    return chosen(settings, KINDS)(model, workload.parameter_rule, settings)
