"""Keras' networks, with the suite's parameter names in checkpoints.

Keras' layer computes the dropout.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.api import Array
from workloads.common.networks import layer_lists
from workloads.common.networks.layer_lists import Network
from workloads.frameworks.tensorflow.variables import Model

keras = tf.keras
APPLICATIONS = {"vgg16": "VGG16", "vgg19": "VGG19", "inception_v3": "InceptionV3"}
CHANNELS_FLATTENED = 512
"""Number of channels of VGG's last feature map. Keras flattens the last feature map pixel by pixel,
and the suite flattens it channel by channel.
"""


class StockNetwork(Model):
    """Network of Keras' applications, from images (B, H, W, 3) to fp32 logits (B, K).

    The images have the data type uint8.
    """

    def __init__(self, network: Network, image_size: int) -> None:
        self.network, self.constants = network, {}
        application = getattr(keras.applications, APPLICATIONS[network.name])
        self.model = application(
            weights=None,
            input_shape=(image_size, image_size, 3),
            classes=network.classes,
            classifier_activation=None,
        )
        variables = dict(self._named())
        self.statistics = {name: value for name, value in variables.items() if "running_" in name}
        self.parameters = {
            name: value for name, value in variables.items() if name not in self.statistics
        }
        self.flattened = {
            layer.name
            for layer in layer_lists.linears(network)[:1]
            if network.name.startswith("vgg")
        }

    def __call__(self, images: tf.Tensor, training: bool) -> tf.Tensor:
        mean, deviation = tf.constant(self.network.mean), tf.constant(self.network.deviation)
        return self.model(
            tf.cast(images, tf.float32) * (1 / (255 * deviation)) - mean / deviation,
            training=training,
        )

    def _named(self) -> Iterator[tuple[str, tf.Variable]]:
        """Yield the variables with their names in the suite.

        Keras numbers its layers in the same order as the suite's layer list.
        """
        kinds = (keras.layers.Conv2D, keras.layers.BatchNormalization, keras.layers.Dense)
        convolutions, norms, denses = (
            [candidate for candidate in self.model.layers if isinstance(candidate, kind)]
            for kind in kinds
        )
        listed = [layer for layer, _ in layer_lists.convolutions(self.network.layers)]
        for layer, keras_layer in zip(listed, sorted(convolutions, key=_number), strict=True):
            yield from _of(layer.name, keras_layer, weight="kernel", bias="bias")
        names = [layer.norm for layer in listed if layer.norm is not None]
        for name, keras_layer in zip(names, sorted(norms, key=_number), strict=True):
            yield from _of(name, keras_layer, weight="gamma", bias="beta")
            yield from _of(
                name, keras_layer, running_mean="moving_mean", running_var="moving_variance"
            )
        for linear, keras_layer in zip(layer_lists.linears(self.network), denses, strict=True):
            yield from _of(linear.name, keras_layer, weight="kernel", bias="bias")

    def inside(self, name: str, value: Array) -> Array:
        """Convert an array from the canonical layout to Keras' layout."""
        if value.ndim == 4:
            return np.transpose(value, (2, 3, 1, 0))
        if value.ndim == 2 and name.rpartition(".")[0] in self.flattened:
            value = (
                value.reshape(len(value), CHANNELS_FLATTENED, -1)
                .transpose(0, 2, 1)
                .reshape(len(value), -1)
            )
        return value.T if value.ndim == 2 else value

    def outside(self, name: str, value: Array) -> Array:
        if value.ndim == 4:
            return np.ascontiguousarray(np.transpose(value, (3, 2, 0, 1)))
        value = value.T if value.ndim == 2 else value
        if value.ndim == 2 and name.rpartition(".")[0] in self.flattened:
            value = (
                value.reshape(len(value), -1, CHANNELS_FLATTENED)
                .transpose(0, 2, 1)
                .reshape(len(value), -1)
            )
        return np.array(value)

    def load(self, weights: Iterable[tuple[str, Array]]) -> None:
        """Load the weights that the network contains, and ignore all other weights."""
        super().load((name, value) for name, value in weights if name in self.variables)


def _of(name: str, layer: Any, **kinds: str) -> Iterator[tuple[str, tf.Variable]]:
    """Yield the existing variables of a Keras layer with the suite's parameter names."""
    for kind, attribute in kinds.items():
        variable = getattr(layer, attribute, None)
        if variable is not None:
            yield f"{name}.{kind}", variable.value


def _number(layer: Any) -> tuple[int, str]:
    """Return a sort key for the order in which Keras created the layers.

    For example, `conv2d_7` is the eighth convolution. Sorted by name, VGG's layers are already in
    the correct order.
    """
    number = layer.name.rpartition("_")[2]
    automatic = layer.name.startswith(("conv2d", "batch_normalization"))
    return (int(number) if automatic and number.isdigit() else 0, "" if automatic else layer.name)
