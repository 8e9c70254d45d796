"""What every optimizer shares: which parameters it updates, its state, steps that are skipped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import tensorflow as tf

from workloads.api import Array, Arrays, OptimizerSettings, ParameterRule
from workloads.frameworks.tensorflow.variables import Model


class Optimizer:
    """State, 0 at first, and `apply`, which a `tf.function` may call: nothing in it depends on a Python number of the step."""

    skips: ClassVar[bool] = False
    """Whether `apply` looks at `taken`."""
    kinds: ClassVar[tuple[str, ...]]
    """What is kept for each parameter, as it is called in a state: `velocity`, …"""

    def __init__(self, model: Model, rules: Callable[[str], ParameterRule], settings: OptimizerSettings) -> None:
        self.model, self.settings = model, settings
        every = {name: rules(name) for name in model.parameters}
        self.rules = {name: rule for name, rule in every.items() if not rule.frozen}
        self.parameters = {name: model.parameters[name] for name in self.rules}
        """Those that are trained: frozen ones have no gradient and no state."""
        self.slots = {
            kind: {name: tf.Variable(tf.zeros(value.shape), trainable=False) for name, value in self.parameters.items()}
            for kind in self.kinds
        }
        """Kind to parameter to variable, laid out like the parameter."""

    def scalars(self, rate: float) -> list[float]:
        """What `apply` takes for the next step, as numbers of the host; called once before each step."""
        return [rate]

    def apply(self, gradients: Mapping[str, tf.Tensor], scalars: tf.Tensor, taken: tf.Tensor | None) -> None:
        """One update by gradients in the parameters' layout; `scalars` (n,) are fp32.

        `taken`: a boolean scalar on the device, False to leave everything as it is; None: always taken.
        """
        raise NotImplementedError

    def reset(self) -> None:
        for slots in self.slots.values():
            for slot in slots.values():
                slot.assign(tf.zeros(slot.shape))

    def state(self) -> dict[str, Array]:
        """Copies of the state by the names `KIND.PARAMETER`, in canonical layout."""
        return {
            f"{kind}.{name}": self.model.outside(slot.numpy())
            for kind, slots in self.slots.items()
            for name, slot in slots.items()
        }

    def load_state(self, state: Arrays) -> None:
        for kind, slots in self.slots.items():
            for name, slot in slots.items():
                slot.assign(self.model.inside(state[f"{kind}.{name}"]))

    def rate_of(self, name: str, rate: tf.Tensor) -> tf.Tensor:
        """The parameter's own rate."""
        multiple = self.rules[name].rate_multiple
        return rate if multiple == 1 else rate * multiple

    def decayed(self, name: str, gradient: tf.Tensor) -> tf.Tensor:
        """g + d·w."""
        decay = self.rules[name].decay
        return gradient + decay * self.parameters[name] if decay else gradient
