"""SSD on a ResNet-34 trunk in JAX, in NHWC layout.

The shapes use these symbols: B images of a replica, H × W pixels, h × w cells of a feature map, C
classes without background, P priors. network.py lists the names of parameters and running
statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from workloads.api import WorkerContext
from workloads.frameworks.jax.images import ImageTrainer, Layers, smooth_l1
from workloads.frameworks.jax.optimizers import Values
from workloads.ssd import network
from workloads.ssd.settings import SSDOptions
from workloads.ssd.workload import SSD


class Detector(Layers):
    """SSD network.

    The network maps uint8 images (B, H, W, 3) to fp32 offsets (B, 4, P) and logits (B, C + 1, P).
    """

    epsilon, momentum = network.BATCH_NORM_EPSILON, network.BATCH_NORM_MOMENTUM

    def __init__(
        self, weights: Values, statistics: Values, dtype: Any, layers: network.Network
    ) -> None:
        super().__init__(weights, statistics, dtype)
        self.layers = layers

    def __call__(self, images: jax.Array, training: bool) -> tuple[jax.Array, jax.Array]:
        """Return the box offsets and class logits of the images.

        With `training`, the running statistics are updated.
        """
        self.training, layers = training, self.layers
        x = self.trunk(self.normalised(images, network.MEAN, network.STANDARD_DEVIATION), layers)
        maps = [x]
        for pair in layers.extras:
            for layer in pair:
                x = jax.nn.relu(self.biased(x, layer))
            maps.append(x)
        heads = ((layers.box_heads, 4), (layers.class_heads, layers.classes + 1))
        offsets, logits = (
            jnp.concatenate(
                [_planes(self.biased(x, head), count) for x, head in zip(maps, kind, strict=True)],
                2,
            )
            for kind, count in heads
        )
        return offsets.astype(jnp.float32), logits.astype(jnp.float32)


def detection_loss(
    offsets: jax.Array, logits: jax.Array, wanted: jax.Array, labels: jax.Array, options: SSDOptions
) -> jax.Array:
    """Return the sum of the images' losses.

    The loss of an image is the smooth L1 loss of the positives' offsets plus the cross-entropy of
    the positives and the mined negatives, divided by the number of positives. The loss of an image
    without positives is 0. The mined negatives are the negatives with the largest cross-entropy.
    Each positive has `options.negatives_per_positive` mined negatives.

    `offsets` and `logits` are the outputs of `Detector`, `wanted` (B, 4, P) contains the target
    offsets, and `labels` (B, P) is 0 for background.
    """
    positive = labels > 0
    count, priors = positive.sum(1), labels.shape[1]
    mined = jnp.minimum(options.negatives_per_positive * count, priors - count)
    entropy = -(
        jax.nn.one_hot(labels, logits.shape[1], axis=1) * jax.nn.log_softmax(logits, axis=1)
    ).sum(1)
    # All priors are sorted, so that no shape depends on the labels. The positives come last. Priors
    # with equal cross-entropy are ordered by index.
    hardest, _ = jax.lax.top_k(jnp.where(positive, -1.0, entropy), priors)
    negatives = jnp.where(jnp.arange(priors) < mined[:, None], hardest, 0.0)
    of_boxes = smooth_l1(offsets - wanted, 1.0).sum(1)
    total = jnp.where(positive, of_boxes + entropy, 0.0).sum(1) + negatives.sum(1)
    return (total / jnp.maximum(count, 1)).sum()


def _planes(x: jax.Array, count: int) -> jax.Array:
    """Rearrange a head's outputs (B, h, w, count · k) as (B, count, k · h · w).

    k is the number of box shapes per cell of the feature map.

    In the channels, the outer index is the coordinate (or class), and the inner index is the box
    shape. Priors are ordered by box shape, then by row, then by column.
    """
    return x.transpose(0, 3, 1, 2).reshape(len(x), count, -1)


class SSDTrainer(ImageTrainer):
    """SSD trainer for one device.

    With several processes, the gradients are summed over the processes (all-reduce).
    """

    workload: SSD
    inputs = ("image", "offset", "label")

    def __init__(self, workload: SSD, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        self.parameters, self.statistics = (
            network.shapes(workload.network),
            network.statistics(workload.network),
        )

    def build_model(self, weights: Values, statistics: Values) -> Detector:
        """Return the network of the workload with these weights."""
        return Detector(weights, statistics, self.dtype, self.workload.network)

    def loss(self, model: Detector, batch: Mapping[str, jax.Array]) -> jax.Array:
        """Return the `detection_loss` of a batch.

        The loss is computed in fp32, even if the network uses a lower precision.
        """
        offsets, logits = model(batch["image"], training=True)
        return detection_loss(
            offsets, logits, batch["offset"], batch["label"], self.workload.options
        )

    def outputs(self, model: Detector, batch: Mapping[str, jax.Array]) -> Values:
        """Return the outputs `offsets` (B, 4, P) and `logits` (B, C + 1, P)."""
        offsets, logits = model(batch["image"], training=False)
        return {"offsets": offsets, "logits": logits}
