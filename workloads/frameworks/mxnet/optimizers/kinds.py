"""Optimizers of the MXNet trainers.

The optimizers call MXNet's operators if these operators match the formulas of
workloads/common/optimizers.py.
"""

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
    """Base class of the optimizers.

    A step consists of `reduce`, `clip` and `update`, which enqueue work without waiting.

    `weights` and `gradients` contain one flat vector per context, arranged by `layout`. The weights
    are equal on all contexts. For each parameter, either every context computes the same update
    from the same gradients, or one context computes the update and copies the result to all other
    contexts. After a step, the gradients are undefined. Subclasses define `apply`.

    A replica's share of the loss is the sum of its loss terms divided by the total weight of all
    replicas. With a loss scale, the share is multiplied by the number of replicas, so that fp16
    gradients do not shrink with more replicas. The update operators then divide the fp32 sum of
    gradients by the number of replicas.
    """

    skips: ClassVar[bool] = False
    """Whether the optimizer can skip a step. MXNet's optimizers execute every step."""

    sharded: ClassVar[bool] = False
    """Whether each context updates one segment of the flat vector and copies the segment to all
    contexts. The optimizer state of a segment is then stored only on one context.
    """

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
        self.gradients = self.sum.local_sums
        scaling = settings.loss_scaling
        self.scale = scaling.start * replicas if scaling.mode == "static" else 1.0
        """Factor by which the loss is multiplied before the backward pass."""
        self.rescale = 1 / self.scale
        self.segments = (
            self.sum.segments if self.sharded else [slice(0, total(layout.shapes))] * len(weights)
        )
        """Segment of the flat vector that each context updates."""
        updated = [
            vector[segment] for vector, segment in zip(self.weights, self.segments, strict=True)
        ]
        self.rule_ranges = [layout.rule_ranges(segment) for segment in self.segments]
        """Update rules of each context, with the slices of `vectors` to which they apply."""
        self.slots = {
            kind: [mx.nd.zeros_like(vector) for vector in updated] for kind in SLOTS[settings.name]
        }
        self.vectors = list(zip(updated, self.gradients, *self.slots.values(), strict=True))
        """Vectors of each context: weights, gradients, and one vector for each array of the
        optimizer state.
        """
        self.prepare()

    def seed(self, number: int, weight: float) -> mx.nd.NDArray:
        """Return the initial gradient (1,) of the backward pass on context `number`.

        The loss is a sum of loss terms divided by `weight`.
        """
        return mx.nd.full((1,), self.scale / weight, self.weights[number].context)

    # -- a step
    # ----------------------------------------------------------------------------------------------

    def reduce(self) -> None:
        """Sum the gradients of all contexts."""
        self.sum.reduce()

    def clip(self) -> None:
        """Reduce the global L2 norm of the unscaled gradients to `clip_norm`, if it is set."""
        limit = self.settings.clip_norm
        if limit is None:
            return
        squares = self.sum.over_parts(
            [mx.nd.dot(gradient, gradient) for gradient in self.gradients]
        )
        for gradient, square in zip(self.gradients, squares, strict=True):
            norm = mx.nd.sqrt(square) * self.rescale
            mx.nd.broadcast_mul(gradient, mx.nd.minimum(limit / norm, 1.0), out=gradient)

    def update(self, rate: float) -> None:
        """Update the weights of every context with the scheduled learning rate `rate`."""
        self.apply(rate)
        self.share()

    # -- for subclasses
    # -------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Create further arrays and views that the steps need."""

    def apply(self, rate: float) -> None:
        """Update weights and optimizer state from `self.gradients` times `self.rescale`."""
        raise NotImplementedError

    def share(self) -> None:
        """Copy the updated weights of each segment to all contexts.

        Only sharded optimizers need this method.
        """

    def factor(self, name: str) -> float:
        """Return the ratio of an array of the optimizer state to its value in a checkpoint."""
        return 1.0

    # -- state
    # ----------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Array]:
        """Return float32 copies of the optimizer's arrays, with names `KIND.PARAMETER`."""
        state = {}
        for kind, vectors in self.slots.items():
            parts = [vector.asnumpy() for vector in vectors[: None if self.sharded else 1]]
            for name, part in views(np.concatenate(parts), self.layout.shapes).items():
                # Adding 0 replaces negative zeros.
                state[f"{kind}.{name}"] = part / np.float32(self.factor(name)) + np.float32(0)
        return state

    def load_state_dict(self, state: Arrays) -> None:
        """Load an optimizer state that `state_dict` returned."""
        self.reset()
        for kind, vectors in self.slots.items():
            parts = (
                state[f"{kind}.{name}"] * np.float32(self.factor(name))
                for name in self.layout.shapes
            )
            flat = np.concatenate([part.reshape(-1) for part in parts])
            for vector, segment in zip(vectors, self.segments, strict=True):
                vector[:] = flat[segment]

    def reset(self) -> None:
        """Reset the optimizer state to its initial values."""
        for vectors in self.slots.values():
            for vector in vectors:
                vector[:] = 0.0


