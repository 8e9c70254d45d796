"""SGD with momentum, and LARS."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from workloads.api import ParameterRule
from workloads.frameworks.tensorflow.optimizers.base import Optimizer


class Sgd(Optimizer):
    """SGD with momentum."""

    skips = True
    kinds = ("velocity",)

    def apply(self, gradients: Mapping[str, tf.Tensor], scalars: tf.Tensor, taken: tf.Tensor | None) -> None:
        """v ← m·v + (g + d·w), w ← w - rate·v; `scalars` hold the rate."""
        for name, gradient in gradients.items():
            self.accumulate(name, self.decayed(name, gradient), self.rate_of(name, scalars[0]), taken)

    def accumulate(self, name: str, update: tf.Tensor, rate: tf.Tensor, taken: tf.Tensor | None) -> None:
        """v ← m·v + update, w ← w - rate·v, in one operator; a step that is not taken is one of v ← 1·v + 0, w ← w - 0·v.

        A selection, not a branch: a branch would have to bring the decision to the host.
        """
        weight, velocity = self.parameters[name], self.slots["velocity"][name]
        values = {"lr": rate, "grad": update, "momentum": float(self.settings.momentum)}
        if taken is not None:
            without = {"lr": 0.0, "grad": 0.0, "momentum": 1.0}
            values = {name: tf.where(taken, value, without[name]) for name, value in values.items()}
        tf.raw_ops.ResourceApplyMomentum(var=weight.handle, accum=velocity.handle, **values)


class Lars(Sgd):
    """LARS: a trust ratio for each parameter, and maybe the rate, is inside the velocity; SGD of that kind has no ratios."""

    def apply(self, gradients: Mapping[str, tf.Tensor], scalars: tf.Tensor, taken: tf.Tensor | None) -> None:
        """inside: v ← m·v + rate·ratio·(g + d·w), w ← w - v; outside: v ← m·v + ratio·(g + d·w), w ← w - rate·v.

        `scalars` hold the rate.
        """
        one, inside = tf.constant(1.0), self.settings.momentum_rate == "inside"
        for name, gradient in gradients.items():
            weight, rule = self.parameters[name].read_value(), self.rules[name]
            rate = self.rate_of(name, scalars[0])
            before, after = (rate, one) if inside else (one, rate)
            scale = before * self._ratio(weight, gradient, rule) if rule.adapt else before
            self.accumulate(name, scale * self.decayed(name, gradient), after, taken)

    def _ratio(self, weight: tf.Tensor, gradient: tf.Tensor, rule: ParameterRule) -> tf.Tensor:
        """The trust ratio, on the device: nothing waits for it."""
        of_weight, of_gradient = tf.norm(weight), tf.norm(gradient)
        coefficient = self.settings.trust_coefficient
        ratio = coefficient * tf.math.divide_no_nan(of_weight, of_gradient + rule.decay * of_weight)
        return tf.where((of_weight > 0) & (of_gradient > 0), ratio, 1.0)
