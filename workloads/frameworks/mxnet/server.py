"""KVStore servers for several MXNet processes, for asynchronous and synchronous SGD.

With `update=async`, the store has the type `dist_async`, and its server applies the gradients that
each worker pushes. Key 0 is the flat vector of all trained parameters. The server updates this
vector with the suite's optimizers. MXNet sends the optimizer between the processes of a run as a
pickle, which contains settings and a layout.

MXNet has no other communication between processes. Gather and broadcast therefore also send their
arrays through the store. Each worker has a key after key 0. A worker pushes fixed-size chunks of
bytes to its key, and the server copies the chunks.

With `update=sync`, the store has the type `dist_sync`. The servers of the store, one per host,
return the sum of the pushes of all workers. Gather and broadcast also use these sums: each worker
has a row of an array, to which all other workers add zeros.
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
"""Environment variable with the role of a server process: `scheduler` or `server`."""
WEIGHTS = 0
"""Key of the weights. Worker r writes to key 1 + r."""
ROWS = 1 << 20
"""Key of the sums through which arrays are gathered."""
PIECE = 1 << 16
"""Number of float32 elements per chunk: 256 KiB. The first element is the number of bytes in this
chunk and all later chunks.
"""


def serve() -> None:
    """Run the scheduler or the server of a store until its workers have disconnected."""
    os.environ["DMLC_ROLE"] = os.environ[ROLE_VARIABLE]
    mx.kvstore.KVStoreServer(mx.kv.create("dist")).run()


class ServerUpdate(mx.optimizer.Optimizer):
    """MXNet optimizer that the server runs for each push."""

    def __init__(self, settings: OptimizerSettings, layout: FlatLayout) -> None:
        super().__init__()
        self.settings, self.layout = settings, layout
        self.inner: Any = None
        """Optimizer of the suite, or None before the first weights arrive."""

    def create_state(self, index: int, weight: mx.nd.NDArray) -> None:
        """Do nothing, because `inner` stores the optimizer state."""

    def update(self, index: int, weight: mx.nd.NDArray, grad: mx.nd.NDArray, state: None) -> None:
        """Apply a push. An error terminates the process.

        A push to the key of the weights contains gradients and metadata, and updates the weights
        and their metadata. A push to any other key overwrites the array of the key.
        """
        try:
            if index == WEIGHTS:
                self._apply(weight, grad)
            else:
                grad.copyto(weight)
        # MXNet's callback would ignore the error, and training would continue without the update.
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def _apply(self, weight: mx.nd.NDArray, grad: mx.nd.NDArray) -> None:
        size = total(self.layout.shapes)
        if self.inner is None:
            self.gradients = mx.nd.zeros((size,))
            self.inner = build_optimizer(
                self.settings, self.layout, [weight[:size]], [self.gradients]
            )
        self.gradients[:] = grad[:size]
        tail, counts = grad[size:].asnumpy(), weight[size:].asnumpy()
        self.inner.clip()
        self.inner.update(float(tail[0]))
        record_update(counts, tail)
        weight[size:] = counts


class Meeting:
    """Collective operations of the workers of a store. Subclasses define `_turn`."""

    def __init__(self, kind: str, worker: int, workers: int) -> None:
        self._worker, self._workers = worker, workers
        self._store = mx.kv.create(kind)

    def gather(self, arrays: Arrays) -> list[Arrays] | None:
        """Return the arrays of every worker on worker 0, and None on all other workers.

        This call is collective.
        """
        gathered = self.all_gather(arrays)
        return gathered if self._worker == 0 else None

    def all_gather(self, arrays: Arrays) -> list[Arrays]:
        """Return the arrays of every worker on all workers. This call is collective."""
        stream = io.BytesIO()
        named: dict[str, Any] = dict(arrays)
        np.savez(stream, **named)
        return [
            dict(np.load(io.BytesIO(text), allow_pickle=False))
            for text in self._exchanged(stream.getvalue())
        ]

    def broadcast(self, value: float) -> float:
        first, *_ = self._exchanged(np.float64(value).tobytes())
        return float(np.frombuffer(first, np.float64)[0])

    def _exchanged(self, text: bytes) -> list[bytes]:
        """Return the bytes of every worker on all workers.

        The bytes are sent in chunks until the longest message is complete. This call is collective.
        """
        messages = [b""] * self._workers
        capacity, first, longest = 4 * (PIECE - 1), 0, 1
        while longest > 0:
            piece = np.zeros(PIECE, np.float32)
            piece[0] = np.int32(max(0, len(text) - first)).view(np.float32)
            part = text[first : first + capacity]
            piece[1:].view(np.uint8)[: len(part)] = np.frombuffer(part, np.uint8)
            pieces = self._turn(piece)
            left = [int(received[:1].view(np.int32)[0]) for received in pieces]
            for worker, (received, count) in enumerate(zip(pieces, left, strict=True)):
                messages[worker] += received[1:].tobytes()[: min(count, capacity)]
            first, longest = first + capacity, max(left) - capacity
        return messages

    def _turn(self, piece: Array) -> list[Array]:
        """Send a chunk, float32 (PIECE,), and return the chunks of all workers.

        This call is collective.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Disconnect from the store. This call is collective.

        The last worker to disconnect stops the servers.
        """
        mx.nd.waitall()
        self._store = None


class SyncStore(Meeting):
    """Store that sums over processes: processes of a host's CPU devices, or several hosts."""

    def __init__(self, worker: int, workers: int) -> None:
        super().__init__("dist_sync", worker, workers)
        self._store.init(ROWS, mx.nd.zeros((workers, 2 * PIECE)))

    @property
    def sums(self) -> mx.kv.KVStore:
        """Return the store that sums the pushes of all contexts of all processes.

        Callers use keys below ROWS.
        """
        return self._store

    def _turn(self, piece: Array) -> list[Array]:
        """Exchange chunks as sums, with two bytes per float32 element.

        Two bytes are a small integer, which remains exact in a float32 sum with zeros. Four
        arbitrary bytes, interpreted as float32, would not remain exact.
        """
        rows = np.zeros((self._workers, 2 * PIECE), np.float32)
        rows[self._worker] = piece.view(np.uint16)
        pulled = mx.nd.zeros(rows.shape)
        self._store.push(ROWS, mx.nd.from_numpy(rows))
        self._store.pull(ROWS, out=pulled)
        return [row.astype(np.uint16).view(np.float32) for row in pulled.asnumpy()]


