"""Adam on flat vectors: each context updates one segment for all (workloads/common/optimizers.py)."""

from __future__ import annotations

import math
from typing import ClassVar

import mxnet as mx
import numpy as np

from workloads.api import Array, Arrays
from workloads.frameworks.mxnet.optimizers.base import Optimizer

SMALLEST_BETA = 1e-30
"""A β of 0 has no logarithm; β^t of this one is 0 in float32 too, beside 1."""


class Adam(Optimizer):
    """Each gradient is summed once, each weight updated once, each moment stored once.

    The owner of a segment updates its part of the weights and copies it to the others. Epsilon is added to √(v / (1 - β2^t)),
    as PyTorch does; MXNet's operator adds it to √v, so its learning rate and its epsilon both carry the correction. The
    operator computes 1 - β in float32, which for 0.999 is 4.7e-5 off; that factor stays in the moments and is taken out by
    the same two numbers.
    """

    sharded: ClassVar[bool] = True

    def allocate(self) -> None:
        """Segments of the weights, and moments beside them."""
        self.betas, self.steps = (self.settings.beta1, self.settings.beta2), 0
        segments = self.sum.segments
        self.segments = [[vector[segment] for vector in self.weights] for segment in segments]
        """Per owner its segment of every context's weights."""
        self.stretches = [self.layout.stretches(segment) for segment in segments]
        owned = [parts[owner] for owner, parts in enumerate(self.segments)]
        moments = [[mx.nd.zeros_like(weight) for weight in owned] for _ in range(2)]
        self.vectors = list(zip(owned, self.gradients, *moments, strict=True))

    def mutable(self) -> list[list[mx.nd.NDArray]]:
        """Each owner's weights and moments."""
        return [[weight, mean, square] for weight, _, mean, square in self.vectors]

    def apply(self, rate: float) -> None:
        """Update each owner's segment, by one operator for each rule."""
        self.steps += 1
        sums = [(1 - beta**self.steps) / (1 - beta) * _complement(beta) for beta in self.betas]
        rate, epsilon = rate * math.sqrt(sums[1]) / sums[0], self.settings.epsilon * math.sqrt(sums[1])
        for vectors, stretches in zip(self.vectors, self.stretches, strict=True):
            for rule, part in stretches:
                weight, *others = (vector[part] for vector in vectors)
                constants = {**self.constants(rule.decay), "lr": rate * rule.rate_multiple, "epsilon": epsilon}
                mx.nd.adam_update(weight, *others, **constants, out=weight)

    def constants(self, decay: float) -> dict[str, float]:
        """What the operator takes in every step."""
        beta1, beta2 = self.betas
        return {"beta1": beta1, "beta2": beta2, "wd": decay, "rescale_grad": self.loss_scale.rescale}

    def share(self) -> None:
        """Copy each owner's weights to all other contexts."""
        for owner, parts in enumerate(self.segments):
            for other, part in enumerate(parts):
                if other != owner:
                    parts[owner].copyto(part)

    # -- state ----------------------------------------------------------------------------------------------------

    def step_count(self) -> float:
        """Updates made; skipped steps do not count."""
        return self.steps

    def set_step_count(self, count: float) -> None:
        """Inverse of `step_count`."""
        self.steps = int(count)

    def state(self) -> dict[str, Array]:
        """Moments as flat vectors in the model's order of parameters, and the number of steps, float32 (1,)."""
        means, squares = (np.concatenate([one[kind].asnumpy() for one in self.vectors]) for kind in (2, 3))
        return {
            "adam.exp_avg": self.layout.to_names(means),
            "adam.exp_avg_sq": self.layout.to_names(squares),
            "adam.step": np.array([self.step_count()], np.float32),
            **super().state(),
        }

    def load_state(self, state: Arrays) -> None:
        super().load_state(state)
        self.set_step_count(float(state["adam.step"][0]))
        moments = [self.layout.from_names(state[name]) for name in ("adam.exp_avg", "adam.exp_avg_sq")]
        for (_, _, mean, square), segment in zip(self.vectors, self.sum.segments, strict=True):
            mean[:], square[:] = (moment[segment] for moment in moments)

    def reset(self) -> None:
        super().reset()
        self.set_step_count(0)
        for _, _, mean, square in self.vectors:
            mean[:], square[:] = 0.0, 0.0


class SkippingAdam(Adam):
    """Adam under dynamic loss scaling: the host does not know how many steps were taken, so each context counts them.

    The moments are those of Adam above; the weights are updated by a rate that lies on the device.
    """

    def allocate(self) -> None:
        """The same, and a count of steps on every context."""
        super().allocate()
        self.counts = [mx.nd.zeros((1,), ctx=vector.context) for vector in self.weights]
        self.no_decay = [mx.nd.zeros_like(count) for count in self.counts]

    def mutable(self) -> list[list[mx.nd.NDArray]]:
        """Each owner's weights, moments and count."""
        return [[*arrays, count] for arrays, count in zip(super().mutable(), self.counts, strict=True)]

    def apply(self, rate: float) -> None:
        """Moments by Adam's operator at rate 0, then the weights."""
        for number, (vectors, stretches) in enumerate(zip(self.vectors, self.stretches, strict=True)):
            self.counts[number] += 1
            first, second = (self._sum(self.counts[number], beta) for beta in self.betas)
            root = mx.nd.sqrt(second)
            for rule, part in stretches:
                weight, gradient, mean, square = (vector[part] for vector in vectors)
                constants = self.constants(rule.decay)
                mx.nd.adam_update(weight, gradient, mean, square, lr=0.0, **constants, out=gradient)
                divisor = mx.nd.broadcast_add(mx.nd.sqrt(square), root * self.settings.epsilon)
                own = root / first * (rate * rule.rate_multiple), self.no_decay[number]
                mx.nd.preloaded_multi_sgd_update(weight, mean / divisor, *own, num_weights=1, out=weight)

    def _sum(self, count: mx.nd.NDArray, beta: float) -> mx.nd.NDArray:
        """What a constant gradient of 1 would have made of a moment, (1,): 1 - β^t without the rounding of β^t near 1."""
        return mx.nd.expm1(count * math.log(max(beta, SMALLEST_BETA))) * (-_complement(beta) / (1 - beta))

    def step_count(self) -> float:
        """Read from the first context."""
        return float(self.counts[0].asscalar())

    def set_step_count(self, count: float) -> None:
        """On every context."""
        for one in self.counts:
            one[:] = count


def _complement(beta: float) -> float:
    """1 - β as MXNet's operator computes it."""
    return float(np.float32(1) - np.float32(beta))
