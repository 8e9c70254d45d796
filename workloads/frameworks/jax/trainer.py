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
"""Environment variable with the address at which all other processes of the run reach this process
(suite/launch/jax.py).
"""
AXIS = "replica"
SHARED, PER_DEVICE = PartitionSpec(), PartitionSpec(AXIS)
"""Partition specs. An array with SHARED is equal on every replica. An array with PER_DEVICE
joins the arrays of all replicas along the first axis.
"""
CHECK_STEPS = 50
"""Number of steps between two checks of the loss. A loss is copied to the host one interval
after its computation.
"""
SILENCE_SECONDS = 300
"""Number of seconds without a heartbeat after which JAX considers a process lost. The controller's
watchdog uses the same timeout.
"""
MATMUL = {"fp32": "highest", "tf32": "tensorfloat32"}
"""JAX precision of fp32 matrix products, for each precision of the suite. On CPUs, the precision
does not change the results.
"""
WORD = np.dtype(np.int32)
"""32-bit type as which bytes are transferred, because JAX disables 64-bit numbers."""


class JaxTrainer(Trainer):
    """Base class of the JAX trainers. Each process uses a single device.

    Subclasses define `step`, `backward`, `run_loss`, and `run_outputs`. `step`, `backward`, and
    `run_loss` add the loss to `total` and return `total`. The constructor connects the processes of
    the run. `setup` allocates device memory.
    """

    total: jax.Array
    """Compensated loss total of each replica, (2,) in fp32: the sum of the losses, and the rounding
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

    # The first device query makes JAX initialize its devices and allocate their memory. The
    # constructor therefore does not query devices.

    @functools.cached_property
    def device(self) -> jax.Device:
        """Return the device of this process."""
        return jax.local_devices()[0]

    @functools.cached_property
    def mesh(self) -> Mesh:
        """Return the mesh of the devices of all processes."""
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

        The share is the sum of the replica's loss terms / `global_weight_sum`.
        """
        raise NotImplementedError

    def backward(self, batch: Batch) -> jax.Array:
        """Compute gradients without an update, and return `total` plus the share of the loss.

        The gradients are summed over replicas (all-reduce). `step` defines the share of the loss.
        """
        raise NotImplementedError

    def run_loss(self, batch: Batch) -> jax.Array:
        """Compute the loss without gradients, and return `total` plus the share of the loss.

        `step` defines the share of the loss.
        """
        raise NotImplementedError

    def run_outputs(self, batch: Batch) -> dict[str, jax.Array]:
        """Return the model's outputs for an evaluation batch, without collective operations."""
        raise NotImplementedError

    def mapped(
        self, function: Callable[..., Any], takes: Any, gives: Any, donated: tuple[int, ...] = ()
    ) -> Any:
        """Compile a function that every replica runs.

        `takes` is SHARED or PER_DEVICE for each argument. `gives` is SHARED or PER_DEVICE for each
        result.
        """
        whole = jax.shard_map(
            function, mesh=self.mesh, in_specs=takes, out_specs=gives, check_vma=False
        )
        return jax.jit(whole, donate_argnums=donated)

    def shared(self, array: Array) -> jax.Array:
        """Copy to the device an array that is equal on every replica."""
        return self._placed(array, SHARED, array.shape)

    def per_device(self, array: Array) -> jax.Array:
        """Copy to the device this replica's slice of an array that joins all replicas."""
        return self._placed(
            array, PER_DEVICE, (self.worker.num_replicas * array.shape[0], *array.shape[1:])
        )

    def _placed(self, array: Array, spec: PartitionSpec, shape: tuple[int, ...]) -> jax.Array:
        # The caller may overwrite the memory of batches and weights, so the device array must not
        # alias host memory.
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
        """Run all steps, and return the statistics of their losses.

        The host waits for the device only at the end and in the loss checks, which are delayed by
        one interval.
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

        The device computes the outputs of the next batch while the caller reads the outputs of the
        current batch.
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

        The arrays are transferred as bytes. The names, types, and lengths of the arrays may
        therefore differ between processes.
        """
        if self.worker.world_size == 1:
            return [arrays]
        stream = io.BytesIO()
        named: dict[str, Any] = dict(arrays)
        np.savez(stream, **named)
        lengths = self._all_gather(np.array([[stream.tell()]], WORD))[:, 0]
        # The length is rounded up to a power of 2, because JAX compiles the collective for each
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
        """Return the value of rank 0 on every process, with identical bits."""
        if self.worker.world_size == 1:
            return value
        rows = self._all_gather(np.array([value], np.float64).view(WORD)[None])
        return float(rows[0].view(np.float64)[0])

    def memory_peak_bytes(self) -> int:
        """Return the peak size of JAX's GPU memory, or the peak resident set size on CPUs."""
        if self.on_gpu:
            return int(self.device.memory_stats()["peak_bytes_in_use"])
        return super().memory_peak_bytes()

    def close(self) -> None:
        """Wait until all processes call `close`, so that all are alive when JAX shuts down."""
        self.broadcast(0.0)


def _join(device: int | None) -> None:
    """Connect this process to the processes of the run through the coordinator on rank 0.

    On CPUs, Gloo listens only at addresses of the run's network.
    """
    rank, processes = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    coordinator = f"{os.environ.get('MASTER_ADDR', '127.0.0.1')}:{os.environ['MASTER_PORT']}"
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    address = os.environ.get(ADDRESS_VARIABLE, "127.0.0.1")
    # By default, Gloo in JAX listens at the address to which the host name resolves. The partial
    # function sets the address of the run's network instead.
    _jax.make_gloo_tcp_collectives = functools.partial(
        _jax.make_gloo_tcp_collectives, hostname=address
    )
    jax.distributed.initialize(
        coordinator, processes, rank, None if device is None else [device],
        coordinator_bind_address=coordinator, heartbeat_timeout_seconds=SILENCE_SECONDS,
    )  # fmt: skip


def here(array: jax.Array) -> Array:
    """Wait for the device, and copy this replica's slice of an array to the host."""
    return np.asarray(array.addressable_shards[0].data)


def read(total: jax.Array) -> float:
    """Return this replica's sum of losses as a float, after waiting for the device."""
    return float(here(total)[0])


def _fetched(batch: Batch, outputs: dict[str, jax.Array]) -> tuple[Batch, Arrays]:
    """Return a batch with its outputs, copied to the host."""
    return batch, {name: here(array) for name, array in outputs.items()}
