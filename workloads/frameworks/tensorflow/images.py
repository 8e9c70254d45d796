"""Base of the TensorFlow trainers of image models.

The module contains a model with convolutions and batch norm in NHWC, and a trainer.

The shapes use these symbols: B images of a replica, H × W pixels, h × w cells of a feature map, C
channels. Images are uint8 (B, H, W, 3) and are normalized on the device. A model accepts any H and
W. Loaded and saved weights have PyTorch's layouts and the same names in all frameworks. In the
model, convolution weights have the shape (height, width, inputs, outputs). Batch norm is
TensorFlow's raw fused operator, which uses `epsilon` unchanged and updates the running variance
with the unbiased variance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.api import Array, Batch, TrainStats
from workloads.common.networks import layer_lists
from workloads.common.networks.residual import Block, Convolution, Trunk
from workloads.frameworks.tensorflow.model import ModelTrainer
from workloads.frameworks.tensorflow.variables import Model, Shapes, Tensors


class ImageModel(Model):
    """Variables by name, and the layers that use them.

    `dtype` is the data type of the activations.

    With `as_products`, 1×1 convolutions with stride 1 are computed as matrix products. On a CPU,
    matrix products make ResNet's training step 5 to 9 % faster than convolutions. `constants`
    contains the scales and shifts of frozen batch norms. Subclasses define `__call__` and the batch
    norm attributes `epsilon` and `momentum`. `momentum` is the weight of the statistic of the
    current batch in the running statistic.
    """

    epsilon: float
    momentum: float

    def __init__(
        self,
        parameters: Shapes,
        statistics: Shapes,
        dtype: tf.DType,
        as_products: bool,
        constants: Shapes | None = None,
    ) -> None:
        super().__init__(parameters, statistics, constants)
        self.dtype, self.as_products = dtype, as_products

    def __call__(self, images: tf.Tensor, training: bool) -> Any:
        """Return the model's fp32 outputs for uint8 images (B, H, W, 3).

        With `training`, the running statistics are updated.
        """
        raise NotImplementedError

    def inside(self, name: str, value: Array) -> Array:
        """Transpose (outputs, inputs, height, width) to (height, width, inputs, outputs).

        Arrays that do not have four axes are returned unchanged.
        """
        return np.transpose(value, (2, 3, 1, 0)) if value.ndim == 4 else value

    def outside(self, name: str, value: Array) -> Array:
        return (
            np.ascontiguousarray(np.transpose(value, (3, 2, 0, 1)))
            if value.ndim == 4
            else value.copy()
        )

    def parameter(self, name: str) -> tf.Tensor:
        """Return a parameter in the data type of the activations."""
        return tf.cast(self.parameters[name], self.dtype)

    def convolve(
        self, x: tf.Tensor, weight: tf.Tensor, stride: int, padding: int | tuple[int, int]
    ) -> tf.Tensor:
        """Convolve (B, h, w, inputs) to (B, h', w', outputs), with zero padding on every side.

        `weight` is (height, width, inputs, outputs). A separate operator pads the feature map.
        EXPLICIT padding in the convolution would bypass oneDNN and would be 20 times slower in
        bf16.
        """
        height, width, inputs, outputs = weight.shape
        rows, columns = padding if isinstance(padding, tuple) else (padding, padding)
        if stride > 1 or 2 * rows != height - 1 or 2 * columns != width - 1:
            return tf.nn.conv2d(pad(x, rows, columns), weight, stride, "VALID")
        if height == width == 1 and self.as_products:
            product = tf.matmul(tf.reshape(x, [-1, inputs]), tf.reshape(weight, [inputs, outputs]))
            return tf.reshape(product, [*x.shape[:-1], outputs])
        # With stride 1 and an odd kernel, SAME padding is symmetric.
        return tf.nn.conv2d(x, weight, 1, "SAME")

    def trunk(self, x: tf.Tensor, layers: Trunk, training: bool) -> tf.Tensor:
        """Apply the stem, a max pool, and the residual blocks to images (B, H, W, 3).

        The images must be normalized.

        Returns:
            The output feature map of the last block.
        """
        return self.stage_maps(x, layers, training)[-1]

    def stage_maps(self, x: tf.Tensor, layers: Trunk, training: bool) -> list[tf.Tensor]:
        """Return the output feature map of every stage of `trunk`, with the finest map first."""
        x = tf.nn.relu(self.unit(x, layers.stem, training))
        # After ReLU, padding with zeros is equivalent to padding with minus infinity, because no
        # activation is negative.
        x = tf.nn.max_pool2d(pad(x, 1), 3, 2, "VALID")
        maps: dict[str, tf.Tensor] = {}
        for block in layers.blocks:
            x = maps[block.convolutions[0].name.partition(".")[0]] = self.residual(
                x, block, training
            )
        return list(maps.values())

    def residual(self, x: tf.Tensor, block: Block, training: bool) -> tf.Tensor:
        """Apply a residual block: (B, h, w, inputs) to (B, h / stride, w / stride, outputs)."""
        out = x
        for layer in block.convolutions[:-1]:
            out = tf.nn.relu(self.unit(out, layer, training))
        out = self.unit(out, block.convolutions[-1], training)
        shortcut = x if block.shortcut is None else self.unit(x, block.shortcut, training)
        return tf.nn.relu(out + shortcut)

    def unit(self, x: tf.Tensor, layer: Convolution, training: bool) -> tf.Tensor:
        """Apply a convolution and its batch norm.

        The feature map (B, h, w, inputs) becomes (B, h / stride, w / stride, outputs).

        The scale of a frozen batch norm is multiplied into the weights, because the weights are
        much smaller than the feature maps.
        """
        assert layer.norm is not None, f"{layer.name} has a bias"
        scale = self.constants.get(f"{layer.norm}.weight")
        if scale is not None:
            weight = tf.cast(self.parameters[f"{layer.name}.weight"] * scale, self.dtype)
            shift = tf.cast(self.constants[f"{layer.norm}.bias"], self.dtype)
            return tf.nn.bias_add(self.convolve(x, weight, layer.stride, layer.padding), shift)
        x = self.convolve(x, self.parameter(f"{layer.name}.weight"), layer.stride, layer.padding)
        return self.normalise(x, layer.norm, training)

    def biased(self, x: tf.Tensor, layer: Convolution | layer_lists.Convolution) -> tf.Tensor:
        """Apply a convolution with bias."""
        x = self.convolve(x, self.parameter(f"{layer.name}.weight"), layer.stride, layer.padding)
        return tf.nn.bias_add(x, self.parameter(f"{layer.name}.bias"))

    def normalise(self, x: tf.Tensor, name: str, training: bool) -> tf.Tensor:
        """Apply batch norm `name` to (B, h, w, C)."""
        mean, variance = (self.statistics[f"{name}.running_{kind}"] for kind in ("mean", "var"))
        x, new_mean, new_variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x, scale=self.parameters[f"{name}.weight"], offset=self.parameters[f"{name}.bias"],
            mean=mean, variance=variance, epsilon=self.epsilon, is_training=training,
            exponential_avg_factor=self.momentum,
        )  # fmt: skip
        if training:
            mean.assign(new_mean)
            variance.assign(new_variance)
        return x


class ImageTrainer(ModelTrainer):
    """Trainer of an image model on a single device.

    Subclasses define `inputs`, whose first array is `image`, and the hooks of ModelTrainer.
    """

    inputs: tuple[str, ...] = ("image", "label")
    evaluation_inputs: tuple[str, ...] = ("image",)

    def outputs(self, model: Any, batch: Mapping[str, tf.Tensor]) -> Tensors:
        """Return the `logits` (B, K) of a classifier."""
        return {"logits": model(batch["image"], training=False)}

    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        """Run one optimizer step per list of batches, then average the running statistics.

        The running statistics are averaged over the replicas. The average does not influence
        training.
        """
        stats = super().train(steps, first_step)
        statistics = list(self.model.statistics.values())
        if self.strategy is not None and statistics:
            summed = self.sum_over_replicas([statistic.read_value() for statistic in statistics])
            for statistic, value in zip(statistics, summed, strict=True):
                statistic.assign(value / self.worker.world_size)
        return stats


def pad(
    x: tf.Tensor, count: int, columns: int | None = None, extra: tuple[int, int] = (0, 0)
) -> tf.Tensor:
    """Pad (B, h, w, C) with zeros on every side.

    SAME padding of a convolution with a stride would be asymmetric.

    Args:
        x: Feature map to pad.
        count: Number of rows to add above and below. If `columns` is None, `count` is also the
            number of columns to add on the left and right.
        columns: Number of columns to add on the left and right.
        extra: Number of additional rows at the bottom, and number of additional columns on the
            right.
    """
    sides = (count, count if columns is None else columns)
    if not any(sides + extra):
        return x
    return tf.pad(
        x, [[0, 0], *([side, side + more] for side, more in zip(sides, extra, strict=True)), [0, 0]]
    )
