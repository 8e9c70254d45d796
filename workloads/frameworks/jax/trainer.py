"""Base of every JAX trainer: processes, device, small collectives, and loss checks.

Each process uses a single device. The devices of all processes form a mesh with the axis AXIS. Each
function of a step is a `shard_map` over the mesh, so that a single process and several processes
run the same code. With a single device, a sum over the mesh is a no-op.
"""

from __future__ import annotations

import functools
import io
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np
from jax._src.lib import _jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from workloads.api import (
    Array,
    Arrays,
    Batch,
    Trainer,
    TrainStats,
    WorkerContext,
    Workload,
    check_finite,
)

ADDRESS_VARIABLE = "SUITE_JAX_ADDRESS"
"""Environment variable with the address at which all other processes reach this process
(suite/launch/jax.py).
"""
AXIS = "replica"
SHARED, PER_DEVICE = PartitionSpec(), PartitionSpec(AXIS)
"""Partition specs. SHARED is for an array that is equal on every replica. PER_DEVICE is for an
array that joins the arrays of all replicas along the first axis.
"""
CHECK_STEPS = 50
"""Number of steps between two checks of the loss. Each loss is read one interval after it was
computed.
"""
SILENCE_SECONDS = 300
"""Number of seconds without a heartbeat after which a process is considered lost. The watchdog uses
the same timeout.
"""
MATMUL = {"fp32": "highest", "tf32": "tensorfloat32"}
"""JAX matrix-product precision of fp32 arrays for each precision of the suite. On CPUs, all values
give the same results.
"""
WORD = np.dtype(np.int32)
"""32-bit type in which bytes are transferred, because JAX disables 64-bit numbers."""


