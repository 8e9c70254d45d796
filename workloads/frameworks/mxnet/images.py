"""What MXNet trainers of convolutional networks share: flat parameters, compiled graphs, the step, running statistics.

Shapes: B images of a replica, S pixels of a side. Images come as uint8 (B, S, S, 3) and are normalised on the device. On each
context all parameters are views of one flat vector, all gradients of another: one reduction and a few operators serve all.

Batch norm of MXNet moves the running variance by the biased variance of n values, in the backward pass. What stands under
`running_var` outside is the unbiased one, n / (n - 1) times as large, as in the other frameworks: since that quotient is
the same in every step, the array that MXNet moves is divided by it before a stretch of steps and multiplied behind it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import mxnet as mx
import numpy as np

from workloads.api import Array, Arrays, Batch, Place, TrainStats, Workload
from workloads.frameworks.mxnet.layers import ImageModel, Shapes
from workloads.frameworks.mxnet.optimizers import Optimizer, Sgd, by_rule
from workloads.frameworks.mxnet.trainer import GradientSum, MXNetTrainer, memory_errors, views


class Replica:
    """Parameters, gradients and statistics on one context."""

    def __init__(self, shapes: Shapes, statistics: Shapes, constants: Arrays, context: mx.Context) -> None:
        self.context = context
        self.flat, self.gradient = (mx.nd.zeros((_total(shapes),), ctx=context) for _ in range(2))
        self.statistics, self.moving = (mx.nd.zeros((_total(statistics),), ctx=context) for _ in range(2))
        self.parameters, gradients = views(self.flat, shapes), views(self.gradient, shapes)
        mx.autograd.mark_variables(list(self.parameters.values()), list(gradients.values()), grad_reqs="write")
        fixed = {**self.parameters, **{name: mx.nd.array(value, ctx=context) for name, value in constants.items()}}
        self.inputs = {
            True: {**fixed, **views(self.moving, statistics)},
            False: {**fixed, **views(self.statistics, statistics)},
        }
        """By whether they train: the statistics differ."""


class ImageTrainer(MXNetTrainer):
    """A convolutional network on every device of this process. Subclasses give `build_model`."""

    workload: Any
    """A Workload with `rule` and `evaluation_batch_size`."""

    def __init__(self, workload: Workload, place: Place) -> None:
        super().__init__(workload, place)
        half = self.settings.precision == "fp16"
        self.loss_scale = self.workload.loss_scaling.start
        self.model = self.build_model(half, self.contexts[0].device_type == "cpu")
        self.shapes = by_rule(self.model.shapes, self.workload.parameter_rule)
        self.unbiasing = self._unbiasing()

    # -- for subclasses -------------------------------------------------------------------------------------------

    def build_model(self, half: bool, on_cpu: bool) -> ImageModel:
        """The model."""
        raise NotImplementedError

    def build_optimizer(self, flats: Sequence[mx.nd.NDArray], gradients: Sequence[mx.nd.NDArray]) -> Optimizer:
        """SGD, of parameters in the order of `self.shapes`."""
        momentum = float(self.settings.hyperparameters["momentum"])
        return Sgd(self.shapes, self.workload.parameter_rule, flats, gradients, momentum, self.loss_scale)

    # -- setup ----------------------------------------------------------------------------------------------------

    def setup(self, weights: Iterable[tuple[str, Array]], warm_up: bool = True) -> None:
        """Allocate, warm up on made-up images, then load the weights and reset statistics and optimizer."""
        statistics, constants = self.model.statistics, self.model.constants()
        with memory_errors():
            self.programs = self._programs() if self.settings.options.get("compile", "auto") != "off" else {}
            self.replicas = [Replica(self.shapes, statistics, constants, context) for context in self.contexts]
            gradients = [replica.gradient for replica in self.replicas]
            self.sum = GradientSum(gradients)
            self.optimizer = self.build_optimizer([replica.flat for replica in self.replicas], gradients)
            if warm_up:
                self._warm_up()
            first = {name: np.full(shape, float(name.endswith("var"))) for name, shape in statistics.items()}
            for name, value in weights:
                if name in first:
                    first[name] = value
                    continue
                for replica in self.replicas:
                    replica.parameters[name][:] = value
            self._set_statistics(np.concatenate(list(first.values())))
            self.optimizer.reset()
            mx.nd.waitall()

    def _programs(self) -> dict[bool, tuple[mx.nd.CachedOp, list[str]]]:
        """The graphs with their memory planned once, and the names of their inputs, by whether they train."""
        found = {}
        for training in (True, False):
            graph, batch_arrays = self._graph(training), ("image", *self.model.targets)
            inputs = graph.list_inputs()
            data = [number for number, name in enumerate(inputs) if name in batch_arrays]
            flags = {
                "data_indices": tuple(data),
                "param_indices": tuple(number for number in range(len(inputs)) if number not in data),
                "static_alloc": True,
                "static_shape": True,
            }
            found[training] = (mx.nd.CachedOp(graph, list(flags.items())), inputs)
        return found

    def _graph(self, training: bool) -> mx.sym.Symbol:
        model = self.model
        names = [*model.shapes, *model.statistics, *model.constants(), "image", *model.targets]
        inputs = {name: mx.sym.var(name) for name in names}
        return model.loss(mx.sym, inputs) if training else mx.sym.Group(model.outputs(mx.sym, inputs))

    def _unbiasing(self) -> Array:
        """What turns the statistics that MXNet moves into those of the state: 1 or n / (n - 1), one flat vector."""
        (specs, *_) = self.workload.shapes()
        others = {**specs, **self.model.constants()}
        known = {**self.model.shapes, **{name: other.shape for name, other in others.items()}}
        inner = self._graph(training=True).get_internals()
        maps = dict(zip(inner.list_outputs(), inner.infer_shape(**known)[1], strict=True))
        factors = []
        for name, (channels,) in self.model.statistics.items():
            count = math.prod(maps[f"{name.rpartition('.')[0]}_output"]) / channels
            factors.append(np.full(channels, count / max(count - 1, 1) if name.endswith("var") else 1.0))
        return np.concatenate(factors).astype(np.float32)

    def _warm_up(self) -> None:
        """One step of every shape, and one evaluation batch on each context."""
        for specs in self.workload.shapes():
            batches = [self.workload.dummy_batch(specs)] * len(self.replicas)
            if self.settings.mode == "forward":
                self.loss(batches)
            else:
                self.step(batches, learning_rate=0.0)
        for specs in self.workload.evaluation_shapes():
            for _ in self.predict([[self.workload.dummy_batch(specs)] * len(self.replicas)]):
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
            (loss,) = self._call(replica, batch, training=True)
        loss.backward(mx.nd.full((1,), self.loss_scale / batch.weight_global, replica.context))
        return loss.detach() / batch.weight_global

    def loss(self, batches: list[Batch]) -> list[mx.nd.NDArray]:
        """Losses of the replicas without an update, batch norm by the batches' own statistics."""
        with mx.autograd.train_mode():
            calls = [self._call(*pair, training=True) for pair in zip(self.replicas, batches, strict=True)]
        return [loss / batch.weight_global for (loss,), batch in zip(calls, batches, strict=True)]

    def _call(self, replica: Replica, batch: Batch, training: bool) -> list[mx.nd.NDArray]:
        """The loss (1,) or the model's outputs of a replica's batch."""
        wanted = ("image", *self.model.targets) if training else ("image",)
        data = {name: self.to_device(batch.arrays[name], replica.context) for name in wanted}
        inputs = {**replica.inputs[training], **data}
        if not self.programs:
            return [self.model.loss(mx.nd, inputs)] if training else self.model.outputs(mx.nd, inputs)
        program, names = self.programs[training]
        found = program(*(inputs[name] for name in names))
        return found if isinstance(found, list) else [found]

    # -- evaluation and state -------------------------------------------------------------------------------------

    def outputs(self, batch: Batch, replica: int) -> dict[str, list[mx.nd.NDArray]]:
        """The model's outputs by name."""
        found = self._call(self.replicas[replica], batch, training=False)
        return {name: [array] for name, array in zip(self.model.results, found, strict=True)}

    def state(self) -> dict[str, Array]:
        """Parameters, running statistics and velocities by name."""
        with memory_errors():
            first = self.replicas[0]
            found = {**first.parameters, **views(first.statistics, self.model.statistics)}
            return {**{name: array.asnumpy() for name, array in found.items()}, **self.optimizer.state()}

    def load_state(self, state: Arrays) -> None:
        """Inverse of `state`."""
        for replica in self.replicas:
            for name, parameter in replica.parameters.items():
                parameter[:] = state[name]
        self._set_statistics(np.concatenate([state[name] for name in self.model.statistics]))
        self.optimizer.load_state(state)

    def _set_statistics(self, values: Array) -> None:
        """On every context, from one flat vector."""
        for replica in self.replicas:
            replica.statistics[:] = values.astype(np.float32)


def _total(shapes: Shapes) -> int:
    return sum(math.prod(shape) for shape in shapes.values())
