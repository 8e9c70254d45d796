"""Base of every TensorFlow trainer.

The trainer manages the strategy, the device, threads, collectives of small arrays, and loss checks.

`MultiWorkerMirroredStrategy` connects several processes and reads TF_CONFIG. The trainer uses only
the collectives of this strategy. Variables are local to each process. The variables are equal in
every process, because all processes load the same initial weights and apply the same sum of
gradients.
"""

from __future__ import annotations

import functools
import io
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

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

CHECK_STEPS = 50
"""Number of steps between two checks of the loss. A thread copies the loss to the host, and the
check reads the copy one interval later.
"""
SILENCE_SECONDS = 300
"""Number of seconds without a heartbeat after which TensorFlow considers a process lost. The
controller's watchdog uses the same timeout. A broken connection is detected immediately.
"""
CHUNK_ELEMENTS = 1 << 22
"""Maximum number of elements per collective. With two CPU processes, eight ring all-reduces of
16 MiB take 0.4 times the time of a single ring all-reduce of 127 MB.
"""


class TensorFlowTrainer(Trainer):
    """Base class of the TensorFlow trainers. Each process uses a single device.

    Subclasses define `step`, `backward`, `run_loss`, and `run_outputs`. `step`, `backward`, and
    `run_loss` add this replica's share of the loss to `total`. The constructor connects the
    processes of the run. `build` allocates device memory.
    """

    total: tf.Variable
    """Sum of this replica's losses since `total` was last reset to 0, float64. `build` creates the
    variable.
    """

    def __init__(self, workload: Workload, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        assert len(worker.replica_ids) == 1, "TensorFlow drives one device per process"
        self.on_gpu = worker.devices[0].startswith("cuda")
        self._configure()
        self.strategy: Any = None
        if worker.world_size > 1:
            options = tf.distribute.experimental.CommunicationOptions(
                implementation=(
                    tf.distribute.experimental.CommunicationImplementation.NCCL
                    if self.on_gpu
                    else tf.distribute.experimental.CommunicationImplementation.RING
                )
            )
            handler = signal.getsignal(signal.SIGTERM)
            _extend_heartbeat_timeout()
            self.strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
            # TensorFlow's signal handler only records SIGTERM, but a worker must exit.
            signal.signal(signal.SIGTERM, handler)
        self._sum = self.new_sum()
        self._join = self._in_replica(lambda context, tensor: context.all_gather(tensor, axis=0))
        self._reader = ThreadPoolExecutor(1, "read-loss")

    def _configure(self) -> None:
        """Configure threads, the visible device, and the precision of matrix products.

        This method must be called before TensorFlow starts its runtime.
        """
        tf.config.threading.set_intra_op_parallelism_threads(self.worker.threads_per_device)
        tf.config.threading.set_inter_op_parallelism_threads(2 if self.on_gpu else 1)
        tf.config.experimental.enable_tensor_float_32_execution(self.settings.precision == "tf32")
        gpus = tf.config.list_physical_devices("GPU")
        if not self.on_gpu:
            tf.config.set_visible_devices([], "GPU")
            return
        number = int(self.worker.devices[0].partition(":")[2] or 0)
        if number >= len(gpus):
            raise ValueError(
                f"{self.worker.devices[0]}: TensorFlow detects {len(gpus)} GPU(s). Check"
                " CUDA_VISIBLE_DEVICES"
            )
        tf.config.set_visible_devices([gpus[number]], "GPU")
        tf.config.experimental.set_memory_growth(gpus[number], True)

    def build(self) -> None:
        """Create the variables of the trainer. `setup` calls this method once."""
        self.total = tf.Variable(0.0, dtype=tf.float64, trainable=False)

    # -- for subclasses
    # -------------------------------------------------------------------------------------------

    def step(self, batch: Batch, learning_rate: float) -> None:
        """Run an optimizer step, and add this replica's share of the loss to `total`.

        The share is the sum of the replica's loss terms / `global_weight_sum`.
        """
        raise NotImplementedError

    def backward(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Return the gradients summed over replicas (all-reduce), without an update.

        This replica's share of the loss is added to `total`, as in `step`.
        """
        raise NotImplementedError

    def run_loss(self, batch: Batch) -> None:
        """Add this replica's share of the loss to `total`, without computing gradients."""
        raise NotImplementedError

    def run_outputs(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Return the model's outputs for an evaluation batch, without collective operations."""
        raise NotImplementedError

    def sum_over_replicas(self, tensors: Sequence[tf.Tensor]) -> Sequence[tf.Tensor]:
        """Return the sums over all replicas of tensors with the same data type.

        The sum is a collective operation, so every process must make the same calls in the same
        order.
        """
        return tensors if self.strategy is None else self._sum(tensors)

    def new_sum(self) -> Callable[[Sequence[tf.Tensor]], Sequence[tf.Tensor]]:
        """Return the function that `sum_over_replicas` calls.

        TensorFlow traces the function for the shapes of the tensors that it sums.
        """
        return self._in_replica(_all_reduce)

    def _in_replica(self, collective: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
        """Return a function that runs a collective for this process's replica.

        The function calls `collective(replica context, tensors)`.
        """

        def in_replica(tensors: Any) -> Any:
            # The collectives read the device attribute of each tensor. The attribute is not set for
            # tensors that were created outside of the replica context.
            local = tf.nest.map_structure(tf.identity, tensors)
            return collective(tf.distribute.get_replica_context(), local)

        return tf.function(
            lambda tensors: self.strategy.run(in_replica, (tensors,)),
            autograph=False,
            reduce_retracing=True,
        )

    # -- Trainer
    # ----------------------------------------------------------------------------------------------

    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:

        def step(batch: Batch, number: int) -> None:
            self.step(batch, self.workload.learning_rate(first_step + number))

        return self._run(step, steps)

    def synchronize(self) -> None:
        if self.on_gpu:
            tf.test.experimental.sync_devices()

    def forward_backward(self, steps: Iterable[list[Batch]]) -> TrainStats:
        return self._run(lambda batch, _: self.backward(batch), steps)

    def forward(self, steps: Iterable[list[Batch]]) -> TrainStats:
        return self._run(lambda batch, _: self.run_loss(batch), steps)

    def _run(
        self, compute: Callable[[Batch, int], object], steps: Iterable[list[Batch]]
    ) -> TrainStats:
        """Call `compute(batch, number)` for each batch, and return statistics of the losses.

        The host waits for the device only at the end and in the loss checks, which are delayed by
        one interval.
        """
        self.total.assign(0.0)
        seen: Future[float] | None = None
        count = 0
        for count, (batch,) in enumerate(steps, start=1):
            compute(batch, count - 1)
            if count % CHECK_STEPS == 0:
                if seen is not None:
                    check_finite(seen.result(), count)
                seen = self._reader.submit(_read, self.total.read_value())
        local = self.total.read_value()
        # Asynchronous workers have run different numbers of steps, so their losses are not summed
        # over workers.
        total = _read(local if self.exchange is not None else self.sum_over_replicas([local])[0])
        check_finite(total, count)
        return TrainStats(count, total / max(count, 1))

    def predict(self, batches: Iterable[list[Batch]]) -> Iterator[tuple[Batch, Arrays]]:
        """Yield each batch with its outputs.

        The device computes the outputs of the next batch while the caller reads the outputs of the
        current batch.
        """
        running: tuple[Batch, dict[str, tf.Tensor]] | None = None
        for (batch,) in batches:
            following = (batch, self.run_outputs(batch))
            if running is not None:
                yield _fetch(running)
            running = following
        if running is not None:
            yield _fetch(running)

    def gather(self, arrays: Arrays) -> list[Arrays] | None:
        """Gather the arrays of all processes on rank 0, and return None on all other ranks.

        The arrays are transferred as bytes. The names, types, and lengths of the arrays may
        therefore differ between processes.
        """
        if self.strategy is None:
            return [arrays]
        stream = io.BytesIO()
        named: dict[str, Any] = dict(arrays)
        np.savez(stream, **named)
        lengths = self._all_gather(np.array([stream.tell()], np.int64))
        padded = stream.getvalue().ljust(int(-(-lengths.max() // 8) * 8), b"\0")
        rows = self._all_gather(np.frombuffer(padded, np.int64)).reshape(self.worker.world_size, -1)
        if self.worker.rank != 0:
            return None
        texts = (row.tobytes()[:length] for row, length in zip(rows, lengths, strict=True))
        return [dict(np.load(io.BytesIO(text), allow_pickle=False)) for text in texts]

    def _all_gather(self, array: Array) -> Array:
        """Concatenate the arrays (n,) of all processes in rank order to (processes · n,).

        This call is collective.
        """
        return self._join(tf.constant(array)).numpy()

    def broadcast(self, value: float) -> float:
        """Return the value of rank 0 on every process.

        The broadcast is computed as a sum to which all ranks except rank 0 add 0.
        """
        local = tf.constant(value if self.worker.rank == 0 else 0.0, tf.float64)
        return _read(self.sum_over_replicas([local])[0])

    def memory_peak_bytes(self) -> int:
        """Return the peak size of TensorFlow's GPU memory, or peak resident memory on CPUs."""
        if self.on_gpu:
            return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])
        return super().memory_peak_bytes()

    def close(self) -> None:
        """Wait until all processes call `close`, so that all are alive when TensorFlow exits."""
        self._reader.shutdown()
        self.broadcast(0.0)


def _extend_heartbeat_timeout() -> None:
    """Extend TensorFlow's heartbeat timeout, whose default is 10 s.

    On a busy host, heartbeats of a process may be late by more than 10 s. With the default timeout,
    all other processes would then exit.
    """
    runtime = context.context()
    configure = runtime.configure_coordination_service
    milliseconds = SILENCE_SECONDS * 1000
    runtime.configure_coordination_service = functools.partial(
        configure, heartbeat_timeout_in_ms=milliseconds
    )


def _all_reduce(context: Any, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return the sums of the tensors over replicas (all-reduce).

    The tensors are joined into one array, because every collective adds latency. The array is then
    split into chunks.
    """
    sizes = [tensor.shape.num_elements() for tensor in tensors]
    flat = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)
    chunks = [
        flat[first : first + CHUNK_ELEMENTS] for first in range(0, sum(sizes), CHUNK_ELEMENTS)
    ]
    # With this option, each chunk is a separate pack, so the strategy does not join the chunks
    # again.
    options = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=1)
    summed = tf.concat(context.all_reduce("SUM", chunks, options=options), 0)
    return [
        tf.reshape(part, tensor.shape)
        for part, tensor in zip(tf.split(summed, sizes), tensors, strict=True)
    ]


def _read(tensor: tf.Tensor) -> float:
    """Wait for the device, and return a scalar tensor as a float."""
    return float(tensor.numpy())


def _fetch(item: tuple[Batch, dict[str, tf.Tensor]]) -> tuple[Batch, Arrays]:
    """Return a batch with its outputs, copied to the host."""
    batch, outputs = item
    return batch, {name: tensor.numpy() for name, tensor in outputs.items()}
