"""SGD with momentum, and LARS, by MXNet's own operators (workloads/common/optimizers.py)."""

from __future__ import annotations

import mxnet as mx
import numpy as np

from workloads.api import Array, Arrays, ParameterRule
from workloads.frameworks.mxnet.flat import views
from workloads.frameworks.mxnet.optimizers.base import Optimizer


class Momentum(Optimizer):
    """Buffers of velocities, with the opposite sign, as MXNet's operators want them. Velocities start at 0."""

    def allocate(self) -> None:
        self.buffers = [mx.nd.zeros_like(vector) for vector in self.weights]
        self.vectors = list(zip(self.weights, self.gradients, self.buffers, strict=True))

    def factor(self, name: str) -> float:
        """A parameter's buffer holds -factor · velocity."""
        return 1.0

    def state(self) -> dict[str, Array]:
        """Velocities under `velocity.<parameter>`."""
        buffers = views(self.buffers[0].asnumpy(), self.layout.shapes)
        return {f"velocity.{name}": 0.0 - part / np.float32(self.factor(name)) for name, part in buffers.items()}

    def load_state(self, state: Arrays) -> None:
        self.reset()
        for vector in self.buffers:
            for name, buffer in views(vector, self.layout.shapes).items():
                buffer[:] = 0.0 - state[f"velocity.{name}"] * np.float32(self.factor(name))

    def reset(self) -> None:
        for buffer in self.buffers:
            buffer[:] = 0.0


class Sgd(Momentum):
    """v ← m·v + (g + d·w), w ← w - rate·v, in one operator.

    MXNet's operator keeps rate·v, which a change of the rate must not touch: the buffer holds -rate·v of the last rate, and
    the momentum of the next step carries the quotient of the two rates. While the rate is 0 the buffer keeps its scale.
    """

    _last_rate = 1.0

    def factor(self, name: str) -> float:
        """The parameter's last rate that was not 0."""
        return self._last_rate * self.layout.rules[name].rate_multiple

    def apply(self, rate: float) -> None:
        scale = rate or self._last_rate
        momentum = self.settings.momentum * scale / self._last_rate
        for rule, part in self.layout.stretches():
            constants = {"lr": scale * rule.rate_multiple, "momentum": momentum, "wd": rule.decay}
            for weights, gradients, buffers in self.vectors:
                weight, gradient = weights[part], gradients[part]
                out = weight if rate else gradient  # at rate 0 the new weights are thrown away
                mx.nd.sgd_mom_update(weight, gradient, buffers[part], rescale_grad=self.rescale, **constants, out=out)
        self._last_rate = scale

    def reset(self) -> None:
        super().reset()
        self._last_rate = 1.0


class Lars(Momentum):
    """v ← m·v + rate·ratio·(g + d·w), w ← w - v: MXNet's operators as they are, but for the norms.

    `multi_sum_sq` adds up in float32 one by one, 2e-3 off for a large layer; the scalar product is not. Where no rule has a
    trust ratio this is MXNet's own SGD.
    """

    def allocate(self) -> None:
        super().allocate()
        rules = {name: rule for name, rule in self.layout.rules.items() if rule.adapt and not rule.frozen}
        adapted = [name for name in self.layout.shapes if name in rules]
        self.adapted = [
            [tuple(views(vector, self.layout.shapes)[name] for vector in vectors) for name in adapted]
            for vectors in self.vectors
        ]
        decays, multiples = ([getattr(rules[name], kind) for name in adapted] for kind in ("decay", "rate_multiple"))
        self.decays, self.multiples = (
            [mx.nd.array(values, ctx=vector.context) for vector in self.weights] if adapted else []
            for values in (decays, multiples)
        )

    def apply(self, rate: float) -> None:
        for number in range(len(self.vectors)):
            if self.adapted[number]:
                self._adapted_step(number, self.multiples[number] * rate)
            self._plain_step(number, rate)

    def out(self, weight: mx.nd.NDArray, gradient: mx.nd.NDArray) -> mx.nd.NDArray:
        """Where the operators put the new weights."""
        return weight

    def _plain_step(self, number: int, rate: float) -> None:
        """Update those of a context that have no trust ratio."""
        weights, gradients, buffers = self.vectors[number]
        for rule, part in self.layout.stretches():
            if not rule.adapt:
                weight, gradient = weights[part], gradients[part]
                mx.nd.sgd_mom_update(
                    weight, gradient, buffers[part], lr=self.inner_rate(rule, rate), wd=rule.decay,
                    momentum=self.settings.momentum, rescale_grad=self.rescale, out=self.out(weight, gradient),
                )  # fmt: skip

    def inner_rate(self, rule: ParameterRule, rate: float) -> float:
        """What the buffer's new part is multiplied by, beside the trust ratio."""
        return rate * rule.rate_multiple

    def _adapted_step(self, number: int, rates: mx.nd.NDArray) -> None:
        """Update those of a context that have a trust ratio, which is computed on the device; `rates` (n,) of each."""
        adapted, decays, rescale = self.adapted[number], self.decays[number], self.rescale
        squares = [mx.nd.concat(*map(_square, group), dim=0) for group in list(zip(*adapted, strict=True))[:2]]
        rates = mx.nd.multi_lars(
            rates, *squares, decays, eta=self.settings.trust_coefficient, eps=0.0, rescale_grad=rescale
        )
        # One parameter a call: the operator strides through all that it is given at once, which caches do not bear.
        for place, (weight, gradient, buffer) in enumerate(adapted):
            part = slice(place, place + 1)
            mx.nd.preloaded_multi_sgd_mom_update(
                weight, gradient, buffer, rates[part], decays[part], num_weights=1,
                momentum=self.settings.momentum, rescale_grad=rescale, out=self.out(weight, gradient),
            )  # fmt: skip


class LarsOutside(Lars):
    """v ← m·v + ratio·(g + d·w), w ← w - rate·v: the buffer holds -v, so that no change of the rate touches it."""

    def apply(self, rate: float) -> None:
        """The buffer by LARS's operators at rate 1, whose weights are thrown away; then the weights."""
        for number, (weights, _, buffers) in enumerate(self.vectors):
            if self.adapted[number]:
                self._adapted_step(number, mx.nd.ones_like(self.multiples[number]))
            self._plain_step(number, 1.0)
            for rule, part in self.layout.stretches():
                weight = weights[part]
                weight += (rate * rule.rate_multiple) * buffers[part]

    def out(self, weight: mx.nd.NDArray, gradient: mx.nd.NDArray) -> mx.nd.NDArray:
        """Over the gradient, which nobody needs any more."""
        return gradient

    def inner_rate(self, rule: ParameterRule, rate: float) -> float:
        """The parameter's own rate comes after the buffer."""
        return 1.0


def _square(array: mx.nd.NDArray) -> mx.nd.NDArray:
    """Sum of squares (1,)."""
    vector = array.reshape((-1,))
    return mx.nd.dot(vector, vector)
