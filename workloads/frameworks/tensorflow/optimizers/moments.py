"""Adam and RMSprop: rates for each value, from moving averages of squared gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from workloads.api import Array, Arrays, OptimizerSettings, ParameterRule
from workloads.frameworks.tensorflow.optimizers.base import Optimizer, where_taken
from workloads.frameworks.tensorflow.variables import Model


class Adam(Optimizer):
    """Adam with epsilon beside √(v / (1 - β2^t)), as in PyTorch.

    TensorFlow's operator adds epsilon to √v: rate and epsilon carry the corrections for t. Where every step is taken the host
    counts t and computes them; where steps can be skipped only the device knows t.
    """

    kinds = ("exp_avg", "exp_avg_sq")

    def __init__(self, model: Model, rules: Callable[[str], ParameterRule], settings: OptimizerSettings) -> None:
        super().__init__(model, rules, settings)
        # The operator works with float32 betas; corrections from the same values keep its averages unbiased.
        self.betas = (float(np.float32(settings.beta1)), float(np.float32(settings.beta2)))
        self.steps = 0
        self.taken_steps = None
        """The count on the device, where steps can be skipped."""
        if settings.loss_scaling.mode == "dynamic":
            self.taken_steps = tf.Variable(0.0, dtype=tf.float64, trainable=False)

    def scalars(self, rate: float) -> list[float]:
        """Corrected rate and epsilon; where steps can be skipped the bare rate."""
        if self.taken_steps is not None:
            return [rate]
        self.steps += 1
        correction1, correction2 = (1 - beta**self.steps for beta in self.betas)
        return [rate * math.sqrt(correction2) / correction1, self.settings.epsilon * math.sqrt(correction2)]

    def apply(self, gradients: Mapping[str, tf.Tensor], scalars: tf.Tensor, taken: tf.Tensor | None) -> None:
        """m ← β1·m + (1 - β1)·g, v ← β2·v + (1 - β2)·g², w ← w - rate·m / (√v + ε), rate and ε corrected.

        With powers of 0 the operator applies rate and epsilon as they are. A step that is not taken has g = 0, β = 1, rate 0.
        """
        rate, epsilon = self._corrected(scalars, taken)
        for name, gradient in gradients.items():
            means, squares = (self.slots[kind][name] for kind in self.kinds)
            tf.raw_ops.ResourceApplyAdam(
                var=self.parameters[name].handle, m=means.handle, v=squares.handle, beta1_power=0.0, beta2_power=0.0,
                lr=where_taken(taken, self.rate_of(name, rate), 0.0), epsilon=epsilon,
                beta1=where_taken(taken, self.betas[0], 1.0), beta2=where_taken(taken, self.betas[1], 1.0),
                grad=where_taken(taken, self.decayed(name, gradient), 0.0),
            )  # fmt: skip

    def _corrected(self, scalars: tf.Tensor, taken: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        """Rate and epsilon of this step; counts it."""
        if self.taken_steps is None:
            return scalars[0], scalars[1]
        step = self.taken_steps + 1.0
        correction1, correction2 = (1.0 - tf.pow(tf.constant(beta, tf.float64), step) for beta in self.betas)
        root = tf.sqrt(correction2)
        rate, epsilon = tf.cast(scalars[0], tf.float64) * root / correction1, self.settings.epsilon * root
        self.taken_steps.assign(where_taken(taken, step, self.taken_steps))
        return tf.cast(rate, tf.float32), tf.cast(epsilon, tf.float32)

    def reset(self) -> None:
        super().reset()
        self._count(0)

    def _count(self, steps: int) -> None:
        self.steps = steps
        if self.taken_steps is not None:
            self.taken_steps.assign(float(steps))

    def state(self) -> dict[str, Array]:
        """`adam.exp_avg` and `adam.exp_avg_sq`, flat in the order of the trained parameters, and `adam.step` (1,)."""
        moments = {}
        for kind, slots in self.slots.items():
            flat = [self.model.outside(slot.numpy()).reshape(-1) for slot in slots.values()]
            moments[f"adam.{kind}"] = np.concatenate(flat)
        steps = self.steps if self.taken_steps is None else self.taken_steps.numpy()
        return {**moments, "adam.step": np.array([steps], np.float32)}

    def load_state(self, state: Arrays) -> None:
        shapes = [self.model.shapes[name] for name in self.parameters]
        ends = np.cumsum([math.prod(shape) for shape in shapes])
        for kind, slots in self.slots.items():
            parts = np.split(state[f"adam.{kind}"], ends[:-1])
            for slot, part, shape in zip(slots.values(), parts, shapes, strict=True):
                slot.assign(self.model.inside(part.reshape(shape)))
        self._count(int(state["adam.step"][0]))


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
            slot.assign(where_taken(taken, square, slot))
            update = rate * gradient / (tf.sqrt(square) + epsilon)
            self.parameters[name].assign_sub(where_taken(taken, update, 0.0))
