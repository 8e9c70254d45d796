"""SGD and LARS for TensorFlow trainers, by the rule that a workload gives to each parameter (see optimizers.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tensorflow as tf

from workloads.api import ParameterRule


class Optimizer:
    """Velocities, 0 at first, and `apply`, which a `tf.function` may call: nothing in it depends on a Python number."""

    def __init__(
        self, parameters: Mapping[str, tf.Variable], rules: Callable[[str], ParameterRule], momentum: float
    ) -> None:
        self.parameters, self.momentum = dict(parameters), momentum
        self.rules = {name: rules(name) for name in self.parameters}
        self.velocities = {
            f"velocity.{name}": tf.Variable(tf.zeros(value.shape), trainable=False)
            for name, value in self.parameters.items()
        }
        """By the names under which they stand in a trainer's state; laid out like the parameters."""

    def apply(self, gradients: Mapping[str, tf.Tensor], rate: tf.Tensor) -> None:
        """One update; `rate` is an fp32 scalar."""
        raise NotImplementedError

    def reset(self) -> None:
        """As before the first step."""
        for velocity in self.velocities.values():
            velocity.assign(tf.zeros(velocity.shape))

    def _accumulate(self, name: str, update: tf.Tensor, rate: tf.Tensor) -> None:
        """v ← m·v + update, w ← w - rate·v, in one operator."""
        weight, velocity = self.parameters[name], self.velocities[f"velocity.{name}"]
        tf.raw_ops.ResourceApplyMomentum(
            var=weight.handle, accum=velocity.handle, lr=rate, grad=update, momentum=self.momentum
        )


class Sgd(Optimizer):
    """SGD with momentum."""

    def apply(self, gradients: Mapping[str, tf.Tensor], rate: tf.Tensor) -> None:
        """v ← m·v + (g + d·w), w ← w - rate·v."""
        for name, gradient in gradients.items():
            self._accumulate(name, _decayed(gradient, self.parameters[name], self.rules[name]), rate)


class Lars(Optimizer):
    """LARS."""

    def __init__(
        self,
        parameters: Mapping[str, tf.Variable],
        rules: Callable[[str], ParameterRule],
        momentum: float,
        coefficient: float,
    ) -> None:
        super().__init__(parameters, rules, momentum)
        self.coefficient = coefficient

    def apply(self, gradients: Mapping[str, tf.Tensor], rate: tf.Tensor) -> None:
        """v ← m·v + rate·ratio·(g + d·w), w ← w - v."""
        one = tf.constant(1.0)
        for name, gradient in gradients.items():
            weight, rule = self.parameters[name].read_value(), self.rules[name]
            scale = rate * self._ratio(weight, gradient, rule) if rule.adapt else rate
            self._accumulate(name, scale * _decayed(gradient, weight, rule), one)

    def _ratio(self, weight: tf.Tensor, gradient: tf.Tensor, rule: ParameterRule) -> tf.Tensor:
        """The trust ratio, on the device: nothing waits for it."""
        of_weight, of_gradient = tf.norm(weight), tf.norm(gradient)
        ratio = self.coefficient * tf.math.divide_no_nan(of_weight, of_gradient + rule.decay * of_weight)
        return tf.where((of_weight > 0) & (of_gradient > 0), ratio, 1.0)


def _decayed(gradient: tf.Tensor, weight: tf.Tensor, rule: ParameterRule) -> tf.Tensor:
    """g + d·w."""
    return gradient + rule.decay * weight if rule.decay else gradient
