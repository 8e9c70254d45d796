"""Networks of `workloads.common.networks.layer_lists` in TensorFlow, in NHWC layout.

The shapes use these symbols: B images, H × W pixels, h × w cells of a feature map, C channels, K
classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf

from workloads.common.networks import layer_lists
from workloads.common.networks.layer_lists import Layer
from workloads.frameworks.tensorflow.images import ImageModel, pad

Masks = Mapping[str, tf.Tensor]
"""Dropout masks by label. A mask has the shape (B, h, w, C) or (B, C)."""


class LayerNetwork(ImageModel):
    """Network of a layer list, from uint8 images (B, H, W, 3) to fp32 logits (B, K)."""

    def __init__(self, network: layer_lists.Network, dtype: tf.DType, as_products: bool) -> None:
        super().__init__(
            layer_lists.shapes(network), layer_lists.statistics(network), dtype, as_products
        )
        self.network, self.epsilon, self.momentum = network, network.epsilon, network.momentum

    def __call__(self, images: tf.Tensor, training: bool, masks: Masks | None = None) -> tf.Tensor:
        """Return the logits of the images.

        Without masks, dropout is disabled. With `training`, the running statistics are updated.
        """
        mean, deviation = tf.constant(self.network.mean), tf.constant(self.network.deviation)
        x = tf.cast(
            tf.cast(images, tf.float32) * (1 / (255 * deviation)) - mean / deviation, self.dtype
        )
        return tf.cast(self.sequence(x, self.network.layers, training, masks or {}), tf.float32)

    def sequence(
        self, x: tf.Tensor, layers: Sequence[Layer], training: bool, masks: Masks
    ) -> tf.Tensor:
        """Apply the layers in sequence."""
        for layer in layers:
            x = self.step(x, layer, training, masks)
        return x

    def step(self, x: tf.Tensor, layer: Layer, training: bool, masks: Masks) -> tf.Tensor:
        """Apply a layer to a feature map (B, h, w, C) or to a feature vector (B, C)."""
        match layer:
            case layer_lists.Convolution(norm=norm):
                weight = self.parameter(f"{layer.name}.weight")
                x = (
                    self.biased(x, layer)
                    if layer.has_bias
                    else self.convolve(x, weight, layer.stride, layer.padding)
                )
                return tf.nn.relu(x if norm is None else self.normalise(x, norm, training))
            case layer_lists.Residual(block):
                return self.residual(x, block, training)
            case layer_lists.Linear(name, inputs, _, relu):
                # The weight expects a feature map that is flattened channel by channel.
                if x.shape.rank == 4:
                    x = tf.reshape(tf.transpose(x, [0, 3, 1, 2]), [-1, inputs])
                x = tf.matmul(
                    x, self.parameter(f"{name}.weight"), transpose_b=True
                ) + self.parameter(f"{name}.bias")
                return tf.nn.relu(x) if relu else x
            case layer_lists.Concatenation(branches):
                return tf.concat(
                    [self.sequence(x, branch, training, masks) for branch in branches], 3
                )
            case layer_lists.Dropout(label):
                return x * tf.cast(masks[label], x.dtype) if label in masks else x
            case layer_lists.ResponseNorm(size, alpha, beta, k):
                wide = tf.cast(x, tf.float32)
                return tf.cast(
                    tf.nn.local_response_normalization(wide, size // 2, k, alpha / size, beta),
                    x.dtype,
                )
            case layer_lists.GlobalPool():
                return tf.cast(tf.reduce_mean(tf.cast(x, tf.float32), [1, 2]), self.dtype)
            case layer_lists.Pool(kind, kernel, stride, padding, _, extra):
                # In max pooling of a feature map without negative values, padding with zeros is
                # equivalent to padding with minus infinity. In average pooling, the averages
                # include the zeros.
                pool = tf.nn.max_pool2d if kind == "max" else tf.nn.avg_pool2d
                return pool(pad(x, padding, extra=extra), kernel, stride, "VALID")