class Sgd(Optimizer):
    """SGD in a single operator: v ← m·v + (g + d·w), w ← w - rate·v.

    MXNet's operator stores rate·v, but a change of the learning rate must not change v. The buffer
    contains -rate·v with the previous learning rate. The next step multiplies the momentum by the
    quotient of the new and the previous learning rate. While the learning rate is 0, the scale of
    the buffer does not change.
    """

    _last_rate = 1.0

    def factor(self, name: str) -> float:
        """Return the negative of the parameter's last nonzero learning rate."""
        return -self._last_rate * self.layout.rules[name].lr_multiplier

    def apply(self, rate: float) -> None:
        scale = rate or self._last_rate
        momentum = self.settings.momentum * scale / self._last_rate
        for (weights, gradients, buffers), rule_ranges in zip(
            self.vectors, self.rule_ranges, strict=True
        ):
            for rule, part in rule_ranges:
                constants = {
                    "lr": scale * rule.lr_multiplier,
                    "momentum": momentum,
                    "wd": rule.decay,
                }
                weight, gradient = weights[part], gradients[part]
                # At learning rate 0, the step discards the new weights.
                out = weight if rate else gradient
                mx.nd.sgd_mom_update(
                    weight, gradient, buffers[part], rescale_grad=self.rescale, **constants, out=out
                )
        self._last_rate = scale

    def reset(self) -> None:
        super().reset()
        self._last_rate = 1.0


