"""What TensorFlow trainers of image models share: convolutions with batch norm in NHWC, and a trainer around them.

Shapes: B images of a replica, H × W pixels, h × w cells of a map, C channels. Images come as uint8 (B, H, W, 3) and are
normalised on the device; a model takes any H and W. Outside, parameters carry canonical names and PyTorch's layouts; inside,
convolutions are (height, width, inputs, outputs). Batch norm is TensorFlow's raw fused operator: it takes epsilon as it is and
moves the running variance by the unbiased one.
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
    """Variables by canonical name, and the layers that use them; `dtype` is that of the activations.

    `as_products`: 1×1 convolutions of stride 1 are matrix products (on a CPU 5 to 9 % of ResNet's training step faster).
    `constants`: scales and shifts of frozen norms.
    Subclasses give `epsilon` and `momentum` of batch norm (the share of the new statistic in the running one), and `__call__`.
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
        """From uint8 images (B, H, W, 3) to the model's fp32 outputs; in training the running statistics move."""
        raise NotImplementedError

    def inside(self, name: str, value: Array) -> Array:
        """(outputs, inputs, height, width) to (height, width, inputs, outputs); others as they are."""
        return np.transpose(value, (2, 3, 1, 0)) if value.ndim == 4 else value

    def outside(self, name: str, value: Array) -> Array:
        return np.ascontiguousarray(np.transpose(value, (3, 2, 0, 1))) if value.ndim == 4 else value.copy()

    def parameter(self, name: str) -> tf.Tensor:
        """In the type of the activations."""
        return tf.cast(self.parameters[name], self.dtype)

    def convolve(self, x: tf.Tensor, weight: tf.Tensor, stride: int, padding: int | tuple[int, int]) -> tf.Tensor:
        """(B, h, w, inputs) to (B, h', w', outputs) by (height, width, inputs, outputs), with zeros on every side.

        The operator's EXPLICIT padding leaves oneDNN, above all in bf16 (twenty times slower); so zeros are put around.
        """
        height, width, inputs, outputs = weight.shape
        rows, columns = padding if isinstance(padding, tuple) else (padding, padding)
        if stride > 1 or 2 * rows != height - 1 or 2 * columns != width - 1:
            return tf.nn.conv2d(pad(x, rows, columns), weight, stride, "VALID")
        if height == width == 1 and self.as_products:
            product = tf.matmul(tf.reshape(x, [-1, inputs]), tf.reshape(weight, [inputs, outputs]))
            return tf.reshape(product, [*x.shape[:-1], outputs])
        return tf.nn.conv2d(x, weight, 1, "SAME")  # with stride 1 and an odd kernel as much on every side

    def trunk(self, x: tf.Tensor, layers: Trunk, training: bool) -> tf.Tensor:
        """The stem, a max pool and residual blocks: from normalised images (B, H, W, 3) to the last block's map."""
        return self.stage_maps(x, layers, training)[-1]

    def stage_maps(self, x: tf.Tensor, layers: Trunk, training: bool) -> list[tf.Tensor]:
        """The same to the map of every stage, the finest first."""
        x = tf.nn.relu(self.unit(x, layers.stem, training))
        x = tf.nn.max_pool2d(pad(x, 1), 3, 2, "VALID")  # after ReLU zeros at the border are as good as minus infinity
        maps: dict[str, tf.Tensor] = {}
        for block in layers.blocks:
            x = maps[block.convolutions[0].name.partition(".")[0]] = self.residual(x, block, training)
        return list(maps.values())

    def residual(self, x: tf.Tensor, block: Block, training: bool) -> tf.Tensor:
        """A residual block: (B, h, w, inputs) to (B, h / stride, w / stride, outputs)."""
        out = x
        for layer in block.convolutions[:-1]:
            out = tf.nn.relu(self.unit(out, layer, training))
        out = self.unit(out, block.convolutions[-1], training)
        shortcut = x if block.shortcut is None else self.unit(x, block.shortcut, training)
        return tf.nn.relu(out + shortcut)

    def unit(self, x: tf.Tensor, layer: Convolution, training: bool) -> tf.Tensor:
        """Convolution and batch norm: (B, h, w, inputs) to (B, h / stride, w / stride, outputs).

        A frozen norm scales the weights instead of the maps, which are many times larger.
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
        """Convolution with bias."""
        x = self.convolve(x, self.parameter(f"{layer.name}.weight"), layer.stride, layer.padding)
        return tf.nn.bias_add(x, self.parameter(f"{layer.name}.bias"))

    def normalise(self, x: tf.Tensor, name: str, training: bool) -> tf.Tensor:
        """Batch norm `name` of (B, h, w, C)."""
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
    """An image model on one device. Subclasses give `inputs`, whose first array is `image`, and what ModelTrainer asks for."""

    inputs: tuple[str, ...] = ("image", "label")
    evaluation_inputs: tuple[str, ...] = ("image",)

    def outputs(self, model: Any, batch: Mapping[str, tf.Tensor]) -> Tensors:
        """Return a classifier's `logits` (B, K)."""
        return {"logits": model(batch["image"], training=False)}

    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        """One optimizer step per item; at the end the replicas' statistics are averaged, which training does not notice."""
        stats = super().train(steps, first_step)
        statistics = list(self.model.statistics.values())
        if self.strategy is not None and statistics:
            summed = self.sum_over_replicas([statistic.read_value() for statistic in statistics])
            for statistic, value in zip(statistics, summed, strict=True):
                statistic.assign(value / self.worker.world_size)
        return stats


def pad(x: tf.Tensor, count: int, columns: int | None = None, extra: tuple[int, int] = (0, 0)) -> tf.Tensor:
    """Zeros on every side of (B, h, w, C); with a stride SAME would put more of them at the bottom right.

    `count` rows above and below, and as many columns, unless `columns` says how many; `extra` of both at the bottom right.
    """
    sides = (count, count if columns is None else columns)
    if not any(sides + extra):
        return x
    return tf.pad(x, [[0, 0], *([side, side + more] for side, more in zip(sides, extra, strict=True)), [0, 0]])
