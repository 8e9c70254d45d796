"""Generic MXNet trainer.

The trainer creates a model on every context, divides batches into micro-batches, and runs steps and
predictions. The trainer also saves and restores parameters and optimizer state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import mxnet as mx

from workloads.api import (
    Array,
    Arrays,
    Batch,
    GradientAllReduceInfo,
    ModelHooks,
    ParameterRule,
    ParameterServerClient,
    TrainStats,
    WorkerContext,
    Workload,
)
from workloads.frameworks.mxnet.flat import FlatLayout, total, views
from workloads.frameworks.mxnet.graphs import Function, Graphs, Inputs, Model, Tensor
from workloads.frameworks.mxnet.optimizers import build_optimizer
from workloads.frameworks.mxnet.server import ServerUpdate, Store, SyncStore, serve
from workloads.frameworks.mxnet.trainer import MXNetTrainer, memory_errors

FP32_BYTES = 4


class Replica:
    """Parameters, gradients, and constants on a context.

    Frozen parameters have no gradient.
    """

    def __init__(self, model: Model, layout: FlatLayout, adds: bool, context: mx.Context) -> None:
        self.context = context
        self.flat, self.gradient = (
            mx.nd.zeros((total(layout.shapes),), ctx=context) for _ in range(2)
        )
        frozen = {name: mx.nd.zeros(shape, ctx=context) for name, shape in layout.frozen.items()}
        self.parameters = {**views(self.flat, layout.shapes), **frozen}
        """All parameters by name, including frozen parameters. The names are the same in all
        frameworks.
        """
        shapes = model.arguments(layout.shapes)
        trained, gradients = views(self.flat, shapes), views(self.gradient, shapes)
        mx.autograd.mark_variables(
            list(trained.values()), list(gradients.values()), grad_reqs="add" if adds else "write"
        )
        constants = {
            name: mx.nd.array(value, ctx=context) for name, value in model.constants().items()
        }
        self._arguments = {**trained, **frozen, **constants}

    def arguments(self, training: bool) -> Inputs:
        """Return all arrays that the model reads, except the arrays of a batch."""
        return self._arguments


class ModelTrainer(ModelHooks[Any, Tensor], MXNetTrainer):
    """Trainer of a model on all devices of this process.

    Subclasses define `build_model`, `loss` and `outputs`. `loss` and `outputs` call operators of
    `model.F`. `model.F` is `mxnet.sym` if graphs are compiled, and `mxnet.nd` otherwise. The loss
    has the shape (1,). The first axis of each output array is the sample axis.
    """

    workload: Any

    def __init__(self, workload: Workload, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        self.update_settings = workload.update_settings()

    # -- for subclasses
    # -------------------------------------------------------------------------------------------

    def build_model(self, half: bool, on_cpu: bool) -> Model:
        """Return the model, in float16 with `half`.

        With `on_cpu`, the model uses operators that are faster on CPUs.
        """
        raise NotImplementedError

    def build_replica(self, context: mx.Context) -> Replica:
        """Allocate the parameters, gradients, and constants of a context."""
        return Replica(self.model, self.layout, self.adds_gradients, context)

    def training_pass(self, model: Any, batch: Inputs) -> Mapping[str, Tensor]:
        """Return the loss, which is the result of the training graphs."""
        return {"loss": self.loss(model, batch)}

    def evaluation_pass(self, model: Any, batch: Inputs) -> Mapping[str, Tensor]:
        """Return the outputs, which are the results of the evaluation graphs."""
        return self.outputs(model, batch)

    def piece_size(self, samples: int, training: bool) -> int:
        """Return the micro-batch size for a batch of `samples` samples."""
        return samples // self.update_settings.accumulation_steps if training else samples

    def parameter_rule(self, name: str) -> ParameterRule:
        """Return the update rule of a parameter."""
        return self.workload.parameter_rule(name)

    @property
    def compiles(self) -> bool:
        """Return whether graphs are compiled."""
        compiles = self.settings.options.get("compile", "auto") != "off"
        return bool(compiles and self.workload.every_step_uses_every_parameter)

    @property
    def adds_gradients(self) -> bool:
        """Return whether the backward pass adds to the gradients instead of overwriting them.

        Adding is necessary for several micro-batches, and for parameters that a step may not use.
        The gradients are set to 0 before each step.
        """
        return (
            self.update_settings.accumulation_steps > 1
            or not self.workload.every_step_uses_every_parameter
        )

    # -- setup
    # ----------------------------------------------------------------------------------------------

    def setup(self, weights: Iterable[tuple[str, Array]], warmup: bool = True) -> None:
        with memory_errors():
            self.build()
            if warmup:
                self._warm_up()
            self.load_weights(weights)
            self.optimizer.reset()
            mx.nd.waitall()
            self.exchange = self._exchange() if self.settings.asynchronous else None

    def _exchange(self) -> ParameterServerClient:
        """Connect to the parameter server."""
        worker, (replica,) = self.worker, self.replicas
        update = ServerUpdate(self.update_settings, self.layout)
        self.store = Store(replica.flat, replica.gradient, update, worker.rank, worker.world_size)
        return ParameterServerClient(
            self.store, worker.rank, worker.world_size, self.workload.learning_rate
        )

    @classmethod
    def run_parameter_server(cls, workload: Workload, address: str, workers: int) -> None:
        """Run the scheduler or a server process of a parameter server."""
        serve()

    def build(self) -> None:
        """Create the model, the arrays of each context, and the optimizer."""
        self.model = self.build_model(
            self.settings.precision == "fp16", self.contexts[0].device_type == "cpu"
        )
        self.layout = FlatLayout.of(self.model.shapes, self.parameter_rule)
        self.training_graphs, self.evaluation_graphs = map(
            self.graphs_of, (self.training_pass, self.evaluation_pass)
        )
        self.replicas: Sequence[Replica] = [
            self.build_replica(context) for context in self.contexts
        ]
        flats, gradients = (
            [getattr(replica, name) for replica in self.replicas] for name in ("flat", "gradient")
        )
        self.optimizer = build_optimizer(
            self.update_settings, self.layout, flats, gradients, self.worker.num_replicas
        )
        if not self.settings.asynchronous and self.worker.world_size > 1:
            self.store = SyncStore(self.worker.rank, self.worker.world_size)
            self.optimizer.sum.join(self.store.sums)

    def graphs_of(self, function: Function, fixed: bool = True) -> Graphs:
        """Return the graphs of a function of the model."""
        return Graphs(self.model, function, self.compiles, fixed)

    def _warm_up(self) -> None:
        """Run each pass of the run's mode once for every shape.

        The evaluation pass runs on each context.
        """
        mode, dummy = self.settings.mode, self.dummy_batch
        for specs in self.workload.shapes() if mode != "inference" else ():
            batches = [dummy(specs)] * len(self.replicas)
            if mode == "train":
                self.step(batches, learning_rate=0.0)
            elif mode == "forward_backward":
                self.gradients(batches)
            else:
                self.run_loss(batches)
        for specs in self.workload.evaluation_shapes():
            for _ in self.predict([[dummy(specs)] * len(self.replicas)]):
                pass

    def load_weights(self, weights: Iterable[tuple[str, Array]]) -> None:
        """Copy the parameters to every context."""
        for name, value in weights:
            for replica in self.replicas:
                replica.parameters[name][:] = value

    # -- training
    # ----------------------------------------------------------------------------------------------

    def step(self, batches: list[Batch], learning_rate: float) -> list[mx.nd.NDArray]:
        """Enqueue an optimizer step, and return the loss (1,) of each replica.

        With `update=async`, the step pushes the gradients to the parameter server and does not
        update the parameters.
        """
        losses = self.backward(batches)
        if self.exchange is not None:
            self.exchange.push()
            return losses
        self.optimizer.reduce()
        self.optimizer.clip()
        self.optimizer.update(learning_rate)
        return losses

    def gradients(self, batches: list[Batch]) -> list[mx.nd.NDArray]:
        """Enqueue a step without an update, and return the loss of each replica.

        The next backward pass discards the gradients.
        """
        losses = self.backward(batches)
        self.optimizer.reduce()
        return losses

    def backward(self, batches: list[Batch]) -> list[mx.nd.NDArray]:
        """Write the gradients of each replica to its flat vector.

        The method returns the share of each replica in the loss.
        """
        return [self._backward(number, batch) for number, batch in enumerate(batches)]

    def _backward(self, number: int, batch: Batch) -> mx.nd.NDArray:
        """Run forward and backward passes for all micro-batches of a batch on a context."""
        replica, divisor, losses = self.replicas[number], batch.global_weight_sum, []
        if self.adds_gradients:
            mx.nd.zeros_like(replica.gradient, out=replica.gradient)
        for data in self.pieces(replica, batch, training=True):
            with mx.autograd.record():
                loss = self.call(replica, data, training=True)["loss"]
            loss.backward(self.optimizer.seed(number, divisor))
            losses.append(loss.detach())
        return mx.nd.add_n(*losses) / divisor

    def pieces(self, replica: Replica, batch: Batch, training: bool) -> Iterator[Inputs]:
        """Yield the micro-batches of a batch on the replica's context.

        The batch is split along the first axis.
        """
        host = self.host_arrays(batch, training)
        data = {name: self.to_device(array, replica.context) for name, array in host.items()}
        samples = len(next(iter(host.values())))
        size = self.piece_size(samples, training)
        if size == samples:
            yield data
            return
        for first in range(0, samples, size):
            yield {name: array[first : min(first + size, samples)] for name, array in data.items()}

    def call(self, replica: Replica, data: Inputs, training: bool) -> dict[str, mx.nd.NDArray]:
        """Return the loss (1,) of a micro-batch in training, or the outputs in evaluation."""
        graphs = self.training_graphs if training else self.evaluation_graphs
        return graphs(replica.arguments(training), data)

    def run_loss(self, batches: list[Batch]) -> list[mx.nd.NDArray]:
        sums = []
        for replica, batch in zip(self.replicas, batches, strict=True):
            with mx.autograd.train_mode():
                losses = [
                    self.call(replica, data, training=True)["loss"]
                    for data in self.pieces(replica, batch, True)
                ]
            sums.append(mx.nd.add_n(*losses) / batch.global_weight_sum)
        return sums

    def forward_backward(self, steps: Iterable[list[Batch]]) -> TrainStats:
        return self.run(self.gradients(batches) for batches in steps)

    def gradient_all_reduce_info(self) -> GradientAllReduceInfo:
        """Return the size of the flat fp32 gradient vector, which a single all-reduce sums."""
        return GradientAllReduceInfo(
            FP32_BYTES * total(self.layout.shapes), len(self.layout.shapes), 1
        )

    # -- evaluation and state
    # -------------------------------------------------------------------------------------

    def run_outputs(self, batch: Batch, replica: int) -> dict[str, list[mx.nd.NDArray]]:
        local = self.replicas[replica]
        pieces = [
            self.call(local, data, training=False)
            for data in self.pieces(local, batch, training=False)
        ]
        return {name: [piece[name] for piece in pieces] for name in pieces[0]}

    def weights(self) -> dict[str, Array]:
        with memory_errors():
            return {name: array.asnumpy() for name, array in self.replicas[0].parameters.items()}

    def state_dict(self) -> dict[str, Array]:
        with memory_errors():
            return {**self.weights(), **self.optimizer.state_dict()}

    def load_state_dict(self, state: Arrays) -> None:
        self.load_weights((name, state[name]) for name in self.replicas[0].parameters)
        self.optimizer.load_state_dict(state)
