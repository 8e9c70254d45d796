"""Networks of `workloads.common.networks.layer_lists` in JAX, in NHWC layout.

The shapes use these symbols: B images, H × W pixels, h × w cells of a feature map, C channels, K
classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from workloads.common.networks import layer_lists
from workloads.common.networks.layer_lists import Layer
from workloads.frameworks.jax.images import Layers, pool
from workloads.frameworks.jax.optimizers import Values

Masks = Mapping[str, jax.Array]
"""Dropout masks by label. A mask has the shape (B, h, w, C) or (B, C)."""


class LayerNetwork(Layers):
    """Network of a layer list, from uint8 images (B, H, W, 3) to fp32 logits (B, K)."""

    def __init__(
        self, weights: Values, statistics: Values, dtype: Any, network: layer_lists.Network
    ) -> None:
        super().__init__(weights, statistics, dtype)
        self.network, self.epsilon, self.momentum = network, network.epsilon, network.momentum

    def __call__(self, images: jax.Array, training: bool, masks: Masks | None = None) -> jax.Array:
        """Return the logits of the images.

        Without masks, dropout is disabled.
        """
        self.training = training
        x = self.normalised(images, self.network.mean, self.network.deviation)
        return _sequence(self, x, self.network.layers, masks or {}).astype(jnp.float32)


def _sequence(layers: Layers, x: jax.Array, steps: Sequence[Layer], masks: Masks) -> jax.Array:
    for layer in steps:
        x = _step(layers, x, layer, masks)
    return x


def _step(layers: Layers, x: jax.Array, layer: Layer, masks: Masks) -> jax.Array:
    """Apply a layer to a feature map (B, h, w, C) or to a feature vector (B, C)."""
    match layer:
        case layer_lists.Convolution(norm=norm):
            x = layers.biased(x, layer) if layer.has_bias else layers.convolve(x, layer)
            return jax.nn.relu(x if norm is None else layers.normalise(x, norm))
        case layer_lists.Residual(block):
            return layers.residual(x, block)
        case layer_lists.Linear(name, inputs, _, relu):
            # The weight expects a feature map that is flattened channel by channel.
            if x.ndim == 4:
                x = x.transpose(0, 3, 1, 2).reshape(-1, inputs)
            x = layers.dense(x, name)
            return jax.nn.relu(x) if relu else x
        case layer_lists.Concatenation(branches):
            return jnp.concatenate([_sequence(layers, x, branch, masks) for branch in branches], 3)
        case layer_lists.Dropout(label):
            return x * masks[label].astype(x.dtype) if label in masks else x
        case layer_lists.ResponseNorm(size, alpha, beta, k):
            wide, side = x.astype(jnp.float32), size // 2
            sides = ((0, 0), (0, 0), (0, 0), (side, side))
            sums = jax.lax.reduce_window(
                wide**2, 0.0, jax.lax.add, (1, 1, 1, size), (1, 1, 1, 1), sides
            )
            return (wide * (k + alpha / size * sums) ** -beta).astype(x.dtype)
        case layer_lists.GlobalPool():
            return x.astype(jnp.float32).mean((1, 2)).astype(x.dtype)
        case layer_lists.Pool(kind, kernel, stride, padding, _, extra):
            return pool(x, kind, kernel, stride, padding, extra)
