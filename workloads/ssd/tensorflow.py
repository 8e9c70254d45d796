"""SSD on a ResNet-34 trunk in TensorFlow, in NHWC layout.

The shapes use these symbols: B images of a replica, H × W pixels, h × w cells of a feature map, C
classes without background, P priors. network.py lists the names of parameters and running
statistics.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from workloads.frameworks.tensorflow.images import ImageModel, ImageTrainer
from workloads.frameworks.tensorflow.variables import Tensors
from workloads.ssd import network
from workloads.ssd.settings import SSDOptions
from workloads.ssd.workload import SSD


class Detector(ImageModel):
    """SSD network.

    The network maps uint8 images (B, H, W, 3) to fp32 offsets (B, 4, P) and logits (B, P, C + 1).
    """

    epsilon, momentum = network.BATCH_NORM_EPSILON, network.BATCH_NORM_MOMENTUM

    def __init__(self, layers: network.Network, dtype: tf.DType, as_products: bool) -> None:
        super().__init__(network.shapes(layers), network.statistics(layers), dtype, as_products)
        self.layers = layers

    def __call__(self, images: tf.Tensor, training: bool) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the box offsets and class logits of the images.

        With `training`, the running statistics are updated.
        """
        mean, deviation = tf.constant(network.MEAN), tf.constant(network.STANDARD_DEVIATION)
        x = tf.cast(
            tf.cast(images, tf.float32) * (1 / (255 * deviation)) - mean / deviation, self.dtype
        )
        x = self.trunk(x, self.layers, training)
        maps = [x]
        for pair in self.layers.extras:
            for layer in pair:
                x = tf.nn.relu(self.biased(x, layer))
            maps.append(x)
        heads = zip(maps, self.layers.box_heads, self.layers.class_heads, strict=True)
        offsets, logits = zip(*(self._outputs(*head) for head in heads), strict=True)
        return tf.cast(tf.concat(offsets, 2), tf.float32), tf.cast(tf.concat(logits, 1), tf.float32)

    def _outputs(
        self, x: tf.Tensor, box: network.Convolution, classes: network.Convolution
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return offsets (B, 4, k·h·w) and logits (B, k·h·w, C + 1) of a feature map.

        k is the number of box shapes per cell of the feature map.

        In the channels, the outer index is the coordinate (or class), and the inner index is the
        box shape. Priors are ordered by box shape, then by row, then by column.
        """
        cells = x.shape[1] * x.shape[2]
        offsets = tf.transpose(tf.reshape(self.biased(x, box), [-1, cells, box.outputs]), [0, 2, 1])
        count = self.layers.classes + 1
        logits = tf.reshape(self.biased(x, classes), [-1, cells, count, classes.outputs // count])
        logits = tf.reshape(
            tf.transpose(logits, [0, 3, 1, 2]), [-1, cells * classes.outputs // count, count]
        )
        return tf.reshape(offsets, [-1, 4, cells * box.outputs // 4]), logits


def detection_loss(
    offsets: tf.Tensor,
    logits: tf.Tensor,
    wanted: tf.Tensor,
    labels: tf.Tensor,
    options: SSDOptions,
    static: bool,
) -> tf.Tensor:
    """Return the sum of the images' losses.

    The loss of an image is the smooth L1 loss of the positives' offsets plus the cross-entropy of
    the positives and the mined negatives, divided by the number of positives. The loss of an image
    without positives is 0. The mined negatives are the negatives with the largest cross-entropy.
    Each positive has `options.negatives_per_positive` mined negatives.

    `offsets` and `logits` are the outputs of `Detector`, `wanted` (B, 4, P) contains the target
    offsets, and `labels` (B, P) is 0 for background.

    With `static`, all negatives are sorted, so that no shape depends on the labels. XLA requires
    static shapes. On a GPU, static shapes avoid that the host waits for the device. Without
    `static`, only the required number of negatives is selected, which saves 2 % of the demo's time
    on a CPU.
    """
    positive = labels > 0
    count = tf.reduce_sum(tf.cast(positive, tf.int32), 1)
    priors = labels.shape[1]
    mined = tf.minimum(options.negatives_per_positive * count, priors - count)
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    # The positives come last. Priors with equal cross-entropy are ordered by index.
    most = priors if static else tf.reduce_max(mined)
    hardest = tf.math.top_k(tf.where(positive, -1.0, entropy), most).values
    negatives = tf.where(tf.range(most) < mined[:, None], hardest, 0.0)
    size = tf.abs(offsets - wanted)
    inner = tf.minimum(size, 1.0)
    of_boxes = tf.reduce_sum(inner * (size - 0.5 * inner), 1)
    total = tf.reduce_sum(tf.where(positive, of_boxes + entropy, 0.0), 1) + tf.reduce_sum(
        negatives, 1
    )
    return tf.reduce_sum(total / tf.cast(tf.maximum(count, 1), tf.float32))


class SSDTrainer(ImageTrainer):
    """SSD trainer for one device.

    With several processes, the gradients are summed over the processes (all-reduce).
    """

    workload: SSD
    inputs = ("image", "offset", "label")

    def build_model(self) -> Detector:
        """Return the network of the workload."""
        return Detector(self.workload.network, self.dtype, as_products=not self.on_gpu)

    def loss(self, model: Detector, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Return the `detection_loss` of a batch.

        The loss is computed in fp32, even if the network uses a lower precision.
        """
        offsets, logits = model(batch["image"], training=True)
        static = self.compiled or self.on_gpu
        return detection_loss(
            offsets, logits, batch["offset"], batch["label"], self.workload.options, static
        )

    def outputs(self, model: Detector, batch: Mapping[str, tf.Tensor]) -> Tensors:
        """Return the outputs `offsets` (B, 4, P) and `logits` (B, C + 1, P)."""
        offsets, logits = model(batch["image"], training=False)
        return {"offsets": offsets, "logits": tf.transpose(logits, [0, 2, 1])}
