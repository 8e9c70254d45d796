"""Operations on gradients before the update: loss scaling, overflow check, clipping."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from workloads.api import Array, Arrays, LossScaling
from workloads.frameworks.tensorflow.variables import Tensors


class LossScale:
    """Loss scale. A dynamic scale is stored and updated on the device.

    A replica's share of the loss is the sum of its loss terms divided by the total weight of all
    replicas. The share is multiplied by the number of replicas, so that fp16 gradients do not
    shrink with more replicas. The fp32 sum of gradients is then divided by the number of replicas.
    """

    def __init__(self, settings: LossScaling, replicas: int = 1) -> None:
        self.settings, self.replicas = settings, replicas
        self.fixed = settings.start * replicas if settings.mode == "static" else 1.0
        self.variables: dict[str, tf.Variable] = {}
        """Scalars (fp32) of a dynamic loss scale, with the names in a trainer's `state_dict`. The
        dictionary is empty without dynamic scaling.
        """
        if settings.mode == "dynamic":
            for name in ("loss_scale", "loss_scale.clean_steps"):
                self.variables[name] = tf.Variable(0.0, trainable=False)
            self.reset()

    def scaled(self, loss: tf.Tensor) -> tf.Tensor:
        """Return the loss times the loss scale, for differentiation."""
        if self.variables:
            return loss * (self.variables["loss_scale"] * self.replicas)
        return loss if self.fixed == 1 else loss * self.fixed

    def unscaled(self, gradients: Tensors) -> Tensors:
        """Return this replica's gradients divided by the static loss scale.

        The division precedes the all-reduce, so that XLA fuses the division with the computation of
        the gradients.
        """
        if self.fixed == 1:
            return gradients
        return {name: gradient / self.fixed for name, gradient in gradients.items()}

    def checked(self, gradients: Tensors) -> tuple[Tensors, tf.Tensor | None]:
        """Divide gradients summed over replicas by the dynamic scale, and check for overflow.

        Returns:
            The gradients, and a boolean tensor that is True if all gradients are finite. Without
            dynamic scaling, the second result is None, because every step is executed.
        """
        if not self.variables:
            return gradients, None
        taken = tf.reduce_all(
            [tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients.values()]
        )
        scale = self.variables["loss_scale"].read_value() * self.replicas
        return {name: gradient / scale for name, gradient in gradients.items()}, taken

    def advance(self, taken: tf.Tensor | None) -> None:
        """Update the loss scale after a step that was executed or skipped.

        LossScale in workloads/common/optimizers.py defines how the loss scale changes.
        """
        if taken is None:
            return
        scale, clean_steps = self.variables.values()
        clean = tf.where(taken, clean_steps + 1.0, 0.0)
        due = clean >= self.settings.growth_interval
        grown = tf.minimum(scale * self.settings.growth_factor, self.settings.maximum)
        scale.assign(
            tf.where(taken, tf.where(due, grown, scale), scale * self.settings.backoff_factor)
        )
        clean_steps.assign(tf.where(due, 0.0, clean))

    def reset(self) -> None:
        for variable, value in zip(
            self.variables.values(), (self.settings.start, 0.0), strict=False
        ):
            variable.assign(value)

    def state_dict(self) -> dict[str, Array]:
        """Return `loss_scale` and `loss_scale.clean_steps`, each (1,).

        Without dynamic scaling, the dictionary is empty.
        """
        return {
            name: np.array([variable.numpy()], np.float32)
            for name, variable in self.variables.items()
        }

    def load_state_dict(self, state: Arrays) -> None:
        for name, variable in self.variables.items():
            variable.assign(state[name][0])


def clipped(gradients: Tensors, clip_norm: float | None) -> Tensors:
    """Scale the gradients so that their global L2 norm is at most `clip_norm`.

    The device computes the norm and the factor. If `clip_norm` is None, the gradients are returned
    unchanged.
    """
    if clip_norm is None:
        return gradients
    norm = tf.linalg.global_norm(list(gradients.values()))
    # The factor is min(1, clip_norm / norm). If the norm is 0, the factor is 1.
    factor = clip_norm / tf.maximum(norm, clip_norm)
    return {name: gradient * factor for name, gradient in gradients.items()}
