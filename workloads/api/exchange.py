"""Asynchronous SGD (`update=async`).

The module contains the parameter-server client of a worker and measures the staleness of gradients.

A server stores the weights. Each worker is a process with one device. A worker pulls the weights,
computes the gradient of its batch, and pushes the gradient. The server applies each push
separately, in the order of arrival. The staleness of an update is the number of other workers'
updates that the server applied between the worker's pull and push.

Weights and gradients are sent as flat float32 vectors. Each vector ends with 1 + workers metadata
values. Integer metadata values are exact up to 2^24:

    weights    number of updates applied so far, then for each worker the number of its last update,
    counted from 1
    gradients  learning rate, number of the worker, zeros
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from workloads.api.values import Array


class ParameterServerTransport(Protocol):
    """Connection of a worker to the parameter server.

    Each framework implements this class.
    """

    def pull(self) -> Array:
        """Load the server's weights into the model.

        The weights include all earlier pushes of this worker.

        Returns:
            The metadata of the weights, shape (1 + workers,).
        """
        ...

    def push(self, tail: Array) -> None:
        """Push the model's gradients with the metadata `tail` to the server.

        The shape of `tail` is (1 + workers,).
        """
        ...


def metadata_size(workers: int) -> int:
    """Return the number of metadata values at the end of a flat vector."""
    return 1 + workers


def record_update(counts: Array, tail: Array) -> None:
    """Record that the server applied the gradients with the metadata `tail`.

    `counts` is the metadata of the server's weights, and is updated in place.
    """
    counts[0] += 1
    counts[1 + int(tail[1])] = counts[0]


class ParameterServerClient:
    """Parameter-server client of one worker."""

    def __init__(
        self,
        channel: ParameterServerTransport,
        worker: int,
        workers: int,
        learning_rate: Callable[[int], float],
    ) -> None:
        """Initialize the client.

        Args:
            channel: Connection to the server.
            worker: Rank of the worker.
            workers: Number of workers.
            learning_rate: Function that returns the learning rate of a step. A step consists of as
                many updates as there are workers.
        """
        self.worker, self.workers = worker, workers
        self._channel, self._learning_rate = channel, learning_rate
        self._pending = False
        self.version = 0
        """Number of updates that are included in the weights that this worker pulled last."""
        self.staleness: Counter[int] = Counter()
        """Histogram of the staleness of this worker's updates.

        An update is added to the histogram at the first pull after its push.
        """

    def pull(self) -> int:
        """Pull the newest weights, and return the number of updates that they include."""
        counts = self._channel.pull()
        if self._pending:
            self.staleness[int(counts[1 + self.worker]) - 1 - self.version] += 1
        self._pending = False
        self.version = int(counts[0])
        return self.version

    def push(self) -> None:
        """Push the gradients of the model with a learning rate.

        The learning rate is that of the step at which the weights were pulled.
        """
        import numpy as np

        tail = np.zeros(metadata_size(self.workers), np.float32)
        tail[:2] = self._learning_rate(self.version // self.workers), self.worker
        self._channel.push(tail)
        self._pending = True
