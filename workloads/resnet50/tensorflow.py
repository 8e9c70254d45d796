"""ResNet v1.5 in TensorFlow, in NHWC layout.

The shapes use these symbols: B images of a replica, H × W pixels, K classes, h × w cells of a
feature map. Parameters have torchvision's names.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from workloads.frameworks.tensorflow.images import ImageModel, ImageTrainer
from workloads.resnet50 import network
from workloads.resnet50.workload import ResNet50


class ResNet(ImageModel):
    """ResNet network from uint8 images (B, H, W, 3) to fp32 logits (B, K)."""

    epsilon, momentum = network.BATCH_NORM_EPSILON, network.BATCH_NORM_MOMENTUM

    def __init__(self, layers: network.Network, dtype: tf.DType, as_products: bool) -> None:
        super().__init__(network.shapes(layers), network.statistics(layers), dtype, as_products)
        self.layers = layers

    def __call__(self, images: tf.Tensor, training: bool) -> tf.Tensor:
        """Return the logits of the images.

        With `training`, the running statistics are updated.
        """
        x = tf.cast(tf.cast(images, tf.float32) - tf.constant(network.MEAN), self.dtype)
        x = self.trunk(x, self.layers, training)
        features = tf.cast(tf.reduce_mean(tf.cast(x, tf.float32), [1, 2]), self.dtype)
        logits = tf.matmul(
            features, self.parameter("fc.weight"), transpose_b=True
        ) + self.parameter("fc.bias")
        return tf.cast(logits, tf.float32)


class ResNetTrainer(ImageTrainer):
    """ResNet trainer for one device.

    With several processes, the gradients are summed over the processes (all-reduce).
    """

    workload: ResNet50

    def build_model(self) -> ResNet:
        """Return the network of the workload."""
        return ResNet(self.workload.network, self.dtype, as_products=not self.on_gpu)

    def loss(self, model: ResNet, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Return the cross-entropy with smoothed labels, summed over the images."""
        logits, smoothing = (
            model(batch["image"], training=True),
            self.workload.options.label_smoothing,
        )
        uniform = smoothing / logits.shape[1]
        wanted = tf.one_hot(batch["label"], logits.shape[1], 1 - smoothing + uniform, uniform)
        return tf.reduce_sum(tf.nn.softmax_cross_entropy_with_logits(wanted, logits))
