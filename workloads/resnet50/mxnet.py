"""ResNet v1.5 in MXNet, NCHW (oneDNN arranges channels in blocks by itself).

Shapes: B images of a replica, S pixels of a side, K classes. Images come as uint8 (B, S, S, 3) and are normalised on the
device. Parameters and batch-norm statistics carry torchvision's names. On each context all parameters are views of one
flat vector, all gradients of another: one reduction and a few operators serve all.

Batch norm of MXNet moves the running variance by the biased variance of n values, in the backward pass. What stands under
`running_var` outside is the unbiased one, n / (n - 1) times as large, as in the other frameworks: since that quotient is
the same in every step, the array that MXNet moves is divided by it before a stretch of steps and multiplied behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

import mxnet as mx
import numpy as np

from workloads.api import Array, Arrays, Batch, Place, TrainStats, Workload
from workloads.common.mxnet import GradientSum, MXNetTrainer, memory_errors, views
from workloads.common.mxnet_optimizers import Lars, Sgd, by_rule
from workloads.resnet50 import network
from workloads.resnet50.workload import ResNet50

FP16_LOSS_SCALE = 128.0
"""Static, the reference's default (resnet_run_loop.py); gradients are divided by it in the update."""
Tensor = Any
"""A symbol, or an array where operators are called one by one."""


class ResNet:
    """The model as functions of `F`, which is `mxnet.sym` or `mxnet.nd`, and of inputs by name.

    Inputs: every parameter and statistic, `image` uint8 (B, S, S, 3), `label` int32 (B,), and what normalises images,
    `identity` (3, 3, 1, 1) and `shift` (3,).
    """

    def __init__(self, layers: network.Network, dtype: str, smoothing: float, on_cpu: bool) -> None:
        self.layers, self.dtype, self.smoothing, self.on_cpu = layers, dtype, smoothing, on_cpu

    def loss(self, F: ModuleType, inputs: Mapping[str, Tensor]) -> Tensor:
        """Cross-entropy with smoothed labels, summed over the images, (1,)."""
        logarithms = F.log_softmax(self.logits(F, inputs), axis=1)
        of_label = F.sum(F.pick(logarithms, inputs["label"], axis=1))
        of_all = F.sum(logarithms)
        return of_label * (self.smoothing - 1) - of_all * (self.smoothing / self.layers.classes)

    def logits(self, F: ModuleType, inputs: Mapping[str, Tensor]) -> Tensor:
        """fp32 (B, K)."""
        images = F.transpose(F.cast(inputs["image"], "float32"), (0, 3, 1, 2))
        # The mean is taken off as the bias of a convolution that changes nothing: `broadcast_sub` takes 14 times as long.
        images = F.Convolution(images, inputs["identity"], inputs["shift"], kernel=(1, 1), num_filter=3)
        x = F.cast(F.BlockGrad(images), self.dtype)
        x = self._unit(F, inputs, x, self.layers.stem, relu=True)
        x = F.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max", pooling_convention="valid")
        for block in self.layers.blocks:
            first, second, third = block.convolutions
            out = self._unit(F, inputs, x, first, relu=True)
            out = self._unit(F, inputs, out, second, relu=True)
            out = self._unit(F, inputs, out, third, relu=False)
            shortcut = x if block.shortcut is None else self._unit(F, inputs, x, block.shortcut, relu=False)
            x = _relu(F, out + shortcut)
        x = F.Pooling(x, kernel=(1, 1), global_pool=True, pool_type="avg")
        weight, bias = (F.cast(inputs[f"fc.{kind}"], self.dtype) for kind in ("weight", "bias"))
        return F.cast(F.FullyConnected(x, weight, bias, num_hidden=self.layers.classes), "float32")

    def _unit(
        self, F: ModuleType, inputs: Mapping[str, Tensor], x: Tensor, layer: network.Convolution, relu: bool
    ) -> Tensor:
        """Convolution, batch norm and possibly ReLU: (B, inputs, h, w) to (B, outputs, h / stride, w / stride)."""
        weight = F.cast(inputs[f"{layer.name}.weight"], self.dtype)
        sizes = {name: (value, value) for name, value in zip(("kernel", "stride", "pad"), _sizes(layer), strict=True)}
        x = F.Convolution(x, weight, num_filter=layer.outputs, no_bias=True, **sizes)
        kinds = ("weight", "bias", "running_mean", "running_var")
        arrays = [x, *(inputs[f"{layer.norm}.{kind}"] for kind in kinds)]
        constants = {"eps": network.BATCH_NORM_EPSILON, "momentum": 1 - network.BATCH_NORM_MOMENTUM, "fix_gamma": False}
        if relu and self.on_cpu:
            return F.contrib.BatchNormWithReLU(*arrays, **constants)
        x = F.BatchNorm(*arrays, **constants)
        return _relu(F, x) if relu else x


