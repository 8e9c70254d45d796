"""Asynchronous SGD in TensorFlow: variables on a parameter-server task, which every worker's session pulls from and pushes to.

`tf.distribute.ParameterServerStrategy` has one coordinator that hands functions to passive workers; here each worker runs the
loop, with its data, for itself, and two programs in eager mode share no variables. So the server is a `tf.distribute.Server` of
job `ps`, and each worker opens a session of graph mode on it, in which variables of one name are one variable. All operators
of that graph run on the server; the model is trained in eager mode as ever.

A critical section keeps the updates apart: an update, and a copy of the weights, is whole.
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
    """Hold variables for the workers' sessions; never returns."""
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, device_count={"GPU": 0})
    tf.distribute.Server({"ps": [address]}, job_name="ps", task_index=0, config=config).join()


class ParameterServerTransport:
    """A worker's way to the server (`workloads.api.ParameterServerTransport`)."""

    def __init__(self, parameters: Mapping[str, tf.Variable], workload: Workload, address: str, workers: int) -> None:
        self._parameters = dict(parameters)
        shapes = {name: tuple(value.shape) for name, value in self._parameters.items()}
        self._sizes = {name: math.prod(shape) for name, shape in shapes.items()}
        self._tail = metadata_size(workers)
        graph = tf.Graph()
        with graph.as_default(), tf.device(_DEVICE):
            self._build(shapes, workload)
        self._session = tf.compat.v1.Session(f"grpc://{address}", graph=graph)

    def _build(self, shapes: Mapping[str, tuple[int, ...]], workload: Workload) -> None:
        """Variables and the two operations of the graph; the same names in every worker."""
        total = sum(self._sizes.values()) + self._tail
        model = Model(shapes)
        optimizer = build_optimizer(model, workload)
        counts = tf.Variable(tf.zeros([self._tail]), name="counts", trainable=False)
        section = tf.CriticalSection(name=_MUTEX, shared_name=_MUTEX)
        self._given = tf.compat.v1.placeholder(tf.float32, [total])

        @tf.function(autograph=False)  # keeps the order of assignments, which a graph does not
        def update(given: tf.Tensor) -> tf.Tensor:
            gradients, tail = self._parts(given, shapes)
            optimizer.apply(gradients, tail[:1], None)
            applied = counts[0] + 1
            own = tf.one_hot(tf.cast(tail[1], tf.int32) + 1, self._tail, on_value=True, off_value=False)
            counts.assign(tf.where(own, applied, counts))
            return counts[:1].assign(applied[tf.newaxis])[0]

        @tf.function(autograph=False)
        def load(given: tf.Tensor) -> tf.Tensor:
            values, tail = self._parts(given, shapes)
            for name, value in values.items():
                model.parameters[name].assign(value)
            optimizer.reset()
            return counts.assign(tail)[0]

        @tf.function(autograph=False)
        def read() -> tf.Tensor:
            return tf.concat([*(tf.reshape(model.parameters[name], [-1]) for name in shapes), counts], 0)

        self._push, self._load, self._pull = (
            section.execute(function) for function in (lambda: update(self._given), lambda: load(self._given), read)
        )
        self._create = tf.compat.v1.global_variables_initializer()

    def _parts(self, flat: tf.Tensor, shapes: Mapping[str, tuple[int, ...]]) -> tuple[Tensors, tf.Tensor]:
        """A flat vector as tensors by name, and its tail."""
        *parts, tail = tf.split(flat, [*self._sizes.values(), self._tail])
        return {name: tf.reshape(part, shapes[name]) for name, part in zip(shapes, parts, strict=True)}, tail

    def begin(self) -> None:
        """Give the server the weights that all workers begin with; one of them calls it, before anybody pulls."""
        self._session.run(self._create)
        values = [value.numpy().reshape(-1) for value in self._parameters.values()]
        self._session.run(self._load, {self._given: np.concatenate([*values, np.zeros(self._tail, np.float32)])})

    def pull(self) -> Array:
        """The server's weights into the parameters; their tail."""
        flat: Array = self._session.run(self._pull)
        first = 0
        for name, value in self._parameters.items():
            value.assign(flat[first : first + self._sizes[name]].reshape(value.shape))
            first += self._sizes[name]
        return flat[first:]

    def push(self, tail: Array) -> None:
        """The gradients that `hold` was given, and the tail, to the server."""
        parts = [self._gradients[name].numpy().reshape(-1) for name in self._parameters]
        self._session.run(self._push, {self._given: np.concatenate([*parts, tail])})

    def hold(self, gradients: Tensors) -> None:
        """What the next push sends, by name."""
        self._gradients = gradients
