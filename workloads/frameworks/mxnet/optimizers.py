"""SGD and LARS for MXNet trainers, by the rules that a workload gives to each parameter (workloads/common/optimizers.py).

All parameters of a context are views of one flat vector, all gradients of another; parameters of one rule lie side by
side (`by_rule`), so that a few operators update them all. Each context updates its own copy from the summed gradients:
the same operators on the same numbers, so the copies stay equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from math import prod

import mxnet as mx
import numpy as np

from workloads.api import Array, Arrays, ParameterRule
from workloads.frameworks.mxnet.trainer import views

Shapes = Mapping[str, tuple[int, ...]]
Rules = Callable[[str], ParameterRule]


def by_rule(shapes: Shapes, rules: Rules) -> dict[str, tuple[int, ...]]:
    """The same names and shapes, those of one rule side by side, the adapted ones first."""
    names = sorted(shapes, key=lambda name: (not rules(name).adapt, -rules(name).decay))
    return {name: shapes[name] for name in names}


class Optimizer:
    """What a trainer needs: `step(rate)`, `state()`, `load_state(state)`, `reset()`. Velocities start at 0.

    `shapes` in the order of `by_rule`; `weights` and `gradients` hold one flat vector per context. Gradients are divided by
    `loss_scale`. Buffers hold the velocities with the opposite sign, as MXNet's operators want them.
    """

    def __init__(
        self,
        shapes: Shapes,
        rules: Rules,
        weights: Sequence[mx.nd.NDArray],
        gradients: Sequence[mx.nd.NDArray],
        momentum: float,
        loss_scale: float = 1.0,
    ) -> None:
        self.shapes, self.momentum, self.rescale = dict(shapes), momentum, 1 / loss_scale
        self.rules = {name: rules(name) for name in shapes}
        self.buffers = [mx.nd.zeros_like(vector) for vector in weights]
        self.vectors = list(zip(weights, gradients, self.buffers, strict=True))

    def step(self, rate: float) -> None:
        """Enqueue one update of every context's weights; what is left in the gradients is undefined."""
        raise NotImplementedError

    @property
    def scale(self) -> float:
        """A buffer holds -scale · velocity."""
        return 1.0

    def state(self) -> dict[str, Array]:
        """Velocities under `velocity.<parameter>`."""
        buffers = views(self.buffers[0], self.shapes)
        return {f"velocity.{name}": 0.0 - buffer.asnumpy() / np.float32(self.scale) for name, buffer in buffers.items()}

    def load_state(self, state: Arrays) -> None:
        """Inverse of `state`."""
        self.reset()
        for vector in self.buffers:
            for name, buffer in views(vector, self.shapes).items():
                buffer[:] = 0.0 - state[f"velocity.{name}"]

    def reset(self) -> None:
        """As before the first step."""
        for buffer in self.buffers:
            buffer[:] = 0.0

    def stretches(self) -> Iterator[tuple[ParameterRule, slice]]:
        """Each rule with the part of a flat vector that its parameters take."""
        first = 0
        for rule, names in groupby(self.shapes, key=lambda name: self.rules[name]):
            stop = first + sum(prod(self.shapes[name]) for name in names)
            yield rule, slice(first, stop)
            first = stop


class Sgd(Optimizer):
    """v ← m·v + (g + d·w), w ← w - rate·v, in one operator.

    MXNet's operator keeps rate·v, which a change of the rate must not touch: the buffer holds -rate·v of the last rate, and
    the momentum of the next step carries the quotient of the two rates. While the rate is 0 the buffer keeps its scale.
    """

    _scale = 1.0

    @property
    def scale(self) -> float:
        """The last rate that was not 0."""
        return self._scale

    def step(self, rate: float) -> None:
        """See Optimizer."""
        scale = rate or self._scale
        constants = {"lr": scale, "momentum": self.momentum * scale / self._scale, "rescale_grad": self.rescale}
        for rule, part in self.stretches():
            for weights, gradients, buffers in self.vectors:
                weight, gradient = weights[part], gradients[part]
                out = weight if rate else gradient  # at rate 0 the new weights are thrown away
                mx.nd.sgd_mom_update(weight, gradient, buffers[part], wd=rule.decay, **constants, out=out)
        self._scale = scale

    def reset(self) -> None:
        """See Optimizer."""
        super().reset()
        self._scale = 1.0


class Lars(Optimizer):
    """v ← m·v + rate·ratio·(g + d·w), w ← w - v: MXNet's operators as they are, but for the norms.

    `multi_sum_sq` adds up in float32 one by one, 2e-3 off for a large layer; the scalar product is not.
    """

    def __init__(
        self,
        shapes: Shapes,
        rules: Rules,
        weights: Sequence[mx.nd.NDArray],
        gradients: Sequence[mx.nd.NDArray],
        momentum: float,
        coefficient: float,
        loss_scale: float = 1.0,
    ) -> None:
        super().__init__(shapes, rules, weights, gradients, momentum, loss_scale)
        self.coefficient = coefficient
        adapted = [name for name, rule in self.rules.items() if rule.adapt]
        self.adapted = [
            [tuple(views(vector, shapes)[name] for vector in vectors) for name in adapted] for vectors in self.vectors
        ]
        decays = [self.rules[name].decay for name in adapted]
        self.decays = [mx.nd.array(decays, ctx=vector.context) for vector in weights]

    def step(self, rate: float) -> None:
        """See Optimizer."""
        constants = {"momentum": self.momentum, "rescale_grad": self.rescale}
        for (weights, gradients, buffers), adapted, decays in zip(self.vectors, self.adapted, self.decays, strict=True):
            self._adapted_step(adapted, decays, rate, constants)
            for rule, part in self.stretches():
                if not rule.adapt:
                    weight = weights[part]
                    mx.nd.sgd_mom_update(
                        weight, gradients[part], buffers[part], lr=rate, wd=rule.decay, **constants, out=weight
                    )

    def _adapted_step(
        self,
        adapted: list[tuple[mx.nd.NDArray, ...]],
        decays: mx.nd.NDArray,
        rate: float,
        constants: Mapping[str, float],
    ) -> None:
        """Update those with a trust ratio, which is computed on the device."""
        squares = [mx.nd.concat(*map(_square, group), dim=0) for group in list(zip(*adapted, strict=True))[:2]]
        rates = mx.nd.multi_lars(
            mx.nd.full(decays.shape, rate, decays.context),
            *squares,
            decays,
            eta=self.coefficient,
            eps=0.0,
            rescale_grad=self.rescale,
        )
        # One parameter a call: the operator strides through all that it is given at once, which caches do not bear.
        for number, (weight, gradient, buffer) in enumerate(adapted):
            part = slice(number, number + 1)
            mx.nd.preloaded_multi_sgd_mom_update(
                weight, gradient, buffer, rates[part], decays[part], num_weights=1, **constants, out=weight
            )


def _square(array: mx.nd.NDArray) -> mx.nd.NDArray:
    """Sum of squares (1,)."""
    vector = array.reshape((-1,))
    return mx.nd.dot(vector, vector)
