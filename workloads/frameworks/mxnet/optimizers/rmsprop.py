"""RMSprop (workloads/common/optimizers.py). MXNet's own operator adds epsilon below the root, so it is composed here."""

from __future__ import annotations

import mxnet as mx

from workloads.api import Array, Arrays, ParameterRule
from workloads.frameworks.mxnet.flat import views
from workloads.frameworks.mxnet.optimizers.base import Optimizer


class Rmsprop(Optimizer):
    """s ← ρ·s + (1 - ρ)·g², w ← w - rate · g / (√s + ε), with s from 0."""

    def allocate(self) -> None:
        self.squares = [mx.nd.zeros_like(vector) for vector in self.weights]

    def apply(self, rate: float) -> None:
        for vectors in zip(self.weights, self.gradients, self.squares, strict=True):
            for rule, part in self.layout.stretches():
                self._apply(rule, rate * rule.rate_multiple, *(vector[part] for vector in vectors))

    def _apply(
        self, rule: ParameterRule, rate: float, weight: mx.nd.NDArray, gradient: mx.nd.NDArray, square: mx.nd.NDArray
    ) -> None:
        rho = self.settings.rho
        if self.rescale != 1:
            gradient *= self.rescale
        if rule.decay:
            gradient += rule.decay * weight
        square *= rho
        square += (1 - rho) * mx.nd.square(gradient)
        gradient *= rate
        gradient /= mx.nd.sqrt(square) + self.settings.epsilon
        weight -= gradient

    def state(self) -> dict[str, Array]:
        """Means of squares under `square.<parameter>`."""
        squares = views(self.squares[0].asnumpy(), self.layout.shapes)
        return {f"square.{name}": part.copy() for name, part in squares.items()}

    def load_state(self, state: Arrays) -> None:
        for vector in self.squares:
            for name, square in views(vector, self.layout.shapes).items():
                square[:] = state[f"square.{name}"]

    def reset(self) -> None:
        for square in self.squares:
            square[:] = 0.0
