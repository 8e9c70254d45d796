"""What happens to gradients before the update: loss scaling, the search for overflow, clipping."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from workloads.api import Array, Arrays, LossScaling
from workloads.frameworks.tensorflow.variables import Tensors


class LossScale:
    """The scale of the loss. A dynamic one lives on the device and changes there: the host never asks for it.

    A replica's part of the loss is its sum over the weight of all replicas. It is also multiplied by their number, so that
    what fp16 has to hold does not shrink with them; the sum of gradients, which is fp32, is divided by it.
    """

    def __init__(self, settings: LossScaling, replicas: int = 1) -> None:
        self.settings, self.replicas = settings, replicas
        self.fixed = settings.start * replicas if settings.mode == "static" else 1.0
        self.variables: dict[str, tf.Variable] = {}
        """By the names under which they stand in a trainer's state; fp32 scalars."""
        if settings.mode == "dynamic":
            for name in ("loss_scale", "loss_scale.clean_steps"):
                self.variables[name] = tf.Variable(0.0, trainable=False)
            self.reset()

    def scaled(self, loss: tf.Tensor) -> tf.Tensor:
        """The loss as it is differentiated."""
        if self.variables:
            return loss * (self.variables["loss_scale"] * self.replicas)
        return loss if self.fixed == 1 else loss * self.fixed

    def unscaled(self, gradients: Tensors) -> Tensors:
        """This replica's gradients without a static scale: before the sum, where XLA divides in passing."""
        if self.fixed == 1:
            return gradients
        return {name: gradient / self.fixed for name, gradient in gradients.items()}

    def checked(self, gradients: Tensors) -> tuple[Tensors, tf.Tensor | None]:
        """Gradients summed over replicas without a dynamic scale, and whether the step is taken: all of them were finite.

        None: it always is.
        """
        if not self.variables:
            return gradients, None
        taken = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients.values()])
        scale = self.variables["loss_scale"].read_value() * self.replicas
        return {name: gradient / scale for name, gradient in gradients.items()}, taken

    def advance(self, taken: tf.Tensor | None) -> None:
        """The scale of the next step, after one that was taken or not (see common/optimizers.py, LossScale)."""
        if taken is None:
            return
        scale, clean_steps = self.variables.values()
        clean = tf.where(taken, clean_steps + 1.0, 0.0)
        due = clean >= self.settings.growth_interval
        grown = tf.minimum(scale * self.settings.growth_factor, self.settings.maximum)
        scale.assign(tf.where(taken, tf.where(due, grown, scale), scale * self.settings.backoff_factor))
        clean_steps.assign(tf.where(due, 0.0, clean))

    def reset(self) -> None:
        for variable, value in zip(self.variables.values(), (self.settings.start, 0.0), strict=False):
            variable.assign(value)

    def state_dict(self) -> dict[str, Array]:
        """`loss_scale` and `loss_scale.clean_steps`, each (1,), where the scale is dynamic."""
        return {name: np.array([variable.numpy()], np.float32) for name, variable in self.variables.items()}

    def load_state_dict(self, state: Arrays) -> None:
        for name, variable in self.variables.items():
            variable.assign(state[name][0])


def clipped(gradients: Tensors, clip_norm: float | None) -> Tensors:
    """The gradients, cut so that their global L2 norm is at most `clip_norm`; computed on the device. None: as they are."""
    if clip_norm is None:
        return gradients
    norm = tf.linalg.global_norm(list(gradients.values()))
    factor = clip_norm / tf.maximum(norm, clip_norm)  # min(1, clip_norm / norm), also where the norm is 0
    return {name: gradient * factor for name, gradient in gradients.items()}
