"""The zoo in JAX: the suite's lists of layers.

Shapes: B images of a replica, H × W pixels, K classes. Images come as uint8 (B, H, W, 3).
"""

from __future__ import annotations

from dataclasses import replace

import jax

from workloads.api import Batch, WorkerContext
from workloads.common.networks import layer_lists
from workloads.frameworks.jax.images import ImageTrainer, Layers, cross_entropy
from workloads.frameworks.jax.layer_lists import Masks, logits
from workloads.frameworks.jax.optimizers import Values
from workloads.zoo.workload import Zoo


class ZooTrainer(ImageTrainer):
    """A network of the zoo on one device; several processes sum their gradients."""

    workload: Zoo

    def __init__(self, workload: Zoo, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        network = workload.network
        self.parameters, self.statistics = layer_lists.shapes(network), layer_lists.statistics(network)
        self.masks = tuple(layer.label for layer in network.dropouts)
        """Labels of dropout masks, which are arrays of a batch."""
        self.inputs = ("image", "label", *self.masks)  # type: ignore[misc]

    def training_batch(self, batch: Batch) -> Batch:
        return replace(batch, arrays={**batch.arrays, **self.workload.dropout_masks(batch)})

    def logits(
        self, weights: Values, statistics: Values, images: jax.Array, masks: Masks, training: bool
    ) -> tuple[jax.Array, Values]:
        """fp32 logits (B, K) of uint8 images (B, H, W, 3), and the statistics after them."""
        network = self.workload.network
        layers = Layers(weights, statistics, self.dtype, training, network.epsilon, network.momentum)
        return logits(layers, network, images, masks), layers.statistics

    def loss_of(self, weights: Values, statistics: Values, batch: Values) -> tuple[jax.Array, Values]:
        """Cross-entropy, summed over the images."""
        masks = {label: batch[label] for label in self.masks}
        found, moved = self.logits(weights, statistics, batch["image"], masks, training=True)
        return cross_entropy(found, batch["label"]), moved

    def outputs_of(self, weights: Values, statistics: Values, batch: Values) -> Values:
        """Logits (B, K)."""
        return {"logits": self.logits(weights, statistics, batch["image"], {}, training=False)[0]}
