"""What all optimizers share: the sum over contexts, static loss scaling, clipping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import mxnet as mx

from workloads.api import Array, Arrays, OptimizerSettings
from workloads.frameworks.mxnet.flat import FlatLayout
from workloads.frameworks.mxnet.optimizers.reduction import GradientSum


class Optimizer:
    """`reduce`, `clip` and `update` are one step, in this order; they enqueue work and wait for nothing.

    `weights` and `gradients` hold one flat vector per context, arranged by `layout`. Copies of the weights stay equal: every
    context computes the same from the same numbers, or gets them from the one that did. After a step the gradients are
    undefined. Subclasses give `allocate`, `apply` and their state.

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
        self.allocate()

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

    def allocate(self) -> None:
        """Make the optimizer's arrays, as they are before the first step."""
        raise NotImplementedError

    def apply(self, rate: float) -> None:
        """Update weights and optimizer state from `self.gradients` times `self.rescale`."""
        raise NotImplementedError

    def share(self) -> None:
        """Give each context what others have updated for it. Only sharded optimizers have to."""

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Array]:
        """Copies of the optimizer's arrays, float32."""
        raise NotImplementedError

    def load_state(self, state: Arrays) -> None:
        """Inverse of `state`."""
        raise NotImplementedError

    def reset(self) -> None:
        """Back to before the first step."""
        raise NotImplementedError
