"""What TensorFlow trainers of image models share: convolutions with batch norm in NHWC, and a trainer around them.

Shapes: B images of a replica, S pixels of a side, h × w cells of a map, C channels. Images come as uint8 (B, S, S, 3) and are
normalised on the device. Outside, parameters carry canonical names and PyTorch's layouts; inside, convolutions are (height,
width, inputs, outputs). Batch norm is TensorFlow's raw fused operator: it takes epsilon as it is and moves the running variance
by the unbiased one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.api import Array, Arrays, Batch, Place, TrainStats, Workload
from workloads.frameworks.tensorflow.optimizers import Optimizer
from workloads.frameworks.tensorflow.trainer import TensorFlowTrainer

NARROW = {"bf16": tf.bfloat16, "fp16": tf.float16}
"""Precisions in which activations and the weights' copies are narrower than fp32."""
Shapes = Mapping[str, tuple[int, ...]]
Tensors = dict[str, tf.Tensor]
Layer = Any
"""A workload's network.Convolution."""
Block = Any
"""A workload's residual block: `convolutions`, and a `shortcut` or None."""


class ImageModel:
    """Variables by canonical name, and the layers that use them; `dtype` is that of the activations.

    `as_products`: 1×1 convolutions of stride 1 are matrix products (on a CPU 5 to 9 % of ResNet's training step faster).
    Subclasses give `epsilon` and `momentum` of batch norm (the share of the new statistic in the running one), and `__call__`.
    """

    epsilon: float
    momentum: float

    def __init__(self, parameters: Shapes, statistics: Shapes, dtype: tf.DType, as_products: bool) -> None:
        self.dtype, self.as_products = dtype, as_products
        self.parameters = {name: tf.Variable(tf.zeros(_inside(shape)), name=name) for name, shape in parameters.items()}
        self.statistics = {
            name: tf.Variable(tf.zeros(shape), name=name, trainable=False) for name, shape in statistics.items()
        }

    def __call__(self, images: tf.Tensor, training: bool) -> Any:
        """From uint8 images (B, S, S, 3) to the model's fp32 outputs; in training the running statistics move."""
        raise NotImplementedError

    def parameter(self, name: str) -> tf.Tensor:
        """In the type of the activations."""
        return tf.cast(self.parameters[name], self.dtype)

    def convolve(self, x: tf.Tensor, weight: tf.Tensor, stride: int, padding: int) -> tf.Tensor:
        """(B, h, w, inputs) to (B, h', w', outputs) by (height, width, inputs, outputs), with zeros on every side.

        The operator's EXPLICIT padding leaves oneDNN, above all in bf16 (twenty times slower); so zeros are put around.
        """
        kernel, _, inputs, outputs = weight.shape
        if stride > 1 or 2 * padding != kernel - 1:
            return tf.nn.conv2d(pad(x, padding), weight, stride, "VALID")
        if kernel == 1 and self.as_products:
            product = tf.matmul(tf.reshape(x, [-1, inputs]), tf.reshape(weight, [inputs, outputs]))
            return tf.reshape(product, [*x.shape[:-1], outputs])
        return tf.nn.conv2d(x, weight, 1, "SAME")  # with stride 1 and an odd kernel as much on every side

    def trunk(self, x: tf.Tensor, stem: Layer, blocks: Iterable[Block], training: bool) -> tf.Tensor:
        """The stem, a max pool and residual blocks: from normalised images (B, S, S, 3) to the last block's map."""
        x = max_pool(tf.nn.relu(self.unit(x, stem, training)))
        for block in blocks:
            out = x
            for layer in block.convolutions[:-1]:
                out = tf.nn.relu(self.unit(out, layer, training))
            out = self.unit(out, block.convolutions[-1], training)
            shortcut = x if block.shortcut is None else self.unit(x, block.shortcut, training)
            x = tf.nn.relu(out + shortcut)
        return x

    def unit(self, x: tf.Tensor, layer: Layer, training: bool) -> tf.Tensor:
        """Convolution and batch norm: (B, h, w, inputs) to (B, h / stride, w / stride, outputs)."""
        x = self.convolve(x, self.parameter(f"{layer.name}.weight"), layer.stride, layer.padding)
        return self.normalise(x, layer.norm, training)

    def normalise(self, x: tf.Tensor, name: str, training: bool) -> tf.Tensor:
        """Batch norm `name` of (B, h, w, C)."""
        mean, variance = (self.statistics[f"{name}.running_{kind}"] for kind in ("mean", "var"))
        x, new_mean, new_variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x, scale=self.parameters[f"{name}.weight"], offset=self.parameters[f"{name}.bias"],
            mean=mean, variance=variance, epsilon=self.epsilon, is_training=training,
            exponential_avg_factor=self.momentum,
        )  # fmt: skip
        if training:
            mean.assign(new_mean)
            variance.assign(new_variance)
        return x