class Lars(Optimizer):
    """LARS with the learning rate in the velocity.

    The formulas are v ← m·v + rate·ratio·(g + d·w), w ← w - v. All operators except the norms are
    MXNet's operators. MXNet's `multi_sum_sq` accumulates sequentially in float32, with an error of
    2e-3 for a large layer, so the norms are computed as scalar products. If no update rule has a
    trust ratio, the update is MXNet's SGD.
    """

    def factor(self, name: str) -> float:
        """Return -1, because MXNet's operators store velocities with the opposite sign."""
        return -1.0

    def prepare(self) -> None:
        """Create views of the parameters that have a trust ratio.

        The method also creates arrays of the weight decays and learning-rate multipliers of these
        parameters.
        """
        rules = {
            name: rule
            for name, rule in self.layout.rules.items()
            if rule.lars_adapt and not rule.frozen
        }
        adapted = [name for name in self.layout.shapes if name in rules]
        self.adapted = [
            [
                tuple(views(vector, self.layout.shapes)[name] for vector in vectors)
                for name in adapted
            ]
            for vectors in self.vectors
        ]
        decays, multiples = (
            [getattr(rules[name], kind) for name in adapted] for kind in ("decay", "lr_multiplier")
        )
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
        """Return the array that receives the new weights."""
        return weight

    def _plain_step(self, number: int, rate: float) -> None:
        """Update a context's parameters that have no trust ratio."""
        weights, gradients, buffers = self.vectors[number]
        for rule, part in self.rule_ranges[number]:
            if not rule.lars_adapt:
                weight, gradient = weights[part], gradients[part]
                mx.nd.sgd_mom_update(
                    weight, gradient, buffers[part], lr=self.inner_rate(rule, rate), wd=rule.decay,
                    momentum=self.settings.momentum, rescale_grad=self.rescale, out=self.out(weight,
                    gradient),
                )  # fmt: skip

    def inner_rate(self, rule: ParameterRule, rate: float) -> float:
        """Return the factor of the gradient in the buffer's update, without the trust ratio."""
        return rate * rule.lr_multiplier

    def _adapted_step(self, number: int, rates: mx.nd.NDArray) -> None:
        """Update a context's parameters that have a trust ratio.

        The trust ratios are computed on the device.

        `rates` (n,) are the learning rates of these parameters.
        """
        adapted, decays, rescale = self.adapted[number], self.decays[number], self.rescale
        squares = [
            mx.nd.concat(*map(_square, group), dim=0)
            for group in list(zip(*adapted, strict=True))[:2]
        ]
        rates = mx.nd.multi_lars(
            rates,
            *squares,
            decays,
            eta=self.settings.trust_coefficient,
            eps=0.0,
            rescale_grad=rescale,
        )
        # Each call updates only one parameter. With several parameters per call, the operator would
        # alternate between the parameters, which causes cache misses.
        for place, (weight, gradient, buffer) in enumerate(adapted):
            part = slice(place, place + 1)
            mx.nd.preloaded_multi_sgd_mom_update(
                weight, gradient, buffer, rates[part], decays[part], num_weights=1,
                momentum=self.settings.momentum, rescale_grad=rescale, out=self.out(weight,
                gradient),
            )  # fmt: skip


class LarsOutside(Lars):
    """LARS without the learning rate in the velocity.

    The formulas are v ← m·v + ratio·(g + d·w), w ← w - rate·v. The buffer contains -v, so that a
    change of the learning rate does not change the buffer.
    """

    def apply(self, rate: float) -> None:
        """Update the buffer and then the weights with LARS.

        MXNet's LARS operators update the buffer with learning rate 1. The weights that these
        operators compute are discarded, and the weights are updated separately.
        """
        for number, (weights, _, buffers) in enumerate(self.vectors):
            if self.adapted[number]:
                self._adapted_step(number, mx.nd.ones_like(self.multiples[number]))
            self._plain_step(number, 1.0)
            for rule, part in self.rule_ranges[number]:
                weight = weights[part]
                weight += (rate * rule.lr_multiplier) * buffers[part]

    def out(self, weight: mx.nd.NDArray, gradient: mx.nd.NDArray) -> mx.nd.NDArray:
        """Return the gradient array as the output of the operator, which discards the weights.

        The gradient may be overwritten, because the step does not need the gradient any more.
        """
        return gradient

    def inner_rate(self, rule: ParameterRule, rate: float) -> float:
        """Return 1, because the buffer does not include the learning rate."""
        return 1.0


def _square(array: mx.nd.NDArray) -> mx.nd.NDArray:
    """Return the sum of the squared elements, (1,)."""
    vector = array.reshape((-1,))
    return mx.nd.dot(vector, vector)


