"""Adam and RMSprop: rates for each value, from moving averages of squared gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from workloads.api import Array, Arrays, OptimizerSettings, ParameterRule
from workloads.frameworks.tensorflow.optimizers.base import Optimizer
from workloads.frameworks.tensorflow.variables import Model


class Adam(Optimizer):
    """Adam with epsilon beside √(v / (1 - β2^t)), as in PyTorch.

    TensorFlow's operator adds epsilon to √v: rate and epsilon carry the corrections for t, which the host counts.
    """

    kinds = ("exp_avg", "exp_avg_sq")

    def __init__(self, model: Model, rules: Callable[[str], ParameterRule], settings: OptimizerSettings) -> None:
        super().__init__(model, rules, settings)
        # The operator works with float32 betas; corrections from the same values keep its averages unbiased.
        self.betas = (float(np.float32(settings.beta1)), float(np.float32(settings.beta2)))
        self.steps = 0

    def scalars(self, rate: float) -> list[float]:
        self.steps += 1
        correction1, correction2 = (1 - beta**self.steps for beta in self.betas)
        return [rate * math.sqrt(correction2) / correction1, self.settings.epsilon * math.sqrt(correction2)]

    def apply(self, gradients: Mapping[str, tf.Tensor], scalars: tf.Tensor, taken: tf.Tensor | None) -> None:
        """m ← β1·m + (1 - β1)·g, v ← β2·v + (1 - β2)·g², w ← w - rate·m / (√v + ε), rate and ε corrected.

        With powers of 0 the operator applies rate and epsilon as they are.
        """
        rate, epsilon = scalars[0], scalars[1]
        for name, gradient in gradients.items():
            means, squares = (self.slots[kind][name] for kind in self.kinds)
            tf.raw_ops.ResourceApplyAdam(
                var=self.parameters[name].handle, m=means.handle, v=squares.handle, beta1_power=0.0, beta2_power=0.0,
                lr=self.rate_of(name, rate), epsilon=epsilon, beta1=self.betas[0], beta2=self.betas[1],
                grad=self.decayed(name, gradient),
            )  # fmt: skip

    def reset(self) -> None:
        super().reset()
        self.steps = 0

    def state(self) -> dict[str, Array]:
        """`adam.exp_avg` and `adam.exp_avg_sq`, flat in the order of the trained parameters, and `adam.step` (1,)."""
        moments = {}
        for kind, slots in self.slots.items():
            flat = [self.model.outside(slot.numpy()).reshape(-1) for slot in slots.values()]
            moments[f"adam.{kind}"] = np.concatenate(flat)
        return {**moments, "adam.step": np.array([self.steps], np.float32)}

    def load_state(self, state: Arrays) -> None:
        shapes = [self.model.shapes[name] for name in self.parameters]
        ends = np.cumsum([math.prod(shape) for shape in shapes])
        for kind, slots in self.slots.items():
            parts = np.split(state[f"adam.{kind}"], ends[:-1])
            for slot, part, shape in zip(slots.values(), parts, shapes, strict=True):
                slot.assign(self.model.inside(part.reshape(shape)))
        self.steps = int(state["adam.step"][0])


class Rmsprop(Optimizer):
    """RMSprop in Keras 2.1's form. TensorFlow's own operator has epsilon under the root."""

    kinds = ("square",)

    def apply(self, gradients: Mapping[str, tf.Tensor], scalars: tf.Tensor, taken: tf.Tensor | None) -> None:
        """s ← ρ·s + (1 - ρ)·g², w ← w - rate·g / (√s + ε); `scalars` hold the rate."""
        rho, epsilon = self.settings.rho, self.settings.epsilon
        for name, bare in gradients.items():
            gradient, rate = self.decayed(name, bare), self.rate_of(name, scalars[0])
            slot = self.slots["square"][name]
            square = rho * slot + (1 - rho) * tf.square(gradient)
            slot.assign(square)
            self.parameters[name].assign_sub(rate * gradient / (tf.sqrt(square) + epsilon))
