"""Variables of a TensorFlow model by name, with conversion between two array layouts.

The canonical layout is the same in all frameworks. The model uses its layout only internally.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf

from workloads.api import Array, Arrays

Shapes = Mapping[str, tuple[int, ...]]
Tensors = dict[str, tf.Tensor]


class Model:
    """Parameters, running statistics, and constants in fp32. Subclasses add the network.

    Loaded weights and checkpoints have the canonical layout. A subclass whose variables have a
    different layout overrides `inside` and `outside`.
    """

    def __init__(
        self, parameters: Shapes, statistics: Shapes | None = None, constants: Shapes | None = None
    ) -> None:
        """Create the variables by name from their shapes in the canonical layout.

        Args:
            parameters: Shapes of the parameters.
            statistics: Shapes of arrays that training changes without gradients (batch norm).
            constants: Shapes of arrays that training never changes (frozen norms).
        """
        self.shapes = {**parameters, **(statistics or {}), **(constants or {})}
        self.parameters = {name: self._variable(name, trainable=True) for name in parameters}
        self.statistics = {name: self._variable(name, trainable=False) for name in statistics or {}}
        self.constants = {name: self._variable(name, trainable=False) for name in constants or {}}

    @property
    def variables(self) -> dict[str, tf.Variable]:
        return {**self.parameters, **self.statistics, **self.constants}

    def _variable(self, name: str, trainable: bool) -> tf.Variable:
        """Create a variable whose values are 0."""
        inside = self.inside(
            name, np.broadcast_to(np.float32(0), self.shapes[name])
        )  # The array is a view that needs no memory.
        return tf.Variable(tf.zeros(inside.shape), name=name, trainable=trainable)

    def inside(self, name: str, value: Array) -> Array:
        """Convert an array from the canonical layout to the model's layout.

        By default, the array is not changed.
        """
        return value

    def outside(self, name: str, value: Array) -> Array:
        """Return a copy of an array, converted from the model's to the canonical layout.

        `outside` is the inverse of `inside`.
        """
        return value.copy()

    def load(self, weights: Iterable[tuple[str, Array]]) -> None:
        """Reset the running statistics (means 0, variances 1), then load the weights.

        Running statistics in `weights` overwrite the reset values.
        """
        for name, statistic in self.statistics.items():
            statistic.assign(tf.fill(statistic.shape, 1.0 if name.endswith("var") else 0.0))
        variables = self.variables
        for name, value in weights:
            variables[name].assign(self.inside(name, value))

    def state_dict(self) -> dict[str, Array]:
        """Return copies of all variables in the canonical layout."""
        return {
            name: self.outside(name, variable.numpy()) for name, variable in self.variables.items()
        }

    def load_state_dict(self, state: Arrays) -> None:
        for name, variable in self.variables.items():
            variable.assign(self.inside(name, state[name]))