class Adam(Optimizer):
    """Adam whose optimizer state is sharded over the contexts.

    Each segment of the flat vector has an owner context. The owner sums the gradients of its
    segment, updates the weights of the segment, and copies the weights to all contexts. Epsilon is
    added to √(v / (1 - β2^t)), as in PyTorch. MXNet's operator adds epsilon to √v, so the bias
    correction is included in the learning rate and the epsilon that are passed to the operator. The
    operator computes 1 - β in float32, with an error of 4.7e-5 for 0.999. The error remains in the
    moment estimates. The corrected learning rate and epsilon compensate for the error.
    """

    sharded = True
    decoupled: ClassVar[bool] = False
    """True if the weight decay is subtracted from the weights (decoupled). False if it is added
    to the gradient.
    """

    def prepare(self) -> None:
        self.betas, self.steps = (self.settings.beta1, self.settings.beta2), 0

    def apply(self, rate: float) -> None:
        scheduled_rate = rate
        self.steps += 1
        complements = [
            float(np.float32(1) - np.float32(beta)) for beta in self.betas
        ]  # The rounding is the same as in the operator's 1 - β.
        sums = [
            (1 - b**self.steps) / (1 - b) * complement
            for b, complement in zip(self.betas, complements, strict=True)
        ]
        rate, epsilon = (
            rate * math.sqrt(sums[1]) / sums[0],
            self.settings.epsilon * math.sqrt(sums[1]),
        )
        always = {
            "beta1": self.betas[0],
            "beta2": self.betas[1],
            "epsilon": epsilon,
            "rescale_grad": self.rescale,
        }
        for vectors, rule_ranges in zip(self.vectors, self.rule_ranges, strict=True):
            for rule, part in rule_ranges:
                weight, *slots = (vector[part] for vector in vectors)
                coupled_decay = rule.decay
                if self.decoupled and rule.decay:
                    weight *= 1 - scheduled_rate * rule.lr_multiplier * rule.decay
                    coupled_decay = 0.0
                constants = {"lr": rate * rule.lr_multiplier, "wd": coupled_decay}
                mx.nd.adam_update(weight, *slots, **always, **constants, out=weight)

    def share(self) -> None:
        for owner, segment in enumerate(self.segments):
            for receiver, vector in enumerate(self.weights):
                if receiver != owner:
                    self.vectors[owner][0].copyto(vector[segment])

    def state_dict(self) -> dict[str, Array]:
        """Return Adam's moment estimates, and `step` (1,)."""
        return {**super().state_dict(), "step": np.array([self.steps], np.float32)}

    def load_state_dict(self, state: Arrays) -> None:
        super().load_state_dict(state)
        self.steps = int(state["step"][0])

    def reset(self) -> None:
        super().reset()
        self.steps = 0


class AdamW(Adam):
    """Adam with decoupled weight decay: w ← w - rate·d·w, followed by Adam without decay."""

    decoupled = True


class Rmsprop(Optimizer):
    """RMSprop: s ← ρ·s + (1 - ρ)·g², w ← w - rate · g / (√s + ε).

    MXNet's built-in operator is not used, because it adds epsilon under the square root.
    """

    def apply(self, rate: float) -> None:
        for vectors, rule_ranges in zip(self.vectors, self.rule_ranges, strict=True):
            for rule, part in rule_ranges:
                self._apply(rule, rate * rule.lr_multiplier, *(vector[part] for vector in vectors))

    def _apply(
        self,
        rule: ParameterRule,
        rate: float,
        weight: mx.nd.NDArray,
        gradient: mx.nd.NDArray,
        square: mx.nd.NDArray,
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


KINDS: dict[str, type[Optimizer]] = {
    "sgd": Sgd,
    "lars": Lars,
    "adam": Adam,
    "adamw": AdamW,
    "rmsprop": Rmsprop,
}


def build_optimizer(
    settings: OptimizerSettings, layout: FlatLayout, weights: Sequence[mx.nd.NDArray],
    gradients: Sequence[mx.nd.NDArray],
    replicas: int = 1,
) -> Optimizer:  # fmt: skip
    """Return the workload's optimizer.

    Args:
        settings: Settings of the optimizer.
        layout: Positions of the trained parameters in a flat vector.
        weights: One flat vector of weights per context.
        gradients: One flat vector of gradients per context.
        replicas: Number of replicas in all processes.

    Raises:
        ValueError: The optimizer is unknown.
    """
    kind = chosen(settings, KINDS)
    if settings.name == "lars" and not settings.lr_in_momentum:
        kind = LarsOutside
    return kind(settings, layout, weights, gradients, replicas)
