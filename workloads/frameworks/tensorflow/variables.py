"""The variables of a TensorFlow model by canonical name, and how they are laid out outside and inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf

from workloads.api import Array, Arrays

Shapes = Mapping[str, tuple[int, ...]]
Tensors = dict[str, tf.Tensor]


class Model:
    """Parameters, running statistics and constants, all fp32; subclasses compute with them.

    Outside (weights that are loaded, states) arrays have their canonical layout; a subclass that computes with another one
    overrides `inside` and `outside`.
    """

    def __init__(self, parameters: Shapes, statistics: Shapes | None = None, constants: Shapes | None = None) -> None:
        """Name to canonical shape; `statistics` are what training moves without gradients (batch norm), `constants` what it
        never moves (frozen norms)."""
        self.shapes = {**parameters, **(statistics or {}), **(constants or {})}
        self.parameters = {name: self._variable(name, trainable=True) for name in parameters}
        self.statistics = {name: self._variable(name, trainable=False) for name in statistics or {}}
        self.constants = {name: self._variable(name, trainable=False) for name in constants or {}}

    @property
    def variables(self) -> dict[str, tf.Variable]:
        return {**self.parameters, **self.statistics, **self.constants}

    def _variable(self, name: str, trainable: bool) -> tf.Variable:
        """Zeros."""
        inside = self.inside(name, np.broadcast_to(np.float32(0), self.shapes[name]))  # a view: no memory
        return tf.Variable(tf.zeros(inside.shape), name=name, trainable=trainable)

    def inside(self, name: str, value: Array) -> Array:
        """An array of canonical layout as the model computes with it. Default: as it is."""
        return value

    def outside(self, name: str, value: Array) -> Array:
        """Inverse of `inside`, as a copy."""
        return value.copy()

    def load(self, weights: Iterable[tuple[str, Array]]) -> None:
        """Statistics as before training (means 0, variances 1), then the weights, which may bring statistics of their own."""
        for name, statistic in self.statistics.items():
            statistic.assign(tf.fill(statistic.shape, 1.0 if name.endswith("var") else 0.0))
        variables = self.variables
        for name, value in weights:
            variables[name].assign(self.inside(name, value))

    def state_dict(self) -> dict[str, Array]:
        """Copies of all variables, in canonical layout."""
        return {name: self.outside(name, variable.numpy()) for name, variable in self.variables.items()}

    def load_state_dict(self, state: Arrays) -> None:
        for name, variable in self.variables.items():
            variable.assign(self.inside(name, state[name]))
