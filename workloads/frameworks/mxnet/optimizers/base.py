"""What all optimizers share: the sum over contexts, loss scaling, clipping, and undoing a step that is skipped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import mxnet as mx

from workloads.api import Array, Arrays, OptimizerSettings
from workloads.frameworks.mxnet.flat import FlatLayout
from workloads.frameworks.mxnet.optimizers.reduction import GradientSum
from workloads.frameworks.mxnet.optimizers.scaling import LossScale


class Optimizer:
    """`reduce`, `unscale`, `clip` and `update` are one step, in this order; they enqueue work and wait for nothing.

    `weights` and `gradients` hold one flat vector per context, arranged by `layout`. Copies of the weights stay equal: every
    context computes the same from the same numbers, or gets them from the one that did. After a step the gradients are
    undefined. Subclasses give `allocate`, `apply`, `mutable` and their state.
    """

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
        self.loss_scale = LossScale(settings.loss_scaling, [vector.context for vector in weights], replicas)
        self.allocate()

    # -- a step ---------------------------------------------------------------------------------------------------

    def reduce(self) -> None:
        """Sum the contexts' gradients."""
        self.sum.reduce()

    def unscale(self) -> None:
        """Under dynamic scaling: decide by the sums whether the step is taken, and divide them by the scale.

        A static scale is taken out within the operators that update.
        """
        if not self.loss_scale.dynamic:
            return
        overflows = [1 - mx.nd.all_finite(gradient) for gradient in self.gradients]
        self.loss_scale.decide([count == 0 for count in self.sum.over_parts(overflows)])
        self.loss_scale.unscale(self.gradients)

    def clip(self) -> None:
        """Cut the global L2 norm of the unscaled gradients to `clip_norm`, where there is one."""
        limit = self.settings.clip_norm
        if limit is None:
            return
        squares = self.sum.over_parts([mx.nd.dot(gradient, gradient) for gradient in self.gradients])
        for gradient, square in zip(self.gradients, squares, strict=True):
            norm = mx.nd.sqrt(square) * self.loss_scale.rescale
            mx.nd.broadcast_mul(gradient, mx.nd.minimum(limit / norm, 1.0), out=gradient)

    def update(self, rate: float) -> None:
        """One update of every context's weights at the scheduled rate; on overflow nothing changes but the scale."""
        if not self.loss_scale.dynamic:
            self.apply(rate)
            self.share()
            return
        kept = [(number, array, array.copy()) for number, arrays in enumerate(self.mutable()) for array in arrays]
        self.apply(rate)
        for number, array, old in kept:
            self.loss_scale.undo(number, array, old)
        self.share()
        self.loss_scale.advance()

    # -- for subclasses -------------------------------------------------------------------------------------------

    def allocate(self) -> None:
        """Make the optimizer's arrays, as they are before the first step."""
        raise NotImplementedError

    def apply(self, rate: float) -> None:
        """Update weights and optimizer state from `self.gradients` times `self.loss_scale.rescale`."""
        raise NotImplementedError

    def mutable(self) -> list[list[mx.nd.NDArray]]:
        """Per context the vectors that `apply` changes."""
        raise NotImplementedError

    def share(self) -> None:
        """Give each context what others have updated for it. Only sharded optimizers have to."""

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Array]:
        """Copies of the optimizer's arrays, and those of dynamic loss scaling, float32."""
        return self.loss_scale.state()

    def load_state(self, state: Arrays) -> None:
        self.loss_scale.load_state(state)

    def reset(self) -> None:
        self.loss_scale.reset()
