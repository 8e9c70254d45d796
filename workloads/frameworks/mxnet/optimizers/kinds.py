"""The optimizers, by MXNet's own operators where these compute what workloads/common/optimizers.py says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import mxnet as mx
import numpy as np

from workloads.api import Array, Arrays, OptimizerSettings, ParameterRule
from workloads.common.optimizers import SLOTS, chosen
from workloads.frameworks.mxnet.flat import FlatLayout, total, views
from workloads.frameworks.mxnet.optimizers.reduction import GradientSum


class Optimizer:
    """`reduce`, `clip` and `update` are one step, in this order; they enqueue work and wait for nothing.

    `weights` and `gradients` hold one flat vector per context, arranged by `layout`. Copies of the weights stay equal: every
    context computes the same from the same numbers, or gets them from the one that did. After a step the gradients are
    undefined. Subclasses give `apply`.

    A replica's part of the loss is its sum over the weight of all replicas. Where there is a scale it is also multiplied by
    their number, so that what fp16 has to hold does not shrink with them; the sum of gradients, fp32, is divided by it
    within the operators that update.
    """

    skips: ClassVar[bool] = False
    """Every step is taken."""

    sharded: ClassVar[bool] = False
    """Whether each context updates one segment for all, so that optimizer state exists once."""

    def __init__(
        self,
        settings: OptimizerSettings,
        layout: FlatLayout,
        weights: Sequence[mx.nd.NDArray],
        gradients: Sequence[mx.nd.NDArray],
        replicas: int,
    ) -> None:
        self.settings, self.layout, self.weights = settings, layout, list(weights)
        self.sum = GradientSum(gradients, self.sharded)
        self.gradients = self.sum.own
        scaling = settings.loss_scaling
        self.scale = scaling.start * replicas if scaling.mode == "static" else 1.0
        """What the loss is multiplied by."""
        self.rescale = 1 / self.scale
        self.segments = self.sum.segments if self.sharded else [slice(0, total(layout.shapes))] * len(weights)
        """What each context updates."""
        owned = [vector[segment] for vector, segment in zip(self.weights, self.segments, strict=True)]
        self.rule_ranges = [layout.rule_ranges(segment) for segment in self.segments]
        """Of each context its rules with their parts of `vectors`."""
        self.slots = {kind: [mx.nd.zeros_like(vector) for vector in owned] for kind in SLOTS[settings.name]}
        self.vectors = list(zip(owned, self.gradients, *self.slots.values(), strict=True))
        """Of each context what it updates: weights, gradients, and a vector of each kind."""
        self.prepare()

    def seed(self, number: int, weight: float) -> mx.nd.NDArray:
        """What the backward pass of a sum of losses over `weight` starts from on context `number`, (1,)."""
        return mx.nd.full((1,), self.scale / weight, self.weights[number].context)

    # -- a step ---------------------------------------------------------------------------------------------------

    def reduce(self) -> None:
        """Sum the contexts' gradients."""
        self.sum.reduce()

    def clip(self) -> None:
        """Cut the global L2 norm of the unscaled gradients to `clip_norm`, where there is one."""
        limit = self.settings.clip_norm
        if limit is None:
            return
        squares = self.sum.over_parts([mx.nd.dot(gradient, gradient) for gradient in self.gradients])
        for gradient, square in zip(self.gradients, squares, strict=True):
            norm = mx.nd.sqrt(square) * self.rescale
            mx.nd.broadcast_mul(gradient, mx.nd.minimum(limit / norm, 1.0), out=gradient)

    def update(self, rate: float) -> None:
        """One update of every context's weights at the scheduled rate."""
        self.apply(rate)
        self.share()

    # -- for subclasses -------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Make what else steps need."""

    def apply(self, rate: float) -> None:
        """Update weights and optimizer state from `self.gradients` times `self.rescale`."""
        raise NotImplementedError

    def share(self) -> None:
        """Give each context what others have updated for it. Only sharded optimizers have to."""

    def factor(self, name: str) -> float:
        """A parameter's slots hold this many times its state."""
        return 1.0

    # -- state ----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Array]:
        """Copies of the optimizer's arrays, float32, by the names `KIND.PARAMETER`."""
        found = {}
        for kind, vectors in self.slots.items():
            parts = [vector.asnumpy() for vector in vectors[: None if self.sharded else 1]]
            for name, part in views(np.concatenate(parts), self.layout.shapes).items():
                found[f"{kind}.{name}"] = part / np.float32(self.factor(name)) + np.float32(0)  # no zero is negative
        return found

    def load_state_dict(self, state: Arrays) -> None:
        """Inverse of `state`."""
        self.reset()
        for kind, vectors in self.slots.items():
            parts = (state[f"{kind}.{name}"] * np.float32(self.factor(name)) for name in self.layout.shapes)
            flat = np.concatenate([part.reshape(-1) for part in parts])
            for vector, segment in zip(vectors, self.segments, strict=True):
                vector[:] = flat[segment]

    def reset(self) -> None:
        """Back to before the first step."""
        for vectors in self.slots.values():
            for vector in vectors:
                vector[:] = 0.0


