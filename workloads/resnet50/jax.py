"""ResNet v1.5 in JAX, in NHWC layout.

The shapes use these symbols: B images of a replica, H × W pixels, K classes. Parameters have
torchvision's names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from workloads.api import WorkerContext
from workloads.frameworks.jax.images import ImageTrainer, Layers, cross_entropy
from workloads.frameworks.jax.optimizers import Values
from workloads.resnet50 import network
from workloads.resnet50.workload import ResNet50


class ResNet(Layers):
    """ResNet network from uint8 images (B, H, W, 3) to fp32 logits (B, K)."""

    epsilon, momentum = network.BATCH_NORM_EPSILON, network.BATCH_NORM_MOMENTUM

    def __init__(
        self, weights: Values, statistics: Values, dtype: Any, layers: network.Network
    ) -> None:
        super().__init__(weights, statistics, dtype)
        self.layers = layers

    def __call__(self, images: jax.Array, training: bool) -> jax.Array:
        """Return the logits of the images.

        With `training`, the running statistics are updated.
        """
        self.training = training
        x = (images.astype(jnp.float32) - jnp.array(network.MEAN, jnp.float32)).astype(self.dtype)
        x = self.trunk(x, self.layers)
        features = x.astype(jnp.float32).mean((1, 2)).astype(self.dtype)
        logits = features @ self.parameter("fc.weight").T + self.parameter("fc.bias")
        return logits.astype(jnp.float32)


class ResNetTrainer(ImageTrainer):
    """ResNet trainer for one device.

    With several processes, the gradients are summed over the processes (all-reduce).
    """

    workload: ResNet50

    def __init__(self, workload: ResNet50, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        self.parameters, self.statistics = (
            network.shapes(workload.network),
            network.statistics(workload.network),
        )

    def build_model(self, weights: Values, statistics: Values) -> ResNet:
        """Return the network of the workload with these weights."""
        return ResNet(weights, statistics, self.dtype, self.workload.network)

    def loss(self, model: ResNet, batch: Mapping[str, jax.Array]) -> jax.Array:
        """Return the cross-entropy with smoothed labels, summed over the images."""
        logits = model(batch["image"], training=True)
        return cross_entropy(logits, batch["label"], self.workload.options.label_smoothing)
