"""SSD on a ResNet-34 trunk in JAX, NHWC.

Shapes: B images of a replica, H × W pixels, h × w cells of a map, C classes without background, P priors. Parameters and
batch-norm statistics carry the names of network.py.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from workloads.api import WorkerContext
from workloads.frameworks.jax.images import ImageTrainer, Layers, smooth_l1
from workloads.frameworks.jax.optimizers import Values
from workloads.ssd import network
from workloads.ssd.workload import SSD


class SSDTrainer(ImageTrainer):
    """SSD on one device; several processes sum their gradients."""

    workload: SSD
    inputs = ("image", "offset", "label")

    def __init__(self, workload: SSD, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        self.parameters, self.statistics = network.shapes(workload.network), network.statistics(workload.network)

    def detected(
        self, weights: Values, statistics: Values, images: jax.Array, training: bool
    ) -> tuple[jax.Array, jax.Array, Values]:
        """fp32 offsets (B, 4, P) and logits (B, C + 1, P) of uint8 images (B, H, W, 3), and the statistics after them."""
        constants = (network.BATCH_NORM_EPSILON, network.BATCH_NORM_MOMENTUM)
        layers, detector = Layers(weights, statistics, self.dtype, training, *constants), self.workload.network
        x = layers.trunk(layers.normalised(images, network.MEAN, network.STANDARD_DEVIATION), detector)
        maps = [x]
        for pair in detector.extras:
            for layer in pair:
                x = jax.nn.relu(layers.biased(x, layer))
            maps.append(x)
        heads = ((detector.box_heads, 4), (detector.class_heads, detector.classes + 1))
        offsets, logits = (
            jnp.concatenate([_planes(layers.biased(x, head), count) for x, head in zip(maps, kind, strict=True)], 2)
            for kind, count in heads
        )
        return offsets.astype(jnp.float32), logits.astype(jnp.float32), layers.statistics

    def loss_of(self, weights: Values, statistics: Values, batch: Values) -> tuple[jax.Array, Values]:
        """`detection_loss` of the images, in fp32 whatever the network computes in."""
        offsets, logits, moved = self.detected(weights, statistics, batch["image"], training=True)
        return detection_loss(offsets, logits, batch["offset"], batch["label"]), moved

    def outputs_of(self, weights: Values, statistics: Values, batch: Values) -> Values:
        """Offsets (B, 4, P) and logits (B, C + 1, P)."""
        offsets, logits, _ = self.detected(weights, statistics, batch["image"], training=False)
        return {"offsets": offsets, "logits": logits}


def detection_loss(offsets: jax.Array, logits: jax.Array, wanted: jax.Array, labels: jax.Array) -> jax.Array:
    """Sum of the images' losses, from offsets, logits, offsets to learn (B, 4, P) and labels (B, P), 0 background.

    Of an image: (smooth L1 of the positives' offsets + cross-entropy of positives and of three times as many negatives, those
    with the largest) / positives; 0 without positives.
    """
    positive = labels > 0
    count, priors = positive.sum(1), labels.shape[1]
    mined = jnp.minimum(network.NEGATIVES_PER_POSITIVE * count, priors - count)
    entropy = -(jax.nn.one_hot(labels, logits.shape[1], axis=1) * jax.nn.log_softmax(logits, axis=1)).sum(1)
    # All are sorted, so that no shape depends on the labels. Positives come last; among equals the lower prior comes first.
    hardest, _ = jax.lax.top_k(jnp.where(positive, -1.0, entropy), priors)
    negatives = jnp.where(jnp.arange(priors) < mined[:, None], hardest, 0.0)
    of_boxes = smooth_l1(offsets - wanted, 1.0).sum(1)
    total = jnp.where(positive, of_boxes + entropy, 0.0).sum(1) + negatives.sum(1)
    return (total / jnp.maximum(count, 1)).sum()


def _planes(x: jax.Array, count: int) -> jax.Array:
    """Outputs (B, h, w, count · k) of a map with k shapes a cell as (B, count, k · h · w).

    Channels are coordinate (or class) outermost, then shape; the priors want shapes, then rows, then columns.
    """
    return x.transpose(0, 3, 1, 2).reshape(len(x), count, -1)
