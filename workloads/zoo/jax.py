"""The zoo networks in JAX, from the suite's layer lists.

The shapes use these symbols: B images of a replica, H × W pixels, K classes. Images are uint8 (B,
H, W, 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import jax

from workloads.api import Arrays, Batch, WorkerContext
from workloads.common.networks import layer_lists
from workloads.frameworks.jax.images import ImageTrainer, cross_entropy
from workloads.frameworks.jax.layer_lists import LayerNetwork
from workloads.frameworks.jax.optimizers import Values
from workloads.zoo.workload import Zoo


class ZooTrainer(ImageTrainer):
    """Trainer of a zoo network for one device.

    With several processes, the gradients are summed over the processes (all-reduce).
    """

    workload: Zoo

    def __init__(self, workload: Zoo, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        network = workload.network
        self.parameters, self.statistics = (
            layer_lists.shapes(network),
            layer_lists.statistics(network),
        )
        self.masks = tuple(layer.label for layer in network.dropouts)
        """Labels of the dropout masks. The masks are arrays of the batch."""
        self.inputs = ("image", "label", *self.masks)

    def build_model(self, weights: Values, statistics: Values) -> LayerNetwork:
        """Return the network of the workload with these weights."""
        return LayerNetwork(weights, statistics, self.dtype, self.workload.network)

    def host_arrays(self, batch: Batch, training: bool) -> Arrays:
        masks = self.workload.dropout_masks(batch) if training else {}
        return super().host_arrays(replace(batch, arrays={**batch.arrays, **masks}), training)

    def loss(self, model: LayerNetwork, batch: Mapping[str, jax.Array]) -> jax.Array:
        """Return the cross-entropy, summed over the images."""
        logits = model(
            batch["image"], training=True, masks={label: batch[label] for label in self.masks}
        )
        return cross_entropy(logits, batch["label"])