class Sgd(Optimizer):
    """v ← m·v + (g + d·w), w ← w - rate·v, in one operator.

    MXNet's operator keeps rate·v, which a change of the rate must not touch: the buffer holds -rate·v of the last rate, and
    the momentum of the next step carries the quotient of the two rates. While the rate is 0 the buffer keeps its scale.
    """

    _last_rate = 1.0

    def factor(self, name: str) -> float:
        """The parameter's last rate that was not 0, with the opposite sign."""
        return -self._last_rate * self.layout.rules[name].lr_multiplier

    def apply(self, rate: float) -> None:
        scale = rate or self._last_rate
        momentum = self.settings.momentum * scale / self._last_rate
        for (weights, gradients, buffers), rule_ranges in zip(self.vectors, self.rule_ranges, strict=True):
            for rule, part in rule_ranges:
                constants = {"lr": scale * rule.lr_multiplier, "momentum": momentum, "wd": rule.decay}
                weight, gradient = weights[part], gradients[part]
                out = weight if rate else gradient  # at rate 0 the new weights are thrown away
                mx.nd.sgd_mom_update(weight, gradient, buffers[part], rescale_grad=self.rescale, **constants, out=out)
        self._last_rate = scale

    def reset(self) -> None:
        super().reset()
        self._last_rate = 1.0


class Lars(Optimizer):
    """v ← m·v + rate·ratio·(g + d·w), w ← w - v: MXNet's operators as they are, but for the norms.

    `multi_sum_sq` adds up in float32 one by one, 2e-3 off for a large layer; the scalar product is not. Where no rule has a
    trust ratio this is MXNet's own SGD.
    """

    def factor(self, name: str) -> float:
        """MXNet's operators keep velocities with the opposite sign."""
        return -1.0

    def prepare(self) -> None:
        """Those with a trust ratio one by one, and their decays and rates as arrays."""
        rules = {name: rule for name, rule in self.layout.rules.items() if rule.lars_adapt and not rule.frozen}
        adapted = [name for name in self.layout.shapes if name in rules]
        self.adapted = [
            [tuple(views(vector, self.layout.shapes)[name] for vector in vectors) for name in adapted]
            for vectors in self.vectors
        ]
        decays, multiples = ([getattr(rules[name], kind) for name in adapted] for kind in ("decay", "lr_multiplier"))
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
        for rule, part in self.rule_ranges[number]:
            if not rule.lars_adapt:
                weight, gradient = weights[part], gradients[part]
                mx.nd.sgd_mom_update(
                    weight, gradient, buffers[part], lr=self.inner_rate(rule, rate), wd=rule.decay,
                    momentum=self.settings.momentum, rescale_grad=self.rescale, out=self.out(weight, gradient),
                )  # fmt: skip

    def inner_rate(self, rule: ParameterRule, rate: float) -> float:
        """What the buffer's new part is multiplied by, beside the trust ratio."""
        return rate * rule.lr_multiplier

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
            for rule, part in self.rule_ranges[number]:
                weight = weights[part]
                weight += (rate * rule.lr_multiplier) * buffers[part]

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


class Adam(Optimizer):
    """Each gradient is summed once, each weight updated once, each moment stored once.

    The owner of a segment updates its part of the weights and copies it to the others. Epsilon is added to √(v / (1 - β2^t)),
    as PyTorch does; MXNet's operator adds it to √v, so its learning rate and its epsilon both carry the correction. The
    operator computes 1 - β in float32, which for 0.999 is 4.7e-5 off; that factor stays in the moments and is taken out by
    the same two numbers.
    """

    sharded = True

    def prepare(self) -> None:
        self.betas, self.steps = (self.settings.beta1, self.settings.beta2), 0

    def apply(self, rate: float) -> None:
        self.steps += 1
        complements = [float(np.float32(1) - np.float32(beta)) for beta in self.betas]  # as the operator computes 1 - β
        sums = [(1 - b**self.steps) / (1 - b) * own for b, own in zip(self.betas, complements, strict=True)]
        rate, epsilon = rate * math.sqrt(sums[1]) / sums[0], self.settings.epsilon * math.sqrt(sums[1])
        always = {"beta1": self.betas[0], "beta2": self.betas[1], "epsilon": epsilon, "rescale_grad": self.rescale}
        for vectors, rule_ranges in zip(self.vectors, self.rule_ranges, strict=True):
            for rule, part in rule_ranges:
                weight, *others = (vector[part] for vector in vectors)
                own = {"lr": rate * rule.lr_multiplier, "wd": rule.decay}
                mx.nd.adam_update(weight, *others, **always, **own, out=weight)

    def share(self) -> None:
        for owner, segment in enumerate(self.segments):
            for other, vector in enumerate(self.weights):
                if other != owner:
                    self.vectors[owner][0].copyto(vector[segment])

    def state_dict(self) -> dict[str, Array]:
        """The moments, and `step` (1,)."""
        return {**super().state_dict(), "step": np.array([self.steps], np.float32)}

    def load_state_dict(self, state: Arrays) -> None:
        super().load_state_dict(state)
        self.steps = int(state["step"][0])

    def reset(self) -> None:
        super().reset()
        self.steps = 0


class Rmsprop(Optimizer):
    """s ← ρ·s + (1 - ρ)·g², w ← w - rate · g / (√s + ε). MXNet's own operator adds epsilon below the root."""

    def apply(self, rate: float) -> None:
        for vectors, rule_ranges in zip(self.vectors, self.rule_ranges, strict=True):
            for rule, part in rule_ranges:
                self._apply(rule, rate * rule.lr_multiplier, *(vector[part] for vector in vectors))

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


KINDS: dict[str, type[Optimizer]] = {"sgd": Sgd, "lars": Lars, "adam": Adam, "rmsprop": Rmsprop}


def build_optimizer(
    settings: OptimizerSettings, layout: FlatLayout, weights: Sequence[mx.nd.NDArray], gradients: Sequence[mx.nd.NDArray],
    replicas: int = 1,
) -> Optimizer:  # fmt: skip
    """The optimizer that a workload names, on one flat vector of weights and one of gradients per context; `replicas`: of
    all processes.

    Raises ValueError for one that there is not.
    """
    kind = chosen(settings, KINDS)
    if settings.name == "lars" and not settings.lr_in_momentum:
        kind = LarsOutside
    return kind(settings, layout, weights, gradients, replicas)
