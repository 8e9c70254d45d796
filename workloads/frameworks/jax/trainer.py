"""What every JAX trainer shares: processes, device, moving small arrays, watching the loss.

A process drives one device. The devices of all processes are one mesh with the axis AXIS; each function of a step is a
`shard_map` over it, so that one process and several run the same code, and a sum over one device is none.
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

from workloads.api import Array, Arrays, Batch, Trainer, TrainStats, WorkerContext, Workload, check_finite

ADDRESS_VARIABLE = "SUITE_JAX_ADDRESS"
"""Variable with the address at which the other processes reach this process (suite/launch/jax.py)."""
AXIS = "replica"
SHARED, OWN = PartitionSpec(), PartitionSpec(AXIS)
"""Equal on every replica; each replica's own part, joined along the first axis."""
CHECK_STEPS = 50
"""Steps between two looks at the loss, which is read one interval later."""
SILENCE_SECONDS = 300
"""After which its peers count a process as lost, as the watchdog does."""
MATMUL = {"fp32": "highest", "tf32": "tensorfloat32"}
"""Precision to that of matrix products of fp32; on CPUs all are the same."""
WORD = np.dtype(np.int32)
"""What bytes travel as: 64-bit numbers are off in JAX."""


class JaxTrainer(Trainer):
    """One process, one device. Subclasses define `step`, `backward` and `run_loss`, which add to `total` and return it, and
    `run_outputs`. The constructor joins the other processes; what takes memory waits for `setup`."""

    total: jax.Array
    """What the last step gave: of each replica the sum of its losses, and what rounding left out of it, (2,), fp32."""

    def __init__(self, workload: Workload, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        assert len(worker.replica_ids) == 1, "JAX drives one device per process"
        self.on_gpu = worker.devices[0].startswith("cuda")
        jax.config.update("jax_platforms", "cuda,cpu" if self.on_gpu else "cpu")
        jax.config.update("jax_default_matmul_precision", MATMUL.get(self.settings.precision, "highest"))
        if worker.world_size > 1 and not jax.distributed.is_initialized():
            _join(int(worker.devices[0].partition(":")[2] or 0) if self.on_gpu else None)

    # JAX opens its devices, and takes their memory, when it is first asked for one: not in the constructor.

    @functools.cached_property
    def device(self) -> jax.Device:
        """This process's."""
        return jax.local_devices()[0]

    @functools.cached_property
    def mesh(self) -> Mesh:
        """Of all devices."""
        return Mesh(np.array(jax.devices()), (AXIS,))

    @functools.cached_property
    def _gather_rows(self) -> Any:
        return self.mapped(lambda words: jax.lax.all_gather(words, AXIS, tiled=True), (OWN,), SHARED)

    @functools.cached_property
    def _sum_losses(self) -> Any:
        return self.mapped(lambda total: jax.lax.psum(total, AXIS), (OWN,), OWN)

    # -- for subclasses -------------------------------------------------------------------------------------------

    def step(self, batch: Batch, learning_rate: float) -> jax.Array:
        """One optimizer step; `total` with this replica's part of the loss (sum of terms / global_weight_sum)."""
        raise NotImplementedError

    def backward(self, batch: Batch) -> jax.Array:
        """The same sum; gradients are summed over replicas, without an update."""
        raise NotImplementedError

    def run_loss(self, batch: Batch) -> jax.Array:
        """Return the same sum without gradients."""
        raise NotImplementedError

    def run_outputs(self, batch: Batch) -> dict[str, jax.Array]:
        """Return the model's outputs for an evaluation batch. No collective calls."""
        raise NotImplementedError

    def mapped(self, function: Callable[..., Any], takes: Any, gives: Any, donated: tuple[int, ...] = ()) -> Any:
        """A compiled function of every replica; `takes` and `gives`: SHARED or OWN of each argument and result."""
        whole = jax.shard_map(function, mesh=self.mesh, in_specs=takes, out_specs=gives, check_vma=False)
        return jax.jit(whole, donate_argnums=donated)

    def shared(self, array: Array) -> jax.Array:
        """An array that every replica has, copied to the device."""
        return self._placed(array, SHARED, array.shape)

    def own(self, array: Array) -> jax.Array:
        """This replica's part of a joined array, copied to the device."""
        return self._placed(array, OWN, (self.worker.num_replicas * array.shape[0], *array.shape[1:]))

    def _placed(self, array: Array, spec: PartitionSpec, shape: tuple[int, ...]) -> jax.Array:
        here = jax.device_put(array, self.device, may_alias=False)  # batches and weights are others' memory
        return jax.make_array_from_single_device_arrays(shape, NamedSharding(self.mesh, spec), [here])

    # -- Trainer --------------------------------------------------------------------------------------------------

    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        rate = self.workload.learning_rate
        return self._run(self.step(batch, rate(number)) for number, (batch,) in enumerate(steps, first_step))

    def forward_backward(self, steps: Iterable[list[Batch]]) -> TrainStats:
        return self._run(self.backward(batch) for (batch,) in steps)

    def forward(self, steps: Iterable[list[Batch]]) -> TrainStats:
        return self._run(self.run_loss(batch) for (batch,) in steps)

    def _run(self, totals: Iterator[jax.Array]) -> TrainStats:
        """Consume the steps; the only waits for the device are the look one interval late and the end."""
        self.total = self.own(np.zeros(2, np.float32))
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
        """Each batch with its outputs; while one is read, the next is computed."""
        running: deque[tuple[Batch, dict[str, jax.Array]]] = deque()
        for (batch,) in batches:
            running.append((batch, self.run_outputs(batch)))
            if len(running) > 1:
                yield _fetched(*running.popleft())
        if running:
            yield _fetched(*running.popleft())

    def gather(self, arrays: Arrays) -> list[Arrays] | None:
        """Arrays of all processes on process 0; they travel as bytes, so names, types and lengths may differ."""
        if self.worker.world_size == 1:
            return [arrays]
        stream = io.BytesIO()
        named: dict[str, Any] = dict(arrays)
        np.savez(stream, **named)
        lengths = self._all_gather(np.array([[stream.tell()]], WORD))[:, 0]
        words = 1 << int(-(-lengths.max() // WORD.itemsize) - 1).bit_length()  # few lengths: each is compiled
        padded = np.frombuffer(stream.getvalue().ljust(WORD.itemsize * words, b"\0"), WORD)
        rows = self._all_gather(padded[None])
        if self.worker.rank != 0:
            return None
        texts = (row.tobytes()[:length] for row, length in zip(rows, lengths, strict=True))
        return [dict(np.load(io.BytesIO(text), allow_pickle=False)) for text in texts]

    def _all_gather(self, words: Array) -> Array:
        """Collective: the rows (1, n) of all processes, (processes, n)."""
        return np.array(self._gather_rows(self.own(words)))

    def broadcast(self, value: float) -> float:
        """Process 0's value, to the last bit."""
        if self.worker.world_size == 1:
            return value
        rows = self._all_gather(np.array([value], np.float64).view(WORD)[None])
        return float(rows[0].view(np.float64)[0])

    def memory_peak_bytes(self) -> int:
        """Peak of JAX's GPU allocator, or of the resident set."""
        if self.on_gpu:
            return int(self.device.memory_stats()["peak_bytes_in_use"])
        return super().memory_peak_bytes()

    def close(self) -> None:
        """Meet the other processes; JAX's own shut-down, at exit, then finds them all alive."""
        self.broadcast(0.0)


def _join(device: int | None) -> None:
    """Meet the other processes at the first one's store, and on CPUs at addresses of the run's network alone."""
    rank, processes = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    meeting = f"{os.environ.get('MASTER_ADDR', '127.0.0.1')}:{os.environ['MASTER_PORT']}"
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    address = os.environ.get(ADDRESS_VARIABLE, "127.0.0.1")
    # JAX asks Gloo to listen at whatever address the machine's name stands for.
    _jax.make_gloo_tcp_collectives = functools.partial(_jax.make_gloo_tcp_collectives, hostname=address)
    jax.distributed.initialize(
        meeting, processes, rank, None if device is None else [device],
        coordinator_bind_address=meeting, heartbeat_timeout_seconds=SILENCE_SECONDS,
    )  # fmt: skip


def here(array: jax.Array) -> Array:
    """This replica's part, on the host: waits for the device."""
    return np.asarray(array.addressable_shards[0].data)


def read(total: jax.Array) -> float:
    """This replica's sum of losses."""
    return float(here(total)[0])


def _fetched(batch: Batch, outputs: dict[str, jax.Array]) -> tuple[Batch, Arrays]:
    """A batch and its outputs on the host."""
    return batch, {name: here(array) for name, array in outputs.items()}
