"""What several MXNet processes do at servers of a KVStore: asynchronous SGD, and the sums of synchronous SGD.

Under `update=async` the store is of type `dist_async`, and its server applies what each worker pushes. Key 0 is the flat
vector of all trained parameters. The server updates it by the suite's optimizers: MXNet sends the server an optimizer as a
pickle of its own making, between the processes of one run; it holds settings and a layout.

MXNet has no other way between processes. So the keys after it, one for each worker, carry what is gathered and broadcast:
fixed pieces of bytes, which the server copies.

Under `update=sync` the store is of type `dist_sync`: servers, one on each machine, give back the sum of what all workers push.
What is gathered and broadcast goes that way too: each worker has a row, in which the others push zeros.
"""

from __future__ import annotations

import io
import os
import traceback
from typing import Any

import mxnet as mx
import numpy as np

from workloads.api import Array, Arrays, OptimizerSettings, metadata_size, record_update
from workloads.frameworks.mxnet.flat import FlatLayout, total
from workloads.frameworks.mxnet.optimizers import build_optimizer

ROLE_VARIABLE = "SUITE_STORE_ROLE"
"""Says what a process that serves is: `scheduler` or `server`."""
WEIGHTS = 0
"""The key of the weights; worker r writes key 1 + r."""
ROWS = 1 << 20
"""The key of what is gathered by sums."""
PIECE = 1 << 16
"""float32 numbers of a piece: 256 KiB. The first says how many bytes there are, of this piece and all after it."""


def serve() -> None:
    """Be the scheduler or the server of a store, until its workers have left."""
    os.environ["DMLC_ROLE"] = os.environ[ROLE_VARIABLE]
    mx.kvstore.KVStoreServer(mx.kv.create("dist")).run()


class ServerUpdate(mx.optimizer.Optimizer):
    """What the server does with a push."""

    def __init__(self, settings: OptimizerSettings, layout: FlatLayout) -> None:
        super().__init__()
        self.settings, self.layout = settings, layout
        self.inner: Any = None
        """The suite's optimizer, once there are weights."""

    def create_state(self, index: int, weight: mx.nd.NDArray) -> None:
        """Kept by `inner`."""

    def update(self, index: int, weight: mx.nd.NDArray, grad: mx.nd.NDArray, state: None) -> None:
        """Apply gradients with their tail to the weights with theirs; of other keys: copy. An error ends the process."""
        try:
            if index == WEIGHTS:
                self._apply(weight, grad)
            else:
                grad.copyto(weight)
        except BaseException:  # MXNet's callback would go on without the update
            traceback.print_exc()
            os._exit(1)

    def _apply(self, weight: mx.nd.NDArray, grad: mx.nd.NDArray) -> None:
        size = total(self.layout.shapes)
        if self.inner is None:
            self.gradients = mx.nd.zeros((size,))
            self.inner = build_optimizer(self.settings, self.layout, [weight[:size]], [self.gradients])
        self.gradients[:] = grad[:size]
        tail, counts = grad[size:].asnumpy(), weight[size:].asnumpy()
        self.inner.clip()
        self.inner.update(float(tail[0]))
        record_update(counts, tail)
        weight[size:] = counts


