"""Asynchronous SGD (`update=async`): when a worker pulls and pushes, and how stale its gradients are, in every framework.

A server holds the weights. A worker, which is a process with one device, pulls them, computes the gradient of its own batch and
pushes it; the server applies each push by itself, in the order of arrival. The staleness of an update is the number of
updates of others that were applied between its worker's pull and its push.

What travels are flat float32 vectors with a tail of 1 + workers numbers, whole up to 2^24:

    of weights    updates applied so far; for each worker the number of the last one that was its own, from 1
    of gradients  the learning rate; the number of the worker; zeros
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from workloads.api.values import Array


class ParameterServerTransport(Protocol):
    """What a framework gives: the way of one worker to the server."""

    def pull(self) -> Array:
        """Load the server's weights into the model; their tail (1 + workers,). An earlier push of this worker is in them."""
        ...

    def push(self, tail: Array) -> None:
        """Send the model's gradients with this tail (1 + workers,)."""
        ...


def metadata_size(workers: int) -> int:
    """Numbers of a tail."""
    return 1 + workers


def record_update(counts: Array, tail: Array) -> None:
    """The server's side: note in the weights' tail that the gradients with `tail` have been applied. Changes `counts`."""
    counts[0] += 1
    counts[1 + int(tail[1])] = counts[0]


class ParameterServerClient:
    """One worker's view of the server."""

    def __init__(
        self, channel: ParameterServerTransport, worker: int, workers: int, learning_rate: Callable[[int], float]
    ) -> None:
        """`learning_rate`: of step 0, 1, …; a step is as many updates as there are workers."""
        self.worker, self.workers = worker, workers
        self._channel, self._learning_rate = channel, learning_rate
        self._pending = False
        self.version = 0
        """Updates applied when this worker last pulled."""
        self.staleness: Counter[int] = Counter()
        """Staleness to the number of this worker's updates that had it; of one that was pushed it is known at the next pull."""

    def pull(self) -> int:
        """Load the newest weights; the number of updates in them."""
        counts = self._channel.pull()
        if self._pending:
            self.staleness[int(counts[1 + self.worker]) - 1 - self.version] += 1
        self._pending = False
        self.version = int(counts[0])
        return self.version

    def push(self) -> None:
        """Send the gradients that the model holds, at the rate of the step that the pulled weights are in."""
        import numpy as np

        tail = np.zeros(metadata_size(self.workers), np.float32)
        tail[:2] = self._learning_rate(self.version // self.workers), self.worker
        self._channel.push(tail)
        self._pending = True