class JaxTrainer(Trainer):
    """Base class of the JAX trainers. Each process uses a single device.

    Subclasses define `step`, `backward`, `run_loss`, and `run_outputs`. The first three methods add
    the loss to `total` and return it. The constructor connects the processes of the run. `setup`
    allocates device memory.
    """

    total: jax.Array
    """Compensated loss total of each replica, (2,) in fp32: the sum of the losses and the rounding
    error of the sum.
    """

    def __init__(self, workload: Workload, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        assert len(worker.replica_ids) == 1, "JAX drives one device per process"
        self.on_gpu = worker.devices[0].startswith("cuda")
        jax.config.update("jax_platforms", "cuda,cpu" if self.on_gpu else "cpu")
        jax.config.update(
            "jax_default_matmul_precision", MATMUL.get(self.settings.precision, "highest")
        )
        if worker.world_size > 1 and not jax.distributed.is_initialized():
            _join(int(worker.devices[0].partition(":")[2] or 0) if self.on_gpu else None)

    # JAX initializes its devices and allocates their memory at the first device query, so the
    # constructor makes no device query.

    @functools.cached_property
    def device(self) -> jax.Device:
        """Return the device of this process."""
        return jax.local_devices()[0]

    @functools.cached_property
    def mesh(self) -> Mesh:
        """Return the mesh of all devices."""
        return Mesh(np.array(jax.devices()), (AXIS,))

    @functools.cached_property
    def _gather_rows(self) -> Any:
        return self.mapped(
            lambda rows: jax.lax.all_gather(rows, AXIS, tiled=True), (PER_DEVICE,), SHARED
        )

    @functools.cached_property
    def _sum_losses(self) -> Any:
        return self.mapped(lambda total: jax.lax.psum(total, AXIS), (PER_DEVICE,), PER_DEVICE)

    # -- for subclasses
    # -------------------------------------------------------------------------------------------

    def step(self, batch: Batch, learning_rate: float) -> jax.Array:
        """Run an optimizer step and return `total` plus this replica's share of the loss.

        The share is the sum of the replica's loss terms / global_weight_sum.
        """
        raise NotImplementedError

    def backward(self, batch: Batch) -> jax.Array:
        """Compute gradients summed over replicas, without an update.

        Returns `total` as `step` does.
        """
        raise NotImplementedError

    def run_loss(self, batch: Batch) -> jax.Array:
        """Compute only the loss, without gradients.

        Returns `total` as `step` does.
        """
        raise NotImplementedError

    def run_outputs(self, batch: Batch) -> dict[str, jax.Array]:
        """Return the model's outputs for an evaluation batch, without collective operations."""
        raise NotImplementedError

    def mapped(
        self, function: Callable[..., Any], takes: Any, gives: Any, donated: tuple[int, ...] = ()
    ) -> Any:
        """Compile a function that every replica runs.

        `takes` and `gives` are SHARED or PER_DEVICE for each argument and each result.
        """
        whole = jax.shard_map(
            function, mesh=self.mesh, in_specs=takes, out_specs=gives, check_vma=False
        )
        return jax.jit(whole, donate_argnums=donated)

    def shared(self, array: Array) -> jax.Array:
        """Copy an array that is equal on every replica to the device."""
        return self._placed(array, SHARED, array.shape)

    def per_device(self, array: Array) -> jax.Array:
        """Copy this replica's slice of a joined array to the device."""
        return self._placed(
            array, PER_DEVICE, (self.worker.num_replicas * array.shape[0], *array.shape[1:])
        )

    def _placed(self, array: Array, spec: PartitionSpec, shape: tuple[int, ...]) -> jax.Array:
        # Batches and weights belong to the caller, so the device array must not alias their memory.
        local = jax.device_put(array, self.device, may_alias=False)
        return jax.make_array_from_single_device_arrays(
            shape, NamedSharding(self.mesh, spec), [local]
        )

    # -- Trainer
    # ----------------------------------------------------------------------------------------------

    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        rate = self.workload.learning_rate
        return self._run(
            self.step(batch, rate(number)) for number, (batch,) in enumerate(steps, first_step)
        )

    def forward_backward(self, steps: Iterable[list[Batch]]) -> TrainStats:
        return self._run(self.backward(batch) for (batch,) in steps)

    def forward(self, steps: Iterable[list[Batch]]) -> TrainStats:
        return self._run(self.run_loss(batch) for (batch,) in steps)

    def _run(self, totals: Iterator[jax.Array]) -> TrainStats:
        """Run all steps.

        The host waits for the device only in the delayed loss checks and at the end.
        """
        self.total = self.per_device(np.zeros(2, np.float32))
        seen: deque[Callable[[], float]] = deque()
        count, total = 0, None
        for count, total in enumerate(totals, start=1):
            if count % CHECK_STEPS == 0:
                seen.append(functools.partial(read, total))
                if len(seen) > 1:
                    check_finite(seen.popleft()(), count)
        if total is None:
            return TrainStats(0, 0.0)
        whole = read(self._sum_losses(total))
        check_finite(whole, count)
        return TrainStats(count, whole / count)

    def synchronize(self) -> None:
        jax.block_until_ready(self.total)

    def predict(self, batches: Iterable[list[Batch]]) -> Iterator[tuple[Batch, Arrays]]:
        """Yield each batch with its outputs.

        The device computes the next batch while the caller reads the outputs of a batch.
        """
        running: deque[tuple[Batch, dict[str, jax.Array]]] = deque()
        for (batch,) in batches:
            running.append((batch, self.run_outputs(batch)))
            if len(running) > 1:
                yield _fetched(*running.popleft())
        if running:
            yield _fetched(*running.popleft())

    def gather(self, arrays: Arrays) -> list[Arrays] | None:
        """Gather the arrays of all processes on rank 0, and return None on all other ranks.

        The arrays are transferred as bytes, so their names, types, and lengths may differ between
        processes.
        """
        if self.worker.world_size == 1:
            return [arrays]
        stream = io.BytesIO()
        named: dict[str, Any] = dict(arrays)
        np.savez(stream, **named)
        lengths = self._all_gather(np.array([[stream.tell()]], WORD))[:, 0]
        # The length is rounded up to a power of 2, because JAX compiles the collective once per
        # length.
        length_in_words = 1 << int(-(-lengths.max() // WORD.itemsize) - 1).bit_length()
        padded = np.frombuffer(
            stream.getvalue().ljust(WORD.itemsize * length_in_words, b"\0"), WORD
        )
        rows = self._all_gather(padded[None])
        if self.worker.rank != 0:
            return None
        texts = (row.tobytes()[:length] for row, length in zip(rows, lengths, strict=True))
        return [dict(np.load(io.BytesIO(text), allow_pickle=False)) for text in texts]

    def _all_gather(self, row: Array) -> Array:
        """Gather the rows (1, n) of all processes as (processes, n). This call is collective."""
        return np.array(self._gather_rows(self.per_device(row)))

    def broadcast(self, value: float) -> float:
        """Return the value of rank 0 on every process, bit-identical."""
        if self.worker.world_size == 1:
            return value
        rows = self._all_gather(np.array([value], np.float64).view(WORD)[None])
        return float(rows[0].view(np.float64)[0])

    def memory_peak_bytes(self) -> int:
        """Return the peak of JAX's GPU allocator, or the peak resident set size on CPUs."""
        if self.on_gpu:
            return int(self.device.memory_stats()["peak_bytes_in_use"])
        return super().memory_peak_bytes()

    def close(self) -> None:
        """Wait for all processes, so that every process is alive when JAX shuts down at exit."""
        self.broadcast(0.0)


def _join(device: int | None) -> None:
    """Connect this process to the run's processes through the coordinator of rank 0.

    On CPUs, Gloo listens only at addresses of the run's network.
    """
    rank, processes = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    coordinator = f"{os.environ.get('MASTER_ADDR', '127.0.0.1')}:{os.environ['MASTER_PORT']}"
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    address = os.environ.get(ADDRESS_VARIABLE, "127.0.0.1")
    # By default, Gloo in JAX listens at the address to which the host name resolves.
    _jax.make_gloo_tcp_collectives = functools.partial(
        _jax.make_gloo_tcp_collectives, hostname=address
    )
    jax.distributed.initialize(
        coordinator, processes, rank, None if device is None else [device],
        coordinator_bind_address=coordinator, heartbeat_timeout_seconds=SILENCE_SECONDS,
    )  # fmt: skip


def here(array: jax.Array) -> Array:
    """Copy this replica's slice of an array to the host, after waiting for the device."""
    return np.asarray(array.addressable_shards[0].data)


def read(total: jax.Array) -> float:
    """Return this replica's sum of losses."""
    return float(here(total)[0])


def _fetched(batch: Batch, outputs: dict[str, jax.Array]) -> tuple[Batch, Arrays]:
    """Copy the outputs of a batch to the host."""
    return batch, {name: here(array) for name, array in outputs.items()}
