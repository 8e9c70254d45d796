"""Generic TensorFlow trainer.

A subclass defines `build_model`, and `loss` and `outputs` of `workloads.api.ModelHooks`.

The trainer does not depend on the model's domain. Batches may have any arrays and any number of
shapes. TensorFlow traces each shape once. If the model supports any shape and XLA is off, a single
trace is used for all shapes. With a single process, a step is a single function. With several
processes, computing, summing, and applying the gradients are separate functions, so that XLA
compiles everything except the collectives.
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
"""Low-precision data type of the activations, by precision. Copies of the weights for matrix
products have the same data type.
"""
FP32_BYTES = 4
Part = tuple[tf.Tensor, Tensors]
"""Pair (loss of a batch, gradients by name)."""


class ModelTrainer(ModelHooks[Any, tf.Tensor], TensorFlowTrainer):
    """Trainer of a model on a single device.

    With several processes, the gradients are summed over the processes (all-reduce).

    Subclasses define `inputs`, `evaluation_inputs`, `build_model`, `loss` and `outputs`. TensorFlow
    traces `loss` and `outputs`. A subclass overrides `gradients_of` if it can compute gradients
    more cheaply than by differentiating `loss`.
    """

    takes_any_shape: ClassVar[bool] = False
    """Whether `loss` and `outputs` accept arrays whose sizes are not available during tracing."""
    auto_compiles: ClassVar[bool] = True
    """Whether compile=auto enables XLA on a GPU. Set False for models with dozens of shapes,
    because XLA would compile each shape.
    """

    def __init__(self, workload: Workload, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        # On a CPU, XLA reaches only 0.4 times (ResNet) and 0.7 times (SSD) the speed of oneDNN's
        # operators. The default for GPUs is not based on measurements.
        choice = getattr(workload.options, "compile", "auto")
        self.compiled = self.on_gpu and self.auto_compiles if choice == "auto" else choice == "on"
        self.any_shape = self.takes_any_shape and not self.compiled
        """Whether a single trace is used for every shape. With XLA, each shape is traced and
        compiled separately.
        """
        self.dtype = NARROW.get(self.settings.precision, tf.float32)
        """Data type of the activations."""
        self.updates = workload.update_settings()
        self.model: Any = None
        """Result of `build_model`, or None before `build`."""
        self.traces = 0
        """Number of times that TensorFlow traced a training step. The step is traced at most
        once per shape, or once in total if a single trace is used for every shape.
        """
        self._traced: dict[tuple[tuple[int, ...], ...], Callable[..., Any]] = {}

    # -- for subclasses
    # -------------------------------------------------------------------------------------------

    def build_model(self) -> Model:
        raise NotImplementedError

    def gradients_of(self, scale: tf.Tensor, batch: Tensors) -> Part:
        """Return the loss and the gradients of a batch.

        The returned loss is `loss` times `scale`. The gradients are dense, are also multiplied by
        the loss scale, and have the names of the parameters.
        """
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(list(self.optimizer.parameters.values()))
            loss = self.loss(self.model, batch) * scale
            scaled = self.loss_scale.scaled(loss)
        by_name = tape.gradient(scaled, self.optimizer.parameters)
        return loss, {name: self._dense(name, gradient) for name, gradient in by_name.items()}

    def tensors(self, batch: Batch, training: bool) -> list[tf.Tensor]:
        """Return the arrays of a batch on the device, sorted by name."""
        names = self.inputs if training else self.evaluation_inputs
        arrays = self.host_arrays(batch, training)
        return [tf.constant(arrays[name]) for name in names]

    def _dense(self, name: str, gradient: Any) -> tf.Tensor:
        """Convert a gradient to a dense tensor.

        Gradients of the same embedding row are summed. If the trace does not use the parameter, the
        gradient is 0.
        """
        if gradient is None:
            assert not self.workload.every_step_uses_every_parameter, (
                f"the loss does not depend on {name}"
            )
            return tf.zeros(self.optimizer.parameters[name].shape)
        return tf.convert_to_tensor(gradient)

    # -- setup
    # ----------------------------------------------------------------------------------------------

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
        """Connect to the parameter server. Rank 0 sends the initial weights."""
        worker = self.worker
        self.channel = server.ParameterServerTransport(
            self.optimizer.parameters, self.workload, worker.server, worker.world_size
        )
        if worker.rank == 0:
            self.channel.begin()
        if self.strategy is not None:
            # The broadcast ensures that no worker pulls before rank 0 has sent the weights.
            self.broadcast(0.0)
        return ParameterServerClient(
            self.channel, worker.rank, worker.world_size, self.workload.learning_rate
        )

    @classmethod
    def run_parameter_server(cls, workload: Workload, address: str, workers: int) -> None:
        """Run the server of `update=async`. Never returns."""
        server.serve(address)

    def build(self) -> None:
        super().build()
        self.model = self.build_model()
        self.optimizer = build_optimizer(self.model, self.workload)
        self.loss_scale = LossScale(self.updates.loss_scaling, self.worker.num_replicas)
        single = self.strategy is None and not self.settings.asynchronous
        # With a single process, a step is a single function. With several processes, each phase of
        # a step is a separate function, so that XLA does not compile the all-reduce of the
        # gradients.
        part: Any = (lambda python: python) if single else self._function
        whole: Any = self._function if single else functools.partial(tf.function, autograph=False)
        self._gradients, self._update = part(self._backward), part(self._apply)
        self._step, self._summed_gradients = whole(self._train), whole(self._reduced)
        self._loss, self._outputs = self._function(self._forward), self._function(self._evaluated)

    def _function(self, python: Callable[..., Any]) -> Any:
        return tf.function(
            python, autograph=False, jit_compile=self.compiled, reduce_retracing=self.any_shape
        )

    def _warm_up(self) -> None:
        """Run each pass once for every shape.

        The warm-up selects kernels and traces TensorFlow functions.
        """
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

    # -- a step
    # ----------------------------------------------------------------------------------------------

    def step(self, batch: Batch, learning_rate: float) -> None:
        """Run an optimizer step, or push the gradients to the server with `update=async`.

        An optimizer step computes the gradients, sums the gradients over replicas (all-reduce), and
        updates the parameters.
        """
        if self.settings.asynchronous:
            self._push_gradients(batch)
            return
        scalars = np.array(
            [1 / batch.global_weight_sum, *self.optimizer.scalars(learning_rate)], np.float32
        )
        tensors = [tf.constant(scalars), *self.tensors(batch, training=True)]
        # The concrete function is called directly, because tf.function needs 0.2 ms per call to
        # find the function for the arguments.
        shapes = () if self.any_shape else tuple(tuple(array.shape) for array in tensors[1:])
        if shapes not in self._traced:
            first, *arrays = tensors
            if self.any_shape:
                arrays = [tf.TensorSpec([None] * array.shape.rank, array.dtype) for array in arrays]
            self._traced[shapes] = self._step.get_concrete_function(first, *arrays)
        self._traced[shapes](*tensors)

    def _push_gradients(self, batch: Batch) -> None:
        """Push the gradients of a batch to the parameter server (asynchronous update).

        During the warm-up in `setup`, the worker is not yet connected to the server, so the
        parameters do not change.
        """
        scale = tf.constant(np.float32(1 / batch.global_weight_sum))
        gradients = self._gradients(scale, *self.tensors(batch, training=True))
        if self.exchange is not None:
            self.channel.hold(clipped(gradients, self.updates.clip_norm))
            self.exchange.push()

    def _train(self, scalars: tf.Tensor, *inputs: tf.Tensor) -> None:
        """Run a step.

        `scalars` contains 1 / `global_weight_sum` and the scalars of the optimizer.
        """
        self.traces += 1
        gradients = self._reduced(scalars[0], *inputs)
        self._update(gradients, scalars[1:])

    def _reduced(self, scale: tf.Tensor, *inputs: tf.Tensor) -> Tensors:
        """Return the gradients of a batch, summed over micro-batches and replicas.

        The gradients are multiplied by the dynamic loss scale, if any.
        """
        gradients = self._gradients(scale, *inputs)
        summed = self.sum_over_replicas(list(gradients.values()))
        return dict(zip(gradients, summed, strict=True))

    def _backward(self, scale: tf.Tensor, *inputs: tf.Tensor) -> Tensors:
        """Add this replica's share of the loss to `total`, and return its gradients by name."""
        zeros = {name: tf.zeros(value.shape) for name, value in self.optimizer.parameters.items()}
        loss, gradients = self._over_pieces(
            functools.partial(self.gradients_of, scale), zeros, inputs
        )
        self.total.assign_add(tf.cast(loss, tf.float64))
        return self.loss_scale.unscaled(gradients)

    def _apply(self, gradients: Tensors, scalars: tf.Tensor) -> None:
        """Check the gradients for overflow, unscale and clip them, and update the parameters.

        Every replica computes the same update. A step whose gradients overflow is skipped.
        """
        unscaled, taken = self.loss_scale.checked(gradients)
        self.optimizer.apply(clipped(unscaled, self.updates.clip_norm), scalars, taken)
        self.loss_scale.advance(taken)

    def _over_pieces(
        self, compute: Callable[..., Part], zeros: Tensors, inputs: tuple[tf.Tensor, ...]
    ) -> Part:
        """Return the sum of `compute` over the micro-batches of a batch.

        The micro-batches are computed in sequence, so only the activations of one micro-batch are
        in memory at any time.
        """
        count = self.updates.accumulation_steps
        if count == 1:
            return compute(dict(zip(self.inputs, inputs, strict=True)))
        pieces = {
            name: _pieces(array, count) for name, array in zip(self.inputs, inputs, strict=True)
        }

        def add(
            number: tf.Tensor, loss: tf.Tensor, sums: Tensors
        ) -> tuple[tf.Tensor, tf.Tensor, Tensors]:
            part, more = compute({name: array[number] for name, array in pieces.items()})
            return number + 1, loss + part, {name: sums[name] + more[name] for name in sums}

        state = (tf.constant(0), tf.constant(0.0), zeros)
        _, loss, sums = tf.while_loop(
            lambda number, *_: number < count,
            add,
            state,
            parallel_iterations=1,
            maximum_iterations=count,
        )
        return loss, sums

    # -- remaining modes
    # ------------------------------------------------------------------------------------------

    def backward(self, batch: Batch) -> Tensors:
        """Return the gradients of a batch, summed over replicas, without an update.

        The gradients are multiplied by the dynamic loss scale, if any. Running statistics are
        updated as in a training step.
        """
        # The function must return the gradients, because TensorFlow removes computations without a
        # result from the graph.
        scale = tf.constant(np.float32(1 / batch.global_weight_sum))
        return self._summed_gradients(scale, *self.tensors(batch, training=True))

    def run_loss(self, batch: Batch) -> None:
        """Compute the loss of a batch without gradients.

        Running statistics are updated, as in a training step.
        """
        tensors = self.tensors(batch, training=True)
        self._loss(tf.constant(np.float32(1 / batch.global_weight_sum)), *tensors)

    def _forward(self, scale: tf.Tensor, *inputs: tf.Tensor) -> None:
        """Compute the loss, and add this replica's share of the loss to `total`."""
        loss, _ = self._over_pieces(
            lambda piece: (self.loss(self.model, piece) * scale, {}), {}, inputs
        )
        self.total.assign_add(tf.cast(loss, tf.float64))

    def run_outputs(self, batch: Batch) -> Tensors:
        return self._outputs(*self.tensors(batch, training=False))

    def _evaluated(self, *inputs: tf.Tensor) -> Tensors:
        return dict(
            self.outputs(self.model, dict(zip(self.evaluation_inputs, inputs, strict=True)))
        )

    def gradient_all_reduce_info(self) -> GradientAllReduceInfo:
        """Return the size of the trained parameters' fp32 gradients, which are joined.

        The joined gradients are split into chunks for the all-reduce.
        """
        sizes = [value.shape.num_elements() for value in self.optimizer.parameters.values()]
        return GradientAllReduceInfo(
            FP32_BYTES * sum(sizes), len(sizes), -(-sum(sizes) // CHUNK_ELEMENTS)
        )

    # -- state
    # ----------------------------------------------------------------------------------------------

    def weights(self) -> dict[str, Array]:
        return self.model.state_dict()

    def state_dict(self) -> dict[str, Array]:
        return {**self.weights(), **self.optimizer.state_dict(), **self.loss_scale.state_dict()}

    def load_state_dict(self, state: Arrays) -> None:
        for part in (self.model, self.optimizer, self.loss_scale):
            part.load_state_dict(state)


def _pieces(array: tf.Tensor, count: int) -> tf.Tensor:
    """Reshape (count · n, …) to (count, n, …)."""
    is_static = array.shape.is_fully_defined()
    first, *rest = (
        array.shape if is_static else (tf.shape(array)[axis] for axis in range(array.shape.rank))
    )
    return tf.reshape(array, [count, first // count, *rest])