class ImageTrainer(TensorFlowTrainer):
    """An image model on one device; several processes sum their gradients.

    Subclasses give `targets`, `build_model`, `build_optimizer`, `loss_of` and `outputs_of`.
    """

    targets: tuple[str, ...]
    """The arrays of a training batch that `loss_of` takes behind `image`."""

    def __init__(self, workload: Workload, place: Place) -> None:
        super().__init__(workload, place)
        # XLA: on a CPU 0.4 (ResNet) and 0.7 (SSD) of the speed of oneDNN's operators; on a GPU presumed to be faster.
        choice = self.settings.options.get("compile", "auto")
        self.compiled = self.on_gpu if choice == "auto" else choice == "on"
        self.loss_scale = self.workload.loss_scaling.start
        self.model = self.build_model(NARROW.get(self.settings.precision, tf.float32), as_products=not self.on_gpu)
        self.optimizer = self.build_optimizer()
        self._gradients = self._function(self._gradients_of)
        self._apply = self._function(self.optimizer.apply)
        self._step = self._function(self._train) if self.strategy is None else tf.function(self._train, autograph=False)
        self._loss = self._function(self._forward)
        self._outputs = self._function(self.outputs_of)

    # -- for subclasses -------------------------------------------------------------------------------------------

    def build_model(self, dtype: tf.DType, as_products: bool) -> ImageModel:
        """See ImageModel."""
        raise NotImplementedError

    def build_optimizer(self) -> Optimizer:
        """Over the parameters of `self.model`."""
        raise NotImplementedError

    def loss_of(self, images: tf.Tensor, *targets: tf.Tensor) -> tf.Tensor:
        """The loss in training, summed over the images; an fp32 scalar."""
        raise NotImplementedError

    def outputs_of(self, images: tf.Tensor) -> Tensors:
        """What `Workload.measure` takes, in evaluation mode."""
        raise NotImplementedError

    # -- setup ----------------------------------------------------------------------------------------------------

    def _function(self, python: Callable[..., Any]) -> Callable[..., Any]:
        function: Callable[..., Any] = tf.function(python, autograph=False, jit_compile=self.compiled)
        return function

    def setup(self, weights: Iterable[tuple[str, Array]], warm_up: bool = True) -> None:
        """Warm up on made-up images, reset statistics and optimizer, load the weights, which may bring statistics."""
        if warm_up:
            self._warm_up()
        for name, statistic in self.model.statistics.items():
            statistic.assign(tf.fill(statistic.shape, 1.0 if name.endswith("var") else 0.0))
        variables = {**self.model.parameters, **self.model.statistics}
        for name, value in weights:
            variables[name].assign(_to_inside(value))
        self.optimizer.reset()

    def _warm_up(self) -> None:
        """One step of every shape, and one evaluation batch: kernels are chosen, functions traced."""
        for specs in self.workload.shapes():
            batch = self.workload.dummy_batch(specs)
            if self.settings.mode == "forward":
                self.loss(batch)
            else:
                self.step(batch, learning_rate=0.0)
        for specs in self.workload.evaluation_shapes():
            self.outputs(self.workload.dummy_batch(specs))

    # -- training -------------------------------------------------------------------------------------------------

    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        """One optimizer step per item; at the end the replicas' statistics are averaged, which training does not notice."""
        stats = super().train(steps, first_step)
        if self.strategy is not None:
            statistics = list(self.model.statistics.values())
            summed = self.sum_over_replicas([statistic.read_value() for statistic in statistics])
            for statistic, value in zip(statistics, summed, strict=True):
                statistic.assign(value / self.place.processes)
        return stats

    def step(self, batch: Batch, learning_rate: float) -> None:
        """Forward, backward, sum over replicas, update."""
        scalars = np.array([learning_rate, 1 / batch.weight_global], np.float32)
        self._step(tf.constant(scalars), *self._inputs(batch))

    def _train(self, scalars: tf.Tensor, *inputs: tf.Tensor) -> None:
        """One step; scalars are the learning rate and 1 / weight_global."""
        self.traces += 1
        if self.strategy is None:
            self.optimizer.apply(self._gradients_of(scalars[1], *inputs), scalars[0])
            return
        gradients = self._gradients(scalars[1], *inputs)
        summed = self.sum_over_replicas(list(gradients.values()))
        self._apply(dict(zip(gradients, summed, strict=True)), scalars[0])

    def _gradients_of(self, scale: tf.Tensor, *inputs: tf.Tensor) -> Tensors:
        """Gradients of this replica's part of the loss, which is added to `total`."""
        with tf.GradientTape() as tape:
            loss = self.loss_of(*inputs) * scale
            scaled = loss * self.loss_scale
        self.total.assign_add(tf.cast(loss, tf.float64))
        gradients = tape.gradient(scaled, self.model.parameters)
        if self.loss_scale == 1:
            return dict(gradients)
        return {name: gradient / self.loss_scale for name, gradient in gradients.items()}

    def loss(self, batch: Batch) -> None:
        """Loss of a batch without an update; the running statistics move, as in a step."""
        self._loss(tf.constant(np.float32(1 / batch.weight_global)), *self._inputs(batch))

    def _forward(self, scale: tf.Tensor, *inputs: tf.Tensor) -> None:
        self.total.assign_add(tf.cast(self.loss_of(*inputs) * scale, tf.float64))

    def _inputs(self, batch: Batch) -> list[tf.Tensor]:
        """What `loss_of` takes."""
        return [tf.constant(batch.arrays[name]) for name in ("image", *self.targets)]

    # -- evaluation and state -------------------------------------------------------------------------------------

    def outputs(self, batch: Batch) -> Tensors:
        """See `outputs_of`."""
        outputs: Tensors = self._outputs(tf.constant(batch.arrays["image"]))
        return outputs

    def state(self) -> dict[str, Array]:
        """Parameters, running statistics and velocities by name."""
        return {name: _to_outside(variable.numpy()) for name, variable in self._variables().items()}

    def load_state(self, state: Arrays) -> None:
        """Inverse of `state`."""
        for name, variable in self._variables().items():
            variable.assign(_to_inside(state[name]))

    def _variables(self) -> dict[str, tf.Variable]:
        return {**self.model.parameters, **self.model.statistics, **self.optimizer.velocities}


def max_pool(x: tf.Tensor) -> tf.Tensor:
    """3×3 with stride 2 and padding 1. Behind ReLU, zeros at the border are as good as minus infinity."""
    return tf.nn.max_pool2d(pad(x, 1), 3, 2, "VALID")


def pad(x: tf.Tensor, count: int) -> tf.Tensor:
    """Zeros on every side of (B, h, w, C); with a stride SAME would put more of them at the bottom right."""
    return tf.pad(x, [[0, 0], [count, count], [count, count], [0, 0]]) if count else x


def _inside(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A canonical shape as TensorFlow lays it out."""
    return (*shape[2:], shape[1], shape[0]) if len(shape) == 4 else shape


def _to_inside(value: Array) -> Array:
    """(outputs, inputs, height, width) to (height, width, inputs, outputs); others as they are."""
    return np.transpose(value, (2, 3, 1, 0)) if value.ndim == 4 else value


def _to_outside(value: Array) -> Array:
    """Inverse of `_to_inside`, as a copy."""
    return np.ascontiguousarray(np.transpose(value, (3, 2, 0, 1))) if value.ndim == 4 else value.copy()