class Store(Meeting):
    """Connection of a worker to the parameter server and to all other workers.

    The class implements `workloads.api.ParameterServerTransport`.
    """

    def __init__(
        self,
        flat: mx.nd.NDArray,
        gradient: mx.nd.NDArray,
        update: ServerUpdate,
        worker: int,
        workers: int,
    ) -> None:
        super().__init__("dist_async", worker, workers)
        self._flat, self._gradient = flat, gradient
        if worker == 0:
            self._store.set_optimizer(update)
        self._weights = mx.nd.concat(
            flat.as_in_context(mx.cpu()), mx.nd.zeros((metadata_size(workers),)), dim=0
        )
        self._store.init(WEIGHTS, self._weights)
        for rank in range(workers):
            self._store.init(1 + rank, mx.nd.zeros((PIECE,)))

    def pull(self) -> Array:
        """Copy the server's weights into the flat vector, and return the metadata."""
        self._store.pull(WEIGHTS, out=self._weights)
        size = self._flat.size
        self._weights[:size].copyto(self._flat)
        return self._weights[size:].asnumpy()

    def push(self, tail: Array) -> None:
        """Send the flat gradients and the metadata to the server."""
        self._store.push(
            WEIGHTS, mx.nd.concat(self._gradient.as_in_context(mx.cpu()), mx.nd.array(tail), dim=0)
        )

    def _turn(self, piece: Array) -> list[Array]:
        """Write to this worker's key and read the keys of all workers.

        This call is collective.
        """
        local, pieces = mx.nd.zeros((PIECE,)), [mx.nd.zeros((PIECE,)) for _ in range(self._workers)]
        self._store.push(1 + self._worker, mx.nd.from_numpy(piece))
        self._store.pull(1 + self._worker, out=local)
        local.wait_to_read()  # The call waits until the push has arrived.
        self._store._barrier()
        for rank, received in enumerate(pieces):
            self._store.pull(1 + rank, out=received)
        pulled = [received.asnumpy() for received in pieces]
        # All workers must have read this chunk before any worker writes its next chunk.
        self._store._barrier()
        return pulled
