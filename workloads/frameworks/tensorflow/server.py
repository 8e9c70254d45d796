"""Asynchronous SGD in TensorFlow.

The workers' sessions read and update variables on a parameter-server task.

`tf.distribute.ParameterServerStrategy` has a single coordinator that sends functions to passive
workers. In this suite, each worker runs the training loop on its data, and two programs in eager
mode cannot share variables. The server is therefore a `tf.distribute.Server` of job `ps`, and each
worker opens a graph-mode session on the server. All sessions share the variables with the same
name. All operators of the session's graph run on the server. The worker trains the model in eager
mode.

A critical section makes each update and each copy of the weights atomic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from workloads.api import Array, Workload, metadata_size
from workloads.frameworks.tensorflow.optimizers import build_optimizer
from workloads.frameworks.tensorflow.variables import Model, Tensors

_DEVICE = "/job:ps/task:0/device:CPU:0"
_MUTEX = "weights"


def serve(address: str) -> None:
    """Run the server that stores the variables of the workers' sessions. Never returns."""
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, device_count={"GPU": 0})
    tf.distribute.Server({"ps": [address]}, job_name="ps", task_index=0, config=config).join()


class ParameterServerTransport:
    """Connection of a worker to the server (`workloads.api.ParameterServerTransport`)."""

    def __init__(
        self, parameters: Mapping[str, tf.Variable], workload: Workload, address: str, workers: int
    ) -> None:
        self._parameters = dict(parameters)
        shapes = {name: tuple(value.shape) for name, value in self._parameters.items()}
        self._sizes = {name: math.prod(shape) for name, shape in shapes.items()}
        self._tail = metadata_size(workers)
        graph = tf.Graph()
        with graph.as_default(), tf.device(_DEVICE):
            self._build(shapes, workload)
        self._session = tf.compat.v1.Session(f"grpc://{address}", graph=graph)

    def _build(self, shapes: Mapping[str, tuple[int, ...]], workload: Workload) -> None:
        """Create the variables and operations of the graph.

        Variables and operations have the same names in every worker.
        """
        total = sum(self._sizes.values()) + self._tail
        model = Model(shapes)
        optimizer = build_optimizer(model, workload)
        counts = tf.Variable(tf.zeros([self._tail]), name="counts", trainable=False)
        section = tf.CriticalSection(name=_MUTEX, shared_name=_MUTEX)
        self._input = tf.compat.v1.placeholder(tf.float32, [total])

        # Unlike a plain graph, a tf.function keeps the order of assignments.
        @tf.function(autograph=False)
        def update(vector: tf.Tensor) -> tf.Tensor:
            gradients, tail = self._parts(vector, shapes)
            optimizer.apply(gradients, tail[:1], None)
            applied = counts[0] + 1
            is_pusher = tf.one_hot(
                tf.cast(tail[1], tf.int32) + 1, self._tail, on_value=True, off_value=False
            )
            counts.assign(tf.where(is_pusher, applied, counts))
            return counts[:1].assign(applied[tf.newaxis])[0]

        @tf.function(autograph=False)
        def load(vector: tf.Tensor) -> tf.Tensor:
            values, tail = self._parts(vector, shapes)
            for name, value in values.items():
                model.parameters[name].assign(value)
            optimizer.reset()
            return counts.assign(tail)[0]

        @tf.function(autograph=False)
        def read() -> tf.Tensor:
            return tf.concat(
                [*(tf.reshape(model.parameters[name], [-1]) for name in shapes), counts], 0
            )

        self._push, self._load, self._pull = (
            section.execute(function)
            for function in (lambda: update(self._input), lambda: load(self._input), read)
        )
        self._create = tf.compat.v1.global_variables_initializer()

    def _parts(
        self, flat: tf.Tensor, shapes: Mapping[str, tuple[int, ...]]
    ) -> tuple[Tensors, tf.Tensor]:
        """Split a flat vector into tensors by name, and return them with the metadata."""
        *parts, tail = tf.split(flat, [*self._sizes.values(), self._tail])
        return {
            name: tf.reshape(part, shapes[name]) for name, part in zip(shapes, parts, strict=True)
        }, tail

    def begin(self) -> None:
        """Send the initial weights to the server.

        Only one worker calls this method, before any worker pulls.
        """
        self._session.run(self._create)
        values = [value.numpy().reshape(-1) for value in self._parameters.values()]
        self._session.run(
            self._load, {self._input: np.concatenate([*values, np.zeros(self._tail, np.float32)])}
        )

    def pull(self) -> Array:
        """Copy the server's weights into the parameters, and return the metadata."""
        flat: Array = self._session.run(self._pull)
        first = 0
        for name, value in self._parameters.items():
            value.assign(flat[first : first + self._sizes[name]].reshape(value.shape))
            first += self._sizes[name]
        return flat[first:]

    def push(self, tail: Array) -> None:
        """Send to the server the metadata and the gradients of the last call of `hold`."""
        parts = [self._gradients[name].numpy().reshape(-1) for name in self._parameters]
        self._session.run(self._push, {self._input: np.concatenate([*parts, tail])})

    def hold(self, gradients: Tensors) -> None:
        """Store the gradients by name for the next push."""
        self._gradients = gradients
