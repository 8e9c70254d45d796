"""Adam on flat vectors: each context updates one segment for all (workloads/common/optimizers.py)."""

from __future__ import annotations

import math
from typing import ClassVar

import mxnet as mx
import numpy as np

from workloads.api import Array, Arrays
from workloads.frameworks.mxnet.optimizers.base import Optimizer


class Adam(Optimizer):
    """Each gradient is summed once, each weight updated once, each moment stored once.

    The owner of a segment updates its part of the weights and copies it to the others. Epsilon is added to √(v / (1 - β2^t)),
    as PyTorch does; MXNet's operator adds it to √v, so its learning rate and its epsilon both carry the correction. The
    operator computes 1 - β in float32, which for 0.999 is 4.7e-5 off; that factor stays in the moments and is taken out by
    the same two numbers.
    """

    sharded: ClassVar[bool] = True

    def allocate(self) -> None:
        self.betas, self.steps = (self.settings.beta1, self.settings.beta2), 0
        segments = self.sum.segments
        self.segments = [[vector[segment] for vector in self.weights] for segment in segments]
        """Per owner its segment of every context's weights."""
        self.stretches = [self.layout.stretches(segment) for segment in segments]
        owned = [parts[owner] for owner, parts in enumerate(self.segments)]
        moments = [[mx.nd.zeros_like(weight) for weight in owned] for _ in range(2)]
        self.vectors = list(zip(owned, self.gradients, *moments, strict=True))

    def apply(self, rate: float) -> None:
        self.steps += 1
        sums = [(1 - beta**self.steps) / (1 - beta) * _complement(beta) for beta in self.betas]
        rate, epsilon = rate * math.sqrt(sums[1]) / sums[0], self.settings.epsilon * math.sqrt(sums[1])
        always = {"beta1": self.betas[0], "beta2": self.betas[1], "epsilon": epsilon, "rescale_grad": self.rescale}
        for vectors, stretches in zip(self.vectors, self.stretches, strict=True):
            for rule, part in stretches:
                weight, *others = (vector[part] for vector in vectors)
                own = {"lr": rate * rule.rate_multiple, "wd": rule.decay}
                mx.nd.adam_update(weight, *others, **always, **own, out=weight)

    def share(self) -> None:
        for owner, parts in enumerate(self.segments):
            for other, part in enumerate(parts):
                if other != owner:
                    parts[owner].copyto(part)

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Array]:
        """Moments as flat vectors in the model's order of parameters, and the number of steps, float32 (1,)."""
        means, squares = (np.concatenate([one[kind].asnumpy() for one in self.vectors]) for kind in (2, 3))
        return {
            "adam.exp_avg": self.layout.to_names(means),
            "adam.exp_avg_sq": self.layout.to_names(squares),
            "adam.step": np.array([self.steps], np.float32),
        }

    def load_state(self, state: Arrays) -> None:
        self.steps = int(state["adam.step"][0])
        moments = [self.layout.from_names(state[name]) for name in ("adam.exp_avg", "adam.exp_avg_sq")]
        for (_, _, mean, square), segment in zip(self.vectors, self.sum.segments, strict=True):
            mean[:], square[:] = (moment[segment] for moment in moments)

    def reset(self) -> None:
        self.steps = 0
        for _, _, mean, square in self.vectors:
            mean[:], square[:] = 0.0, 0.0


def _complement(beta: float) -> float:
    """1 - β as MXNet's operator computes it."""
    return float(np.float32(1) - np.float32(beta))
