"""The zoo networks in TensorFlow, from the suite's layer lists or from Keras.

The shapes use these symbols: B images of a replica, H × W pixels, K classes. Images are uint8 (B,
H, W, 3).
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
    """Trainer of a zoo network for one device.

    With several processes, the gradients are summed over the processes (all-reduce).
    """

    workload: Zoo

    @property
    def is_stock(self) -> bool:
        """Return whether the network is from Keras.

        Keras' networks generate their dropout masks.
        """
        return bool(self.settings.model["implementation"] == "stock")

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels of the dropout masks. The masks are arrays of the batch."""
        return (
            () if self.is_stock else tuple(layer.label for layer in self.workload.network.dropouts)
        )

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """Return the names of the batch arrays that `loss` reads."""
        return ("image", "label", *self.labels)

    def build_model(self) -> Model:
        """Return the network of the workload."""
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
