"""ResNet v1.5 in TensorFlow, NHWC.

Shapes: B images of a replica, S pixels of a side, K classes. Images come as uint8 (B, S, S, 3) and are normalised on the
device. Outside, parameters carry torchvision's names and layouts; inside, convolutions are (height, width, inputs, outputs).
Batch norm is TensorFlow's raw fused operator: it takes epsilon as it is and moves the running variance by the unbiased one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.api import Array, Arrays, Batch, Place, TrainStats, Workload
from workloads.common.tensorflow import TensorFlowTrainer
from workloads.common.tensorflow_optimizers import Lars, Optimizer, Sgd
from workloads.resnet50 import network
from workloads.resnet50.workload import ResNet50

FP16_LOSS_SCALE = 128.0
"""Static, the reference's default (resnet_run_loop.py); gradients are divided by it before the update."""
NARROW = {"bf16": tf.bfloat16, "fp16": tf.float16}
"""Precisions in which activations and the weights' copies are narrower than fp32."""
Tensors = dict[str, tf.Tensor]


class ResNet:
    """The model over variables by canonical name; `dtype` is that of the activations.

    `as_products`: 1×1 convolutions of stride 1 are matrix products (on a CPU 5 to 9 % of a training step faster).
    """

    def __init__(self, layers: network.Network, dtype: tf.DType, as_products: bool) -> None:
        self.layers, self.dtype, self.as_products = layers, dtype, as_products
        self.parameters = {
            name: tf.Variable(tf.zeros(_inside(shape)), name=name) for name, shape in network.shapes(layers).items()
        }
        self.statistics = {
            name: tf.Variable(tf.zeros(shape), name=name, trainable=False)
            for name, shape in network.statistics(layers).items()
        }

    def __call__(self, images: tf.Tensor, training: bool) -> tf.Tensor:
        """From uint8 images (B, S, S, 3) to fp32 logits (B, K); in training the running statistics move."""
        x = tf.cast(tf.cast(images, tf.float32) - tf.constant(network.MEAN), self.dtype)
        x = tf.nn.relu(self._normalised(x, self.layers.stem, training))
        # Behind ReLU, zeros at the border are as good as minus infinity.
        x = tf.nn.max_pool2d(_pad(x, 1), 3, 2, "VALID")
        for block in self.layers.blocks:
            x = self._bottleneck(x, block, training)
        features = tf.cast(tf.reduce_mean(tf.cast(x, tf.float32), [1, 2]), self.dtype)
        weight, bias = (tf.cast(self.parameters[f"fc.{kind}"], self.dtype) for kind in ("weight", "bias"))
        return tf.cast(tf.matmul(features, weight, transpose_b=True) + bias, tf.float32)

    def _bottleneck(self, x: tf.Tensor, block: network.Bottleneck, training: bool) -> tf.Tensor:
        """(B, h, w, inputs) to (B, h / stride, w / stride, outputs)."""
        first, second, third = block.convolutions
        out = tf.nn.relu(self._normalised(x, first, training))
        out = tf.nn.relu(self._normalised(out, second, training))
        out = self._normalised(out, third, training)
        shortcut = x if block.shortcut is None else self._normalised(x, block.shortcut, training)
        return tf.nn.relu(out + shortcut)

    def _convolve(self, x: tf.Tensor, layer: network.Convolution) -> tf.Tensor:
        """(B, h, w, inputs) to (B, h / stride, w / stride, outputs).

        The operator's EXPLICIT padding leaves oneDNN, above all in bf16 (twenty times slower); so zeros are put around.
        """
        weight = tf.cast(self.parameters[f"{layer.name}.weight"], self.dtype)
        if layer.stride > 1:
            return tf.nn.conv2d(_pad(x, layer.kernel // 2), weight, layer.stride, "VALID")
        if layer.kernel == 1 and self.as_products:
            product = tf.matmul(tf.reshape(x, [-1, layer.inputs]), tf.reshape(weight, [layer.inputs, layer.outputs]))
            return tf.reshape(product, [*x.shape[:-1], layer.outputs])
        return tf.nn.conv2d(x, weight, 1, "SAME")  # with stride 1 and an odd kernel as much on every side

    def _normalised(self, x: tf.Tensor, layer: network.Convolution, training: bool) -> tf.Tensor:
        """Convolution and batch norm."""
        x = self._convolve(x, layer)
        mean, variance = (self.statistics[f"{layer.norm}.running_{kind}"] for kind in ("mean", "var"))
        x, new_mean, new_variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x, scale=self.parameters[f"{layer.norm}.weight"], offset=self.parameters[f"{layer.norm}.bias"],
            mean=mean, variance=variance, epsilon=network.BATCH_NORM_EPSILON, is_training=training,
            exponential_avg_factor=network.BATCH_NORM_MOMENTUM,
        )  # fmt: skip
        if training:
            mean.assign(new_mean)
            variance.assign(new_variance)
        return x


class ResNetTrainer(TensorFlowTrainer):
    """ResNet on one device; several processes sum their gradients."""

    workload: ResNet50

    def __init__(self, workload: Workload, place: Place) -> None:
        super().__init__(workload, place)
        # XLA: on a CPU 0.4 of the speed of oneDNN's operators; on a GPU presumed to be faster.
        choice = self.settings.options.get("compile", "auto")
        self.compiled = self.on_gpu if choice == "auto" else choice == "on"
        self.smoothing = float(self.settings.hyperparameters["label_smoothing"])
        self.loss_scale = FP16_LOSS_SCALE if self.settings.precision == "fp16" else 1.0
        dtype = NARROW.get(self.settings.precision, tf.float32)
        self.model = ResNet(self.workload.network, dtype, as_products=not self.on_gpu)
        self.optimizer = self._optimizer()
        self._gradients = self._function(self._gradients_of)
        self._apply = self._function(self.optimizer.apply)
        self._step = self._function(self._train) if self.strategy is None else tf.function(self._train, autograph=False)
        self._loss = self._function(self._forward)
        self._logits = self._function(lambda images: self.model(images, training=False))

    def _optimizer(self) -> Optimizer:
        values, rule = self.settings.hyperparameters, self.workload.rule
        momentum = float(values["momentum"])
        if self.workload.uses_lars:
            return Lars(self.model.parameters, rule, momentum, float(values["lars_coefficient"]))
        return Sgd(self.model.parameters, rule, momentum)

    def _function(self, python: Callable[..., Any]) -> Callable[..., Any]:
        function: Callable[..., Any] = tf.function(python, autograph=False, jit_compile=self.compiled)
        return function

    def setup(self, weights: Iterable[tuple[str, Array]], warm_up: bool = True) -> None:
        """Warm up on made-up images, then load the weights and reset statistics and optimizer."""
        if warm_up:
            self._warm_up()
        for name, value in weights:
            self.model.parameters[name].assign(_to_inside(value))
        for name, statistic in self.model.statistics.items():
            statistic.assign(tf.fill(statistic.shape, 1.0 if name.endswith("var") else 0.0))
        self.optimizer.reset()

    def _warm_up(self) -> None:
        """One step of every shape, and one evaluation batch: kernels are chosen, functions traced."""
        for shape in self.workload.shapes():
            batch = made_up(shape["image"].shape)
            if self.settings.mode == "forward":
                self.loss(batch)
            else:
                self.step(batch, learning_rate=0.0)
            self.outputs(made_up((self.workload.evaluation_batch_size, *shape["image"].shape[1:])))

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
        self._step(*map(tf.constant, (batch.arrays["image"], batch.arrays["label"], scalars)))

    def _train(self, images: tf.Tensor, labels: tf.Tensor, scalars: tf.Tensor) -> None:
        """One step; scalars are the learning rate and 1 / weight_global."""
        self.traces += 1
        if self.strategy is None:
            self.optimizer.apply(self._gradients_of(images, labels, scalars[1]), scalars[0])
            return
        gradients = self._gradients(images, labels, scalars[1])
        summed = self.sum_over_replicas(list(gradients.values()))
        self._apply(dict(zip(gradients, summed, strict=True)), scalars[0])

    def _gradients_of(self, images: tf.Tensor, labels: tf.Tensor, scale: tf.Tensor) -> Tensors:
        """Gradients of this replica's part of the loss, which is added to `total`."""
        with tf.GradientTape() as tape:
            loss = self._loss_of(images, labels) * scale
            scaled = loss * self.loss_scale
        self.total.assign_add(tf.cast(loss, tf.float64))
        gradients = tape.gradient(scaled, self.model.parameters)
        if self.loss_scale == 1:
            return dict(gradients)
        return {name: gradient / self.loss_scale for name, gradient in gradients.items()}

    def _loss_of(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Cross-entropy with smoothed labels, summed over the images."""
        logits = self.model(images, training=True)
        uniform = self.smoothing / logits.shape[1]
        targets = tf.one_hot(labels, logits.shape[1], 1 - self.smoothing + uniform, uniform)
        return tf.reduce_sum(tf.nn.softmax_cross_entropy_with_logits(targets, logits))

    def loss(self, batch: Batch) -> None:
        """Loss of a batch without an update; the running statistics move, as in a step."""
        scale = np.float32(1 / batch.weight_global)
        self._loss(*map(tf.constant, (batch.arrays["image"], batch.arrays["label"], scale)))

    def _forward(self, images: tf.Tensor, labels: tf.Tensor, scale: tf.Tensor) -> None:
        self.total.assign_add(tf.cast(self._loss_of(images, labels) * scale, tf.float64))

    # -- evaluation and state -------------------------------------------------------------------------------------

    def outputs(self, batch: Batch) -> Tensors:
        """Logits (B, K)."""
        return {"logits": self._logits(tf.constant(batch.arrays["image"]))}

    def state(self) -> dict[str, Array]:
        """Parameters, running statistics and velocities by name."""
        return {name: _to_outside(variable.numpy()) for name, variable in self._variables().items()}

    def load_state(self, state: Arrays) -> None:
        """Inverse of `state`."""
        for name, variable in self._variables().items():
            variable.assign(_to_inside(state[name]))

    def _variables(self) -> dict[str, tf.Variable]:
        return {**self.model.parameters, **self.model.statistics, **self.optimizer.velocities}


def _pad(x: tf.Tensor, count: int) -> tf.Tensor:
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


def made_up(shape: tuple[int, ...]) -> Batch:
    """A batch of grey images (B, S, S, 3)."""
    arrays = {"image": np.full(shape, 128, np.uint8), "label": np.zeros(shape[0], np.int32)}
    return Batch(arrays, float(shape[0]), float(shape[0]), shape[0])