class Replica:
    """Parameters, gradients and statistics on one context."""

    def __init__(
        self, shapes: dict[str, tuple[int, ...]], statistics: dict[str, tuple[int, ...]], context: mx.Context
    ) -> None:
        self.context = context
        self.flat, self.gradient = (mx.nd.zeros((_total(shapes),), ctx=context) for _ in range(2))
        self.statistics, self.moving = (mx.nd.zeros((_total(statistics),), ctx=context) for _ in range(2))
        self.parameters, gradients = views(self.flat, shapes), views(self.gradient, shapes)
        mx.autograd.mark_variables(list(self.parameters.values()), list(gradients.values()), grad_reqs="write")
        fixed = {
            **self.parameters,
            "identity": mx.nd.eye(3, ctx=context).reshape((3, 3, 1, 1)),
            "shift": -mx.nd.array(network.MEAN, ctx=context),
        }
        self.inputs = {
            True: {**fixed, **views(self.moving, statistics)},
            False: {**fixed, **views(self.statistics, statistics)},
        }
        """By whether they train: the statistics differ."""


class ResNetTrainer(MXNetTrainer):
    """ResNet on every device of this process."""

    workload: ResNet50

    def __init__(self, workload: Workload, place: Place) -> None:
        super().__init__(workload, place)
        values, on_cpu = self.settings.hyperparameters, self.contexts[0].device_type == "cpu"
        half = self.settings.precision == "fp16"
        self.loss_scale = FP16_LOSS_SCALE if half else 1.0
        layers, smoothing = self.workload.network, float(values["label_smoothing"])
        self.model = ResNet(layers, "float16" if half else "float32", smoothing, on_cpu)
        self.shapes = by_rule(network.shapes(layers), self.workload.rule)
        self.statistics = network.statistics(layers)
        self.unbiasing = self._unbiasing()

    def _unbiasing(self) -> Array:
        """What turns the statistics that MXNet moves into those of the state: 1 or n / (n - 1), one flat vector."""
        (shape, *_) = self.workload.shapes()
        counts = _counts(self.workload.network, *shape["image"].shape[:2])
        factors = [
            np.full(size, counts[name.rpartition(".")[0]] if name.endswith("var") else 1.0)
            for name, (size,) in self.statistics.items()
        ]
        return np.concatenate(factors).astype(np.float32)

    def setup(self, weights: Iterable[tuple[str, Array]], warm_up: bool = True) -> None:
        """Allocate, warm up on made-up images, then load the weights and reset statistics and optimizer."""
        with memory_errors():
            self.programs = self._programs() if self.settings.options.get("compile", "auto") != "off" else {}
            self.replicas = [Replica(self.shapes, self.statistics, context) for context in self.contexts]
            self.sum = GradientSum([replica.gradient for replica in self.replicas])
            self.optimizer = self._optimizer()
            if warm_up:
                self._warm_up()
            for name, value in weights:
                for replica in self.replicas:
                    replica.parameters[name][:] = value
            first = [np.full(shape, float(name.endswith("var"))) for name, shape in self.statistics.items()]
            self._set_statistics(np.concatenate(first))
            self.optimizer.reset()
            mx.nd.waitall()

    def _programs(self) -> dict[bool, tuple[mx.nd.CachedOp, list[str]]]:
        """The graphs with their memory planned once, and the names of their inputs, by whether they train."""
        found = {}
        for training, function in ((True, self.model.loss), (False, self.model.logits)):
            names = [*self.shapes, *self.statistics, "image", "label", "identity", "shift"]
            graph = function(mx.sym, {name: mx.sym.var(name) for name in names})
            inputs = graph.list_inputs()
            data = [number for number, name in enumerate(inputs) if name in ("image", "label")]
            flags = {
                "data_indices": tuple(data),
                "param_indices": tuple(number for number in range(len(inputs)) if number not in data),
                "static_alloc": True,
                "static_shape": True,
            }
            found[training] = (mx.nd.CachedOp(graph, list(flags.items())), inputs)
        return found

    def _optimizer(self) -> Sgd | Lars:
        values, rule = self.settings.hyperparameters, self.workload.rule
        flats, gradients = ([getattr(one, name) for one in self.replicas] for name in ("flat", "gradient"))
        momentum = float(values["momentum"])
        if self.workload.uses_lars:
            coefficient = float(values["lars_coefficient"])
            return Lars(self.shapes, rule, flats, gradients, momentum, coefficient, self.loss_scale)
        return Sgd(self.shapes, rule, flats, gradients, momentum, self.loss_scale)

    def _warm_up(self) -> None:
        """One step of every shape, and one evaluation batch on each context."""
        for shape in self.workload.shapes():
            batches = [made_up(shape["image"].shape)] * len(self.replicas)
            if self.settings.mode == "forward":
                self.loss(batches)
            else:
                self.step(batches, learning_rate=0.0)
            size = (self.workload.evaluation_batch_size, *shape["image"].shape[1:])
            for _ in self.predict([[made_up(size)] * len(self.replicas)]):
                pass

    # -- training -------------------------------------------------------------------------------------------------

    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        """One optimizer step per item; at the end the replicas' statistics are averaged, which training does not notice."""
        for replica in self.replicas:
            replica.moving[:] = replica.statistics / mx.nd.array(self.unbiasing, ctx=replica.context)
        stats = super().train(steps, first_step)
        mean = np.mean([replica.moving.asnumpy() for replica in self.replicas], axis=0, dtype=np.float64)
        self._set_statistics(mean * self.unbiasing)
        return stats

    def step(self, batches: list[Batch], learning_rate: float) -> list[mx.nd.NDArray]:
        """Forward and backward on every context, reduction, update."""
        losses = [self._backward(*pair) for pair in zip(self.replicas, batches, strict=True)]
        self.sum.reduce()
        self.optimizer.step(learning_rate)
        return losses

    def _backward(self, replica: Replica, batch: Batch) -> mx.nd.NDArray:
        """Fill the flat gradient from one replica's batch; returns its part of the loss."""
        with mx.autograd.record():
            loss = self._call(replica, batch, training=True)
        loss.backward(mx.nd.full((1,), self.loss_scale / batch.weight_global, replica.context))
        return loss.detach() / batch.weight_global

    def loss(self, batches: list[Batch]) -> list[mx.nd.NDArray]:
        """Losses of the replicas without an update, batch norm by the batches' own statistics."""
        with mx.autograd.train_mode():
            calls = [self._call(*pair, training=True) for pair in zip(self.replicas, batches, strict=True)]
        return [call / batch.weight_global for call, batch in zip(calls, batches, strict=True)]

    def _call(self, replica: Replica, batch: Batch, training: bool) -> mx.nd.NDArray:
        """The loss (1,) or the logits (B, K) of a replica's batch."""
        wanted = ("image", "label") if training else ("image",)
        data = {name: self.to_device(batch.arrays[name], replica.context) for name in wanted}
        inputs = {**replica.inputs[training], **data}
        if not self.programs:
            return (self.model.loss if training else self.model.logits)(mx.nd, inputs)
        program, names = self.programs[training]
        return program(*(inputs[name] for name in names))

    # -- evaluation and state -------------------------------------------------------------------------------------

    def outputs(self, batch: Batch, replica: int) -> dict[str, list[mx.nd.NDArray]]:
        """Logits (B, K)."""
        return {"logits": [self._call(self.replicas[replica], batch, training=False)]}

    def state(self) -> dict[str, Array]:
        """Parameters, running statistics and velocities by name."""
        with memory_errors():
            first = self.replicas[0]
            found = {**first.parameters, **views(first.statistics, self.statistics)}
            return {**{name: array.asnumpy() for name, array in found.items()}, **self.optimizer.state()}

    def load_state(self, state: Arrays) -> None:
        """Inverse of `state`."""
        for replica in self.replicas:
            for name, parameter in replica.parameters.items():
                parameter[:] = state[name]
        self._set_statistics(np.concatenate([state[name] for name in self.statistics]))
        self.optimizer.load_state(state)

    def _set_statistics(self, values: Array) -> None:
        """On every context, from one flat vector."""
        for replica in self.replicas:
            replica.statistics[:] = values.astype(np.float32)


