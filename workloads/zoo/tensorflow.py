"""The zoo in TensorFlow: networks from the suite's layer lists or from Keras.

Shapes: B images of a replica, H × W pixels, K classes. Images come as uint8 (B, H, W, 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import tensorflow as tf

from workloads.api import Arrays, Batch
from workloads.frameworks.tensorflow.images import ImageTrainer
from workloads.frameworks.tensorflow.layer_lists import LayerNetwork
from workloads.frameworks.tensorflow.variables import Model
from workloads.zoo.workload import Zoo


class ZooTrainer(ImageTrainer):
    """A network of the zoo on one device. Several processes sum their gradients."""

    workload: Zoo

    @property
    def is_stock(self) -> bool:
        """Whether the network comes from Keras. Such a network draws dropout masks itself."""
        return bool(self.settings.model["implementation"] == "stock")

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the dropout masks, which are arrays of a batch."""
        return (
            () if self.is_stock else tuple(layer.label for layer in self.workload.network.dropouts)
        )

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the arrays that `loss` takes."""
        return ("image", "label", *self.labels)

    def build_model(self) -> Model:
        """Return the workload's network."""
        if self.is_stock:
            from workloads.zoo.stock.tensorflow import StockNetwork

            return StockNetwork(self.workload.network, int(self.settings.model["image_size"]))
        return LayerNetwork(self.workload.network, self.dtype, as_products=not self.on_gpu)

    def host_arrays(self, batch: Batch, training: bool) -> Arrays:
        masks = self.workload.dropout_masks(batch) if training and self.labels else {}
        return super().host_arrays(replace(batch, arrays={**batch.arrays, **masks}), training)

    def loss(self, model: Any, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Return the cross-entropy, summed over the images."""
        masks = {} if self.is_stock else {"masks": {label: batch[label] for label in self.labels}}
        logits = model(batch["image"], training=True, **masks)
        return tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], logits))
