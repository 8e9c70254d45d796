"""Loss scaling: what the backward pass starts from, whether a step is taken, and what is undone where it is not.

Under dynamic scaling the scale, the count of clean steps and the decision live on each context, as arrays (1,): every
context computes the same from the same sums, and the host waits for none of them (workloads/common/optimizers.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import mxnet as mx
import numpy as np

from workloads.api import Array, Arrays, LossScaling

MODES = ("none", "static", "dynamic")


class LossScale:
    """The scale of the loss on every context. Raises ValueError for a mode that there is not.

    A replica's part of the loss is its sum over the weight of all replicas. Where there is a scale it is also multiplied by
    their number, so that what fp16 has to hold does not shrink with them; the sum of gradients, fp32, is divided by it.
    """

    def __init__(self, settings: LossScaling, contexts: Sequence[mx.Context], replicas: int = 1) -> None:
        if settings.mode not in MODES:
            raise ValueError(f"loss scaling {settings.mode}: there are {', '.join(MODES)}")
        self.settings, self.contexts = settings, contexts
        self.dynamic = settings.mode == "dynamic"
        self.start, self.replicas = (1.0, 1) if settings.mode == "none" else (settings.start, replicas)
        self.scales = [mx.nd.zeros((1,), ctx=context) for context in contexts] if self.dynamic else []
        self.clean_steps = [mx.nd.zeros_like(scale) for scale in self.scales]
        self.taken: list[mx.nd.NDArray] = []
        """Per context whether the present step is taken: 1 or 0."""
        self.reset()

    @property
    def rescale(self) -> float:
        """What is left to multiply gradients by in the update: 1 where `unscale` has done so."""
        return 1.0 if self.dynamic else 1 / (self.start * self.replicas)

    def seed(self, number: int, weight: float) -> mx.nd.NDArray:
        """What the backward pass of a sum of losses starts from on context `number`, (1,): scale · replicas / weight."""
        if self.dynamic:
            return self.scales[number] * self.replicas / weight
        return mx.nd.full((1,), self.start * self.replicas / weight, self.contexts[number])

    def decide(self, finite: Sequence[mx.nd.NDArray]) -> None:
        """Take the step where the numbers (1,) say that the summed gradients are finite."""
        self.taken = list(finite)

    def unscale(self, gradients: Sequence[mx.nd.NDArray]) -> None:
        """Divide what each context holds, sums over replicas, by the dynamic scale and their number."""
        for gradient, scale in zip(gradients, self.scales, strict=True):
            mx.nd.broadcast_mul(gradient, 1 / (scale * self.replicas), out=gradient)

    def undo(self, number: int, array: mx.nd.NDArray, old: mx.nd.NDArray) -> None:
        """Bring a vector of context `number` back to its copy from before the update, where the step is skipped."""
        new, old = array.reshape((1, -1)), old.reshape((1, -1))
        mx.nd.where(self.taken[number], new, old, out=new)

    def advance(self) -> None:
        """Move scale and count on to the next step."""
        settings = self.settings
        for taken, scale, count in zip(self.taken, self.scales, self.clean_steps, strict=True):
            longer = count + 1
            grows = longer == settings.growth_interval
            grown = mx.nd.minimum(scale * settings.growth_factor, settings.maximum)
            mx.nd.where(taken, mx.nd.where(grows, grown, scale), scale * settings.backoff_factor, out=scale)
            mx.nd.where(taken, longer * (1 - grows), mx.nd.zeros_like(count), out=count)

    def state(self) -> dict[str, Array]:
        """Scale and clean steps, float32 (1,) each, under dynamic scaling; nothing otherwise."""
        if not self.dynamic:
            return {}
        return {"loss_scale": self.scales[0].asnumpy(), "loss_scale.clean_steps": self.clean_steps[0].asnumpy()}

    def load_state(self, state: Arrays) -> None:
        for scale, count in zip(self.scales, self.clean_steps, strict=True):
            scale[:], count[:] = state["loss_scale"], state["loss_scale.clean_steps"]

    def reset(self) -> None:
        first = np.array([self.start], np.float32)
        self.load_state({"loss_scale": first, "loss_scale.clean_steps": np.zeros_like(first)})