class Meeting:
    """What workers of a store can do together: subclasses give `_turn`."""

    def __init__(self, kind: str, worker: int, workers: int) -> None:
        self._worker, self._workers = worker, workers
        self._store = mx.kv.create(kind)

    def gather(self, arrays: Arrays) -> list[Arrays] | None:
        """Collective: the arrays of every worker on worker 0, None elsewhere."""
        gathered = self.all_gather(arrays)
        return gathered if self._worker == 0 else None

    def all_gather(self, arrays: Arrays) -> list[Arrays]:
        """Collective: the arrays of every worker, in every worker."""
        stream = io.BytesIO()
        named: dict[str, Any] = dict(arrays)
        np.savez(stream, **named)
        return [dict(np.load(io.BytesIO(text), allow_pickle=False)) for text in self._exchanged(stream.getvalue())]

    def broadcast(self, value: float) -> float:
        first, *_ = self._exchanged(np.float64(value).tobytes())
        return float(np.frombuffer(first, np.float64)[0])

    def _exchanged(self, text: bytes) -> list[bytes]:
        """Collective: what each worker gave, in every worker; piece by piece, until the longest is through."""
        messages = [b""] * self._workers
        room, first, longest = 4 * (PIECE - 1), 0, 1
        while longest > 0:
            piece = np.zeros(PIECE, np.float32)
            piece[0] = np.int32(max(0, len(text) - first)).view(np.float32)
            part = text[first : first + room]
            piece[1:].view(np.uint8)[: len(part)] = np.frombuffer(part, np.uint8)
            pieces = self._turn(piece)
            left = [int(one[:1].view(np.int32)[0]) for one in pieces]
            for worker, (one, count) in enumerate(zip(pieces, left, strict=True)):
                messages[worker] += one[1:].tobytes()[: min(count, room)]
            first, longest = first + room, max(left) - room
        return messages

    def _turn(self, piece: Array) -> list[Array]:
        """Collective: one's own piece, float32 (PIECE,), for all others'."""
        raise NotImplementedError

    def close(self) -> None:
        """Collective: leave; the last one ends the servers."""
        mx.nd.waitall()
        self._store = None


class SyncStore(Meeting):
    """Sums over processes: of the CPU devices of a machine, of several machines."""

    def __init__(self, worker: int, workers: int) -> None:
        super().__init__("dist_sync", worker, workers)
        self._store.init(ROWS, mx.nd.zeros((workers, 2 * PIECE)))

    @property
    def sums(self) -> mx.kv.KVStore:
        """What gives the sum of what contexts of all processes push. Keys are the caller's, below ROWS."""
        return self._store

    def _turn(self, piece: Array) -> list[Array]:
        """Two bytes to a number: small whole numbers survive a sum with zeros, where bytes taken for numbers would not."""
        rows = np.zeros((self._workers, 2 * PIECE), np.float32)
        rows[self._worker] = piece.view(np.uint16)
        pulled = mx.nd.zeros(rows.shape)
        self._store.push(ROWS, mx.nd.from_numpy(rows))
        self._store.pull(ROWS, out=pulled)
        return [row.astype(np.uint16).view(np.float32) for row in pulled.asnumpy()]


class Store(Meeting):
    """A worker's way to the server (`workloads.api.ParameterServerTransport`), and to the other workers."""

    def __init__(
        self, flat: mx.nd.NDArray, gradient: mx.nd.NDArray, update: ServerUpdate, worker: int, workers: int
    ) -> None:
        super().__init__("dist_async", worker, workers)
        self._flat, self._gradient = flat, gradient
        if worker == 0:
            self._store.set_optimizer(update)
        self._weights = mx.nd.concat(flat.as_in_context(mx.cpu()), mx.nd.zeros((metadata_size(workers),)), dim=0)
        self._store.init(WEIGHTS, self._weights)
        for other in range(workers):
            self._store.init(1 + other, mx.nd.zeros((PIECE,)))

    def pull(self) -> Array:
        """The server's weights into the flat vector; their tail."""
        self._store.pull(WEIGHTS, out=self._weights)
        size = self._flat.size
        self._weights[:size].copyto(self._flat)
        return self._weights[size:].asnumpy()

    def push(self, tail: Array) -> None:
        """The flat gradients and the tail to the server."""
        self._store.push(WEIGHTS, mx.nd.concat(self._gradient.as_in_context(mx.cpu()), mx.nd.array(tail), dim=0))

    def _turn(self, piece: Array) -> list[Array]:
        """Collective: write one's own key, read all."""
        own, pieces = mx.nd.zeros((PIECE,)), [mx.nd.zeros((PIECE,)) for _ in range(self._workers)]
        self._store.push(1 + self._worker, mx.nd.from_numpy(piece))
        self._store.pull(1 + self._worker, out=own)
        own.wait_to_read()  # so the push has arrived
        self._store._barrier()
        for other, one in enumerate(pieces):
            self._store.pull(1 + other, out=one)
        pulled = [one.asnumpy() for one in pieces]
        self._store._barrier()  # nobody writes the next piece before all have read this one
        return pulled
