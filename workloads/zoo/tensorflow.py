"""The zoo in TensorFlow: the suite's lists of layers, or Keras' networks.

Shapes: B images of a replica, H × W pixels, K classes. Images come as uint8 (B, H, W, 3).
"""

from __future__ import annotations

from dataclasses import replace

import tensorflow as tf

from workloads.api import Batch
from workloads.frameworks.tensorflow.images import ImageTrainer
from workloads.frameworks.tensorflow.layer_lists import LayerNetwork
from workloads.frameworks.tensorflow.variables import Model
from workloads.zoo.workload import Zoo


class ZooTrainer(ImageTrainer):
    """A network of the zoo on one device; several processes sum their gradients."""

    workload: Zoo

    @property
    def is_stock(self) -> bool:
        """Whether the network is Keras'; it draws masks of dropout by itself."""
        return bool(self.settings.model["implementation"] == "stock")

    @property
    def labels(self) -> tuple[str, ...]:
        """Of the dropout masks that a batch brings."""
        return () if self.is_stock else tuple(layer.label for layer in self.workload.network.dropouts)

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """Of `loss_of`."""
        return ("image", "label", *self.labels)

    def build_model(self) -> Model:
        """The network that the workload describes."""
        if self.is_stock:
            from workloads.zoo.stock.tensorflow import StockNetwork

            return StockNetwork(self.workload.network, int(self.settings.model["image_size"]))
        return LayerNetwork(self.workload.network, self.dtype, as_products=not self.on_gpu)

    def training_batch(self, batch: Batch) -> Batch:
        masks = self.workload.dropout_masks(batch) if self.labels else {}
        return replace(batch, arrays={**batch.arrays, **masks})

    def loss_of(self, *inputs: tf.Tensor) -> tf.Tensor:
        images, labels, *masks = inputs
        further = {} if self.is_stock else {"masks": dict(zip(self.labels, masks, strict=True))}
        logits = self.model(images, training=True, **further)
        return tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
