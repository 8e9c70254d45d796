"""Asynchronous SGD in PyTorch.

A server process and its workers exchange flat vectors through Gloo.

`torch.distributed.rpc` is an alternative to Gloo, but it is in maintenance mode and sends pickled
Python objects. TensorPipe, the only remaining transport of `torch.distributed.rpc`, is also in
maintenance mode. Gloo's point-to-point messages are PyTorch's supported transport for CPU tensors,
and the suite's collectives on CPUs already use Gloo. The server and the workers form a separate
process group, so that messages and the workers' collectives do not interfere.

Each message of a worker begins with a number that identifies the type of the request. The server
processes messages in the order of arrival, so each update and each copy of the weights is atomic.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from workloads.api import Array, Workload, metadata_size, record_update
from workloads.frameworks.pytorch.gloo import deprioritize_gloo_thread
from workloads.frameworks.pytorch.optimizers import build_optimizer
from workloads.frameworks.pytorch.store import rendezvous_store

PUSH, PULL = 1, 2
_HEAD, _VECTOR = 1, 2
"""Gloo tags of the message header and of vectors."""
_SHAPES = "shapes"
"""Key of the rendezvous store under which the first worker publishes the parameter shapes."""
_PATIENCE = timedelta(days=30)
"""Timeout of the server for messages. The timeout is long because the server may have to wait for a
complete evaluation, and because the controller detects processes that hang.
"""


class Group:
    """Process group of the server and the workers of a run.

    All processes create the group together. The rank of the server is the number of workers.
    """

    def __init__(self, address: str, rank: int, workers: int) -> None:
        host, _, port = address.rpartition(":")
        self.server = workers
        self.store = rendezvous_store(host, int(port), workers + 1, rank == workers, _PATIENCE)
        with deprioritize_gloo_thread():
            self._gloo = dist.ProcessGroupGloo(
                dist.PrefixStore("vectors", self.store), rank, workers + 1, _PATIENCE
            )

    def send(self, vector: Tensor, to: int, tag: int = _VECTOR) -> None:
        """Send a vector. After the call, the caller may modify the vector."""
        self._gloo.send([vector], to, tag).wait()

    def receive(self, vector: Tensor, sender: int) -> None:
        """Receive a message into `vector`."""
        self._gloo.recv([vector], sender, _VECTOR).wait()

    def next_message(self) -> tuple[int, int]:
        """Return sender and type (PUSH or PULL) of the next message from any worker."""
        head = torch.zeros(1, dtype=torch.int64)
        work = self._gloo.recv_anysource([head], _HEAD)
        work.wait()
        return work._source_rank(), int(head)


def views(flat: Tensor, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Split a flat vector into views with their shapes, by name."""
    sizes = [math.prod(shape) for shape in shapes.values()]
    parts = flat[: sum(sizes)].split(sizes)
    return {
        name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }


class ParameterServerTransport:
    """Connection of a worker to the parameter server.

    The first worker sends the initial weights to the server.
    """

    def __init__(
        self, parameters: Mapping[str, Tensor], address: str, worker: int, workers: int
    ) -> None:
        self._parameters = dict(parameters)
        self._group = Group(address, worker, workers)
        self._tail = metadata_size(workers)
        shapes = {name: tuple(value.shape) for name, value in parameters.items()}
        size = sum(math.prod(shape) for shape in shapes.values())
        self._weights, self._gradients = (
            torch.zeros(size + self._tail),
            torch.zeros(size + self._tail),
        )
        self._of_weights, self._of_gradients = (
            views(self._weights, shapes),
            views(self._gradients, shapes),
        )
        if worker == 0:
            for name, value in self._parameters.items():
                self._of_weights[name].copy_(value.detach())
            self._group.store.set(_SHAPES, json.dumps(shapes))
            self._group.send(self._weights, self._group.server)

    @torch.no_grad()
    def pull(self) -> Array:
        """Copy the server's weights into the parameters, and return the metadata."""
        self._group.send(torch.tensor([PULL]), self._group.server, _HEAD)
        self._group.receive(self._weights, self._group.server)
        for name, value in self._parameters.items():
            value.copy_(self._of_weights[name])
        return self._weights[-self._tail :].numpy()

    @torch.no_grad()
    def push(self, tail: Array) -> None:
        """Send the parameters' gradients and the metadata to the server."""
        for name, value in self._parameters.items():
            assert value.grad is not None, f"no gradient of {name}"
            self._of_gradients[name].copy_(value.grad)
        self._gradients[-self._tail :] = torch.from_numpy(tail)
        self._group.send(torch.tensor([PUSH]), self._group.server, _HEAD)
        self._group.send(self._gradients, self._group.server)


def serve(workload: Workload, address: str, workers: int) -> None:
    """Store the weights and apply pushed gradients, until a worker disconnects.

    The workload's optimizer applies the gradients.
    """
    torch.set_num_threads(1)
    group = Group(address, workers, workers)
    shapes = {name: tuple(shape) for name, shape in json.loads(group.store.get(_SHAPES)).items()}
    tail, size = metadata_size(workers), sum(math.prod(shape) for shape in shapes.values())
    weights, gradients = torch.zeros(size + tail), torch.zeros(size + tail)
    parameters = {name: torch.nn.Parameter(view) for name, view in views(weights, shapes).items()}
    for name, view in views(gradients, shapes).items():
        parameters[name].grad = view
    optimizer = build_optimizer(parameters, workload.parameter_rule, workload.update_settings())
    counts, pushed = weights[-tail:].numpy(), gradients[-tail:].numpy()
    group.receive(weights, 0)
    while (message := _next(group)) is not None:
        worker, request = message
        try:
            if request == PULL:
                group.send(weights, worker)
                continue
            group.receive(gradients, worker)
        except RuntimeError:  # Gloo raises this error if the connection is lost.
            return
        optimizer.step(float(pushed[0]))
        record_update(counts, pushed)


def _next(group: Group) -> tuple[int, int] | None:
    """Return the next message, or None if a worker has disconnected.

    The server does not treat a disconnected worker as an error.
    """
    try:
        return group.next_message()
    except RuntimeError:
        return None