def _relu(F: ModuleType, x: Tensor) -> Tensor:
    """By oneDNN; `F.relu` is an operator of MXNet's own, for which maps are brought into plain order and back."""
    return F.Activation(x, act_type="relu")


def _sizes(layer: network.Convolution) -> tuple[int, int, int]:
    """Kernel, stride and padding of a convolution."""
    return layer.kernel, layer.stride, layer.kernel // 2


def _counts(layers: network.Network, images: int, size: int) -> dict[str, float]:
    """Batch norm to n / (n - 1), n being the values per channel that it sees from so many square images."""

    def behind(layer: network.Convolution, side: int) -> int:
        found[layer.norm] = -(-side // layer.stride)
        return found[layer.norm]

    found: dict[str, int] = {}
    side = -(-behind(layers.stem, size) // 2)
    for block in layers.blocks:
        out = side
        for layer in block.convolutions:
            out = behind(layer, out)
        if block.shortcut is not None:
            behind(block.shortcut, side)
        side = out
    values = {norm: images * side * side for norm, side in found.items()}
    return {norm: count / max(count - 1, 1) for norm, count in values.items()}


def _total(shapes: Mapping[str, tuple[int, ...]]) -> int:
    return sum(int(np.prod(shape)) for shape in shapes.values())


def made_up(shape: tuple[int, ...]) -> Batch:
    """A batch of grey images (B, S, S, 3)."""
    arrays = {"image": np.full(shape, 128, np.uint8), "label": np.zeros(shape[0], np.int32)}
    return Batch(arrays, float(shape[0]), float(shape[0]), shape[0])
