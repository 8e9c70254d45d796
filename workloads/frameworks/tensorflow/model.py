"""The generic TensorFlow trainer: a subclass defines `build_model`, and `loss` and `outputs` of `workloads.api.ModelHooks`.

Nothing depends on what the model is about: batches have any arrays and any number of shapes, each of which is traced once; or
all of them together, where the model says that it takes any and XLA is off. One process computes a step in one function;
several compute gradients, sum them, and update, so that XLA sees all but the collectives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from workloads.api import (
    Array,
    Arrays,
    Batch,
    GradientAllReduceInfo,
    ModelHooks,
    ParameterServerClient,
    WorkerContext,
    Workload,
)
from workloads.frameworks.tensorflow import server
from workloads.frameworks.tensorflow.optimizers import LossScale, build_optimizer, clipped
from workloads.frameworks.tensorflow.trainer import CHUNK_ELEMENTS, TensorFlowTrainer
from workloads.frameworks.tensorflow.variables import Model, Tensors

NARROW = {"bf16": tf.bfloat16, "fp16": tf.float16}
"""Precisions in which activations and the weights' copies are narrower than fp32."""
FP32_BYTES = 4
Part = tuple[tf.Tensor, Tensors]
"""A loss and gradients by name."""


class ModelTrainer(ModelHooks[Any, tf.Tensor], TensorFlowTrainer):
    """A model on one device; several processes sum their gradients.

    Subclasses define `inputs`, `evaluation_inputs`, `build_model`, `loss` and `outputs`, both of which are traced. A subclass
    that can compute gradients more cheaply than by differentiating `loss` also overrides `gradients_of`.
    """

    takes_any_shape: ClassVar[bool] = False
    """Whether `loss` and `outputs` take arrays of sizes that are not known when they are traced."""
    auto_compiles: ClassVar[bool] = True
    """Whether compile=auto is XLA on a GPU: not where it would compile dozens of shapes."""

    def __init__(self, workload: Workload, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        # XLA: on a CPU 0.4 (ResNet) and 0.7 (SSD) of the speed of oneDNN's operators; on a GPU a guess.
        choice = getattr(workload.options, "compile", "auto")
        self.compiled = self.on_gpu and self.auto_compiles if choice == "auto" else choice == "on"
        self.any_shape = self.takes_any_shape and not self.compiled
        """Whether one trace serves every shape. XLA compiles each."""
        self.dtype = NARROW.get(self.settings.precision, tf.float32)
        """Of the activations."""
        self.updates = workload.update_settings()
        self.model: Any = None
        """What `build_model` gave, once it is built."""
        self.traces = 0
        """How often a training step was traced: at most once per shape, once in all if one trace serves every shape."""
        self._traced: dict[tuple[tuple[int, ...], ...], Callable[..., Any]] = {}

    # -- for subclasses -------------------------------------------------------------------------------------------

    def build_model(self) -> Model:
        raise NotImplementedError

    def gradients_of(self, scale: tf.Tensor, batch: Tensors) -> Part:
        """Return `loss` times `scale`, and the dense gradients of this product times the loss scale, by trained parameter."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(list(self.optimizer.parameters.values()))
            loss = self.loss(self.model, batch) * scale
            scaled = self.loss_scale.scaled(loss)
        by_name = tape.gradient(scaled, self.optimizer.parameters)
        return loss, {name: self._dense(name, gradient) for name, gradient in by_name.items()}

    def tensors(self, batch: Batch, training: bool) -> list[tf.Tensor]:
        """Return the arrays of the batch that is computed next, on the device, in the order of their names."""
        names = self.inputs if training else self.evaluation_inputs
        arrays = self.host_arrays(batch, training)
        return [tf.constant(arrays[name]) for name in names]

    def _dense(self, name: str, gradient: Any) -> tf.Tensor:
        """A gradient as a tensor: rows of an embedding are added up; zeros where the trace does not use the parameter."""
        if gradient is None:
            assert not self.workload.every_step_uses_every_parameter, f"the loss does not depend on {name}"
            return tf.zeros(self.optimizer.parameters[name].shape)
        return tf.convert_to_tensor(gradient)

    # -- setup ----------------------------------------------------------------------------------------------------

    def setup(self, weights: Iterable[tuple[str, Array]], warmup: bool = True) -> None:
        if self.model is None:
            self.build()
        if warmup:
            self._warm_up()
        self.model.load(weights)
        self.optimizer.reset()
        self.loss_scale.reset()
        self.exchange = self._exchange() if self.settings.asynchronous else None

    def _exchange(self) -> ParameterServerClient:
        """The way to the server, which takes part from now on; process 0 gives it the weights."""
        worker = self.worker
        self.channel = server.ParameterServerTransport(
            self.optimizer.parameters, self.workload, worker.server, worker.world_size
        )
        if worker.rank == 0:
            self.channel.begin()
        if self.strategy is not None:
            self.broadcast(0.0)  # nobody pulls before that
        return ParameterServerClient(self.channel, worker.rank, worker.world_size, self.workload.learning_rate)

    @classmethod
    def run_parameter_server(cls, workload: Workload, address: str, workers: int) -> None:
        """Be the server of `update=async`; never returns."""
        server.serve(address)

    def build(self) -> None:
        super().build()
        self.model = self.build_model()
        self.optimizer = build_optimizer(self.model, self.workload)
        self.loss_scale = LossScale(self.updates.loss_scaling, self.worker.num_replicas)
        alone = self.strategy is None and not self.settings.asynchronous
        # Alone a step is one function of three parts; with others the parts are functions, and XLA does not see the sum.
        part: Any = (lambda python: python) if alone else self._function
        whole: Any = self._function if alone else functools.partial(tf.function, autograph=False)
        self._gradients, self._update = part(self._backward), part(self._apply)
        self._step, self._summed_gradients = whole(self._train), whole(self._reduced)
        self._loss, self._outputs = self._function(self._forward), self._function(self._evaluated)

    def _function(self, python: Callable[..., Any]) -> Any:
        return tf.function(python, autograph=False, jit_compile=self.compiled, reduce_retracing=self.any_shape)

    def _warm_up(self) -> None:
        """What the run is going to do, once for every shape: kernels are chosen, functions traced."""
        passes: dict[str, Callable[[Batch], object]] = {
            "train": functools.partial(self.step, learning_rate=0.0),
            "forward_backward": self.backward,
            "forward": self.run_loss,
        }
        if self.settings.mode in passes:
            for specs in self.workload.shapes():
                passes[self.settings.mode](self.dummy_batch(specs))
        for specs in self.workload.evaluation_shapes():
            self.run_outputs(self.dummy_batch(specs))

    # -- a step ---------------------------------------------------------------------------------------------------

    def step(self, batch: Batch, learning_rate: float) -> None:
        """Forward, backward, sum over replicas, update; or forward, backward, and the gradients to the server."""
        if self.settings.asynchronous:
            self._push_gradients(batch)
            return
        scalars = np.array([1 / batch.global_weight_sum, *self.optimizer.scalars(learning_rate)], np.float32)
        tensors = [tf.constant(scalars), *self.tensors(batch, training=True)]
        # The traced function itself: tf.function's look-up by signature costs 0.2 ms a call.
        shapes = () if self.any_shape else tuple(tuple(array.shape) for array in tensors[1:])
        if shapes not in self._traced:
            first, *others = tensors
            if self.any_shape:
                others = [tf.TensorSpec([None] * array.shape.rank, array.dtype) for array in others]
            self._traced[shapes] = self._step.get_concrete_function(first, *others)
        self._traced[shapes](*tensors)

    def _push_gradients(self, batch: Batch) -> None:
        """One asynchronous update; while setup warms up there is no server yet, and nothing is updated."""
        scale = tf.constant(np.float32(1 / batch.global_weight_sum))
        gradients = self._gradients(scale, *self.tensors(batch, training=True))
        if self.exchange is not None:
            self.channel.hold(clipped(gradients, self.updates.clip_norm))
            self.exchange.push()

    def _train(self, scalars: tf.Tensor, *inputs: tf.Tensor) -> None:
        """One step; scalars are 1 / global_weight_sum and those of the optimizer."""
        self.traces += 1
        gradients = self._reduced(scalars[0], *inputs)
        self._update(gradients, scalars[1:])

    def _reduced(self, scale: tf.Tensor, *inputs: tf.Tensor) -> Tensors:
        """Gradients, summed over pieces and replicas; a dynamic scale is still in them."""
        gradients = self._gradients(scale, *inputs)
        summed = self.sum_over_replicas(list(gradients.values()))
        return dict(zip(gradients, summed, strict=True))

    def _backward(self, scale: tf.Tensor, *inputs: tf.Tensor) -> Tensors:
        """Gradients of this replica's part of the loss, which is added to `total`."""
        zeros = {name: tf.zeros(value.shape) for name, value in self.optimizer.parameters.items()}
        loss, gradients = self._over_pieces(functools.partial(self.gradients_of, scale), zeros, inputs)
        self.total.assign_add(tf.cast(loss, tf.float64))
        return self.loss_scale.unscaled(gradients)

    def _apply(self, gradients: Tensors, scalars: tf.Tensor) -> None:
        """Check for overflow, unscale, clip and update, on every replica alike; a step that overflows is not taken."""
        unscaled, taken = self.loss_scale.checked(gradients)
        self.optimizer.apply(clipped(unscaled, self.updates.clip_norm), scalars, taken)
        self.loss_scale.advance(taken)

    def _over_pieces(self, compute: Callable[..., Part], zeros: Tensors, inputs: tuple[tf.Tensor, ...]) -> Part:
        """Return the sum of `compute` over the batch's pieces, one after the other: only one piece's activations live."""
        count = self.updates.accumulation_steps
        if count == 1:
            return compute(dict(zip(self.inputs, inputs, strict=True)))
        pieces = {name: _pieces(array, count) for name, array in zip(self.inputs, inputs, strict=True)}

        def add(number: tf.Tensor, loss: tf.Tensor, sums: Tensors) -> tuple[tf.Tensor, tf.Tensor, Tensors]:
            part, more = compute({name: array[number] for name, array in pieces.items()})
            return number + 1, loss + part, {name: sums[name] + more[name] for name in sums}

        state = (tf.constant(0), tf.constant(0.0), zeros)
        _, loss, sums = tf.while_loop(
            lambda number, *_: number < count, add, state, parallel_iterations=1, maximum_iterations=count
        )
        return loss, sums

    # -- the other modes ------------------------------------------------------------------------------------------

    def backward(self, batch: Batch) -> Tensors:
        """Gradients of a batch, summed over replicas, with a dynamic scale in them; only running statistics are updated."""
        # That the function returns them keeps TensorFlow from leaving them out.
        scale = tf.constant(np.float32(1 / batch.global_weight_sum))
        return self._summed_gradients(scale, *self.tensors(batch, training=True))

    def run_loss(self, batch: Batch) -> None:
        """Compute the loss of a batch without gradients; running statistics move, as in a step."""
        tensors = self.tensors(batch, training=True)
        self._loss(tf.constant(np.float32(1 / batch.global_weight_sum)), *tensors)

    def _forward(self, scale: tf.Tensor, *inputs: tf.Tensor) -> None:
        """Adds this replica's part of the loss to `total`."""
        loss, _ = self._over_pieces(lambda piece: (self.loss(self.model, piece) * scale, {}), {}, inputs)
        self.total.assign_add(tf.cast(loss, tf.float64))

    def run_outputs(self, batch: Batch) -> Tensors:
        return self._outputs(*self.tensors(batch, training=False))

    def _evaluated(self, *inputs: tf.Tensor) -> Tensors:
        return dict(self.outputs(self.model, dict(zip(self.evaluation_inputs, inputs, strict=True))))

    def gradient_all_reduce_info(self) -> GradientAllReduceInfo:
        """Of the parameters that are trained, in fp32, joined and cut into chunks."""
        sizes = [value.shape.num_elements() for value in self.optimizer.parameters.values()]
        return GradientAllReduceInfo(FP32_BYTES * sum(sizes), len(sizes), -(-sum(sizes) // CHUNK_ELEMENTS))

    # -- state ----------------------------------------------------------------------------------------------------

    def weights(self) -> dict[str, Array]:
        return self.model.state_dict()

    def state_dict(self) -> dict[str, Array]:
        return {**self.weights(), **self.optimizer.state_dict(), **self.loss_scale.state_dict()}

    def load_state_dict(self, state: Arrays) -> None:
        for part in (self.model, self.optimizer, self.loss_scale):
            part.load_state_dict(state)


def _pieces(array: tf.Tensor, count: int) -> tf.Tensor:
    """(count · n, …) to (count, n, …)."""
    known = array.shape.is_fully_defined()
    first, *others = array.shape if known else (tf.shape(array)[axis] for axis in range(array.shape.rank))
    return tf.reshape(array, [count, first // count, *others])
