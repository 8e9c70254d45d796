"""ResNet v1.5 in TensorFlow, NHWC.

Shapes: B images of a replica, S pixels of a side, K classes, h × w cells of a map. Parameters carry torchvision's names.
"""

from __future__ import annotations

import tensorflow as tf

from workloads.api import Place, Workload
from workloads.frameworks.tensorflow.images import ImageModel, ImageTrainer, Tensors
from workloads.frameworks.tensorflow.optimizers import Lars, Optimizer, Sgd
from workloads.resnet50 import network
from workloads.resnet50.workload import ResNet50


class ResNet(ImageModel):
    """From uint8 images (B, S, S, 3) to fp32 logits (B, K)."""

    epsilon, momentum = network.BATCH_NORM_EPSILON, network.BATCH_NORM_MOMENTUM

    def __init__(self, layers: network.Network, dtype: tf.DType, as_products: bool) -> None:
        super().__init__(network.shapes(layers), network.statistics(layers), dtype, as_products)
        self.layers = layers

    def __call__(self, images: tf.Tensor, training: bool) -> tf.Tensor:
        """See the class; in training the running statistics move."""
        x = tf.cast(tf.cast(images, tf.float32) - tf.constant(network.MEAN), self.dtype)
        x = self.trunk(x, self.layers.stem, self.layers.blocks, training)
        features = tf.cast(tf.reduce_mean(tf.cast(x, tf.float32), [1, 2]), self.dtype)
        logits = tf.matmul(features, self.parameter("fc.weight"), transpose_b=True) + self.parameter("fc.bias")
        return tf.cast(logits, tf.float32)


class ResNetTrainer(ImageTrainer):
    """ResNet on one device; several processes sum their gradients."""

    workload: ResNet50
    targets = ("label",)

    def __init__(self, workload: Workload, place: Place) -> None:
        super().__init__(workload, place)
        self.smoothing = float(self.settings.hyperparameters["label_smoothing"])

    def build_model(self, dtype: tf.DType, as_products: bool) -> ResNet:
        """See ImageTrainer."""
        return ResNet(self.workload.network, dtype, as_products)

    def build_optimizer(self) -> Optimizer:
        """SGD or LARS."""
        values, rule = self.settings.hyperparameters, self.workload.parameter_rule
        momentum = float(values["momentum"])
        if self.workload.uses_lars:
            return Lars(self.model.parameters, rule, momentum, float(values["lars_coefficient"]))
        return Sgd(self.model.parameters, rule, momentum)

    def loss_of(self, images: tf.Tensor, *targets: tf.Tensor) -> tf.Tensor:
        """Cross-entropy with smoothed labels (B,), summed over the images."""
        (labels,) = targets
        logits = self.model(images, training=True)
        uniform = self.smoothing / logits.shape[1]
        wanted = tf.one_hot(labels, logits.shape[1], 1 - self.smoothing + uniform, uniform)
        return tf.reduce_sum(tf.nn.softmax_cross_entropy_with_logits(wanted, logits))

    def outputs_of(self, images: tf.Tensor) -> Tensors:
        """Logits (B, K)."""
        return {"logits": self.model(images, training=False)}
