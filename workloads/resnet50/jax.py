"""ResNet v1.5 in JAX, NHWC.

Shapes: B images of a replica, H × W pixels, K classes. Parameters carry torchvision's names.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from workloads.api import WorkerContext
from workloads.frameworks.jax.images import ImageTrainer, Layers, cross_entropy
from workloads.frameworks.jax.optimizers import Values
from workloads.resnet50 import network
from workloads.resnet50.workload import ResNet50


class ResNetTrainer(ImageTrainer):
    """ResNet on one device; several processes sum their gradients."""

    workload: ResNet50
    inputs = ("image", "label")

    def __init__(self, workload: ResNet50, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        self.parameters, self.statistics = network.shapes(workload.network), network.statistics(workload.network)

    def logits(
        self, weights: Values, statistics: Values, images: jax.Array, training: bool
    ) -> tuple[jax.Array, Values]:
        """fp32 logits (B, K) of uint8 images (B, H, W, 3), and the statistics after them."""
        constants = (network.BATCH_NORM_EPSILON, network.BATCH_NORM_MOMENTUM)
        layers = Layers(weights, statistics, self.dtype, training, *constants)
        x = (images.astype(jnp.float32) - jnp.array(network.MEAN, jnp.float32)).astype(self.dtype)
        x = layers.trunk(x, self.workload.network)
        features = x.astype(jnp.float32).mean((1, 2)).astype(self.dtype)
        logits = features @ layers.parameter("fc.weight").T + layers.parameter("fc.bias")
        return logits.astype(jnp.float32), layers.statistics

    def loss_of(self, weights: Values, statistics: Values, batch: Values) -> tuple[jax.Array, Values]:
        """Cross-entropy with smoothed labels (B,), summed over the images."""
        logits, moved = self.logits(weights, statistics, batch["image"], training=True)
        return cross_entropy(logits, batch["label"], self.workload.options.label_smoothing), moved

    def outputs_of(self, weights: Values, statistics: Values, batch: Values) -> Values:
        """Logits (B, K)."""
        return {"logits": self.logits(weights, statistics, batch["image"], training=False)[0]}
