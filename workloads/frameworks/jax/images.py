"""Base of the JAX trainers of image models, with convolutions and batch norm in NHWC.

The shapes use these symbols: B images of a replica, H × W pixels, h × w cells of a feature map, C
channels. Images are uint8 (B, H, W, 3) and are normalized on the device. Convolution weights have
the shape (outputs, inputs, height, width) in the canonical layout and (height, width, inputs,
outputs) in the model.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workloads.api import Array, Batch, TrainStats
from workloads.common.networks import layer_lists
from workloads.common.networks.residual import Block, Convolution, Trunk
from workloads.frameworks.jax.model import Model, ModelTrainer
from workloads.frameworks.jax.optimizers import Values
from workloads.frameworks.jax.trainer import AXIS, PER_DEVICE


class Layers(Model):
    """Forward pass of an image model.

    The object contains the weights, cast to the data type of the activations, and the updated
    running statistics.

    Subclasses define the batch norm attributes `epsilon` and `momentum`. `momentum` is the weight
    of the statistic of the current batch in the running statistic. Subclasses also define
    `__call__`, which sets `training`.
    """

    epsilon: float
    momentum: float
    training = False

    def __init__(self, weights: Values, statistics: Values, dtype: Any) -> None:
        super().__init__(weights, statistics)
        self.dtype = dtype

    def __call__(self, images: jax.Array, training: bool) -> Any:
        """Return the fp32 outputs for uint8 images (B, H, W, 3).

        With `training`, the running statistics are updated.
        """
        raise NotImplementedError

    def parameter(self, name: str) -> jax.Array:
        """Return a parameter in the data type of the activations."""
        return self.weights[name].astype(self.dtype)

    def normalised(
        self, images: jax.Array, mean: Sequence[float], deviation: Sequence[float]
    ) -> jax.Array:
        """Scale uint8 images (B, H, W, 3) to 0 … 1 and normalize them.

        Normalization subtracts `mean` and divides by `deviation`.
        """
        centre, width = jnp.array(mean, jnp.float32), jnp.array(deviation, jnp.float32)
        return (images.astype(jnp.float32) * (1 / (255 * width)) - centre / width).astype(
            self.dtype
        )

    def convolve(
        self,
        x: jax.Array,
        layer: Convolution | layer_lists.Convolution,
        scale: jax.Array | float = 1.0,
    ) -> jax.Array:
        """Convolve (B, h, w, inputs) to (B, h', w', outputs), with zero padding on every side.

        `scale` multiplies each output channel of the weights. A 1×1 convolution is computed as a
        matrix product. In XLA, the weight gradient of a strided 1×1 convolution was 11 times as
        slow as the matrix product on two cores (284 ms, batch 16, 56 × 56 × 256 to 512).
        """
        weight = (self.weights[f"{layer.name}.weight"] * scale).astype(self.dtype)
        sides = [(side, side) for side in layer_lists.pair(layer.padding)]
        if weight.shape[:2] == (1, 1) and not any(sum(sides, ())):
            return x[:, :: layer.stride, :: layer.stride] @ weight[0, 0]
        return jax.lax.conv_general_dilated(
            x,
            weight,
            (layer.stride, layer.stride),
            sides,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )

    def trunk(self, x: jax.Array, layers: Trunk) -> jax.Array:
        """Apply the stem, a max pool and the residual blocks to images (B, H, W, 3).

        The images must be normalized.

        Returns:
            The output feature map of the last block.
        """
        return self.stage_maps(x, layers)[-1]

    def stage_maps(self, x: jax.Array, layers: Trunk) -> list[jax.Array]:
        """Return the output feature map of every stage of `trunk`, with the finest map first."""
        x = pool(jax.nn.relu(self.unit(x, layers.stem)))
        maps: dict[str, jax.Array] = {}
        for block in layers.blocks:
            x = maps[block.convolutions[0].name.partition(".")[0]] = self.residual(x, block)
        return list(maps.values())

    def residual(self, x: jax.Array, block: Block) -> jax.Array:
        """Apply a residual block: (B, h, w, inputs) to (B, h / stride, w / stride, outputs)."""
        out = x
        for layer in block.convolutions[:-1]:
            out = jax.nn.relu(self.unit(out, layer))
        out = self.unit(out, block.convolutions[-1])
        shortcut = x if block.shortcut is None else self.unit(x, block.shortcut)
        return jax.nn.relu(out + shortcut)

    def unit(self, x: jax.Array, layer: Convolution) -> jax.Array:
        """Apply a convolution and its batch norm.

        A batch norm without running statistics is frozen. The scale of a frozen batch norm is
        multiplied into the convolution weights, because the weights are smaller than the feature
        map.
        """
        assert layer.norm is not None, f"{layer.name} has a bias"
        if f"{layer.norm}.running_mean" not in self.statistics:
            return self.convolve(x, layer, self.weights[f"{layer.norm}.weight"]) + self.parameter(
                f"{layer.norm}.bias"
            )
        return self.normalise(self.convolve(x, layer), layer.norm)

    def dense(self, x: jax.Array, name: str) -> jax.Array:
        """Return x (…, inputs) times the transposed weight (outputs, inputs), plus the bias."""
        return x @ self.parameter(f"{name}.weight").T + self.parameter(f"{name}.bias")

    def biased(self, x: jax.Array, layer: Convolution | layer_lists.Convolution) -> jax.Array:
        """Apply a convolution with bias."""
        return self.convolve(x, layer) + self.parameter(f"{layer.name}.bias")

    def normalise(self, x: jax.Array, name: str) -> jax.Array:
        """Apply the batch norm `name` to (B, h, w, C) in fp32.

        The update of the running variance uses the unbiased variance of the batch.
        """
        kept = [f"{name}.running_{kind}" for kind in ("mean", "var")]
        wide = x.astype(jnp.float32)
        if self.training:
            mean = wide.mean((0, 1, 2))
            variance = jnp.square(wide - mean).mean((0, 1, 2))
            count = x.size // x.shape[-1]
            for key, new in zip(kept, (mean, variance * (count / (count - 1))), strict=True):
                self.statistics[key] += self.momentum * (
                    jax.lax.stop_gradient(new) - self.statistics[key]
                )
        else:
            mean, variance = (self.statistics[key] for key in kept)
        scale = self.weights[f"{name}.weight"] * jax.lax.rsqrt(variance + self.epsilon)
        return ((wide - mean) * scale + self.weights[f"{name}.bias"]).astype(self.dtype)


def smooth_l1(difference: jax.Array, beta: float) -> jax.Array:
    """Return the smooth L1 loss of each difference, multiplied by `beta`."""
    size = jnp.abs(difference)
    inner = jnp.minimum(size, beta)
    return inner * (size - 0.5 * inner)


class ImageTrainer(ModelTrainer):
    """Trainer of an image model on a single device.

    Subclasses define `inputs`, whose first array is `image`, and the hooks of ModelTrainer.
    """

    inputs: tuple[str, ...] = ("image", "label")
    evaluation_inputs: tuple[str, ...] = ("image",)

    def outputs(self, model: Any, batch: Mapping[str, jax.Array]) -> Values:
        """Return the `logits` (B, K) of a classifier."""
        return {"logits": model(batch["image"], training=False)}

    @functools.cached_property
    def _mean_statistics(self) -> Any:
        return self.mapped(lambda moved: jax.lax.pmean(moved, AXIS), (PER_DEVICE,), PER_DEVICE)

    def inside(self, name: str, value: Array) -> Array:
        """Transpose (outputs, inputs, height, width) to (height, width, inputs, outputs).

        Arrays that do not have four axes are returned unchanged.
        """
        return np.ascontiguousarray(np.transpose(value, (2, 3, 1, 0))) if value.ndim == 4 else value

    def outside(self, name: str, value: Array) -> Array:
        return np.ascontiguousarray(np.transpose(value, (3, 2, 0, 1))) if value.ndim == 4 else value

    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        """Run one optimizer step per list of batches, then average the running statistics.

        The running statistics are averaged over the replicas. The average does not influence
        training.
        """
        stats = super().train(steps, first_step)
        if self.worker.num_replicas > 1:
            self.moved = self._mean_statistics(self.moved)
        return stats


def pool(
    x: jax.Array,
    kind: str = "max",
    kernel: int = 3,
    stride: int = 2,
    padding: int = 1,
    extra: layer_lists.Pair = (0, 0),
) -> jax.Array:
    """Return the maximum or the mean of each pooling window of (B, h, w, C).

    Means include the zero padding around the feature map. The last windows extend beyond the padded
    map by `extra` rows and columns.
    """
    sides = ((0, 0), *((padding, padding + more) for more in extra), (0, 0))
    if kind == "avg":
        windows = ((1, kernel, kernel, 1), (1, stride, stride, 1), sides)
        return jax.lax.reduce_window(x, 0.0, jax.lax.add, *windows) / kernel**2
    # On CPUs, the gradient of a max `reduce_window` is 4 to 10 times as slow as the gradient of an
    # elementwise maximum over slices.
    x = jnp.pad(x, sides, constant_values=-jnp.inf)
    batch, rows, columns, channels = x.shape
    ends = [(side - kernel) // stride * stride + 1 for side in (rows, columns)]
    slices = (
        jax.lax.slice(
            x, (0, i, j, 0), (batch, i + ends[0], j + ends[1], channels), (1, stride, stride, 1)
        )
        for i in range(kernel)
        for j in range(kernel)
    )
    return functools.reduce(jnp.maximum, slices)


def cross_entropy(logits: jax.Array, labels: jax.Array, smoothing: float = 0.0) -> jax.Array:
    """Return the cross-entropy of fp32 logits (B, K) and smoothed labels (B,).

    The cross-entropy is summed over the images.
    """
    soft_targets = (
        jax.nn.one_hot(labels, logits.shape[1]) * (1 - smoothing) + smoothing / logits.shape[1]
    )
    return -(soft_targets * jax.nn.log_softmax(logits)).sum()
