"""What every TensorFlow trainer shares: strategy, device, threads, moving small arrays, watching the loss.

Two or more processes are joined by `MultiWorkerMirroredStrategy`, which reads TF_CONFIG. Its collectives are used as they
are; variables are plain local ones, equal in every process because all start from the same weights and apply the same sum.
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

from workloads.api import Array, Arrays, Batch, Trainer, TrainStats, WorkerContext, Workload, check_finite

CHECK_STEPS = 50
"""Steps between two looks at the loss; a thread reads it, and the result is looked at one interval later."""
SILENCE_SECONDS = 300
"""After which its peers count a process as lost, as the watchdog does; a connection that breaks ends them at once."""
CHUNK_ELEMENTS = 1 << 22
"""Elements that one collective sums: on two CPU processes eight rings of 16 MiB take 0.4 of the time of one of 127 MB."""


class TensorFlowTrainer(Trainer):
    """One process, one device. Subclasses define `step`, `backward` and `run_loss`, which add their part of the loss to
    `total`, and `run_outputs`. The constructor joins the other processes; what takes memory on the device waits for `build`.
    """

    total: tf.Variable
    """This replica's loss over the steps since it was last set to 0, float64; there once `build` was called."""

    def __init__(self, workload: Workload, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        assert len(worker.replica_ids) == 1, "TensorFlow drives one device per process"
        self.on_gpu = worker.devices[0].startswith("cuda")
        self._configure()
        self.strategy: Any = None
        if worker.world_size > 1:
            options = tf.distribute.experimental.CommunicationOptions(
                implementation=tf.distribute.experimental.CommunicationImplementation.NCCL
                if self.on_gpu
                else tf.distribute.experimental.CommunicationImplementation.RING
            )
            handler = signal.getsignal(signal.SIGTERM)
            _bear_silence()
            self.strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
            signal.signal(signal.SIGTERM, handler)  # TensorFlow only notes the signal; a worker shall end by it
        self._sum = self.new_sum()
        self._join = self._in_replica(lambda context, tensor: context.all_gather(tensor, axis=0))
        self._reader = ThreadPoolExecutor(1, "read-loss")

    def _configure(self) -> None:
        """Threads, visible device and arithmetic; before anything makes TensorFlow start its runtime."""
        tf.config.threading.set_intra_op_parallelism_threads(self.worker.threads_per_device)
        tf.config.threading.set_inter_op_parallelism_threads(2 if self.on_gpu else 1)
        tf.config.experimental.enable_tensor_float_32_execution(self.settings.precision == "tf32")
        gpus = tf.config.list_physical_devices("GPU")
        if not self.on_gpu:
            tf.config.set_visible_devices([], "GPU")
            return
        number = int(self.worker.devices[0].partition(":")[2] or 0)
        if number >= len(gpus):
            raise ValueError(f"{self.worker.devices[0]}: TensorFlow sees {len(gpus)} GPU(s); see CUDA_VISIBLE_DEVICES")
        tf.config.set_visible_devices([gpus[number]], "GPU")
        tf.config.experimental.set_memory_growth(gpus[number], True)

    def build(self) -> None:
        """Variables of the trainer; `setup` calls it once."""
        self.total = tf.Variable(0.0, dtype=tf.float64, trainable=False)

    # -- for subclasses -------------------------------------------------------------------------------------------

    def step(self, batch: Batch, learning_rate: float) -> None:
        """One optimizer step; adds this replica's part of the loss (sum of terms / global_weight_sum) to `total`."""
        raise NotImplementedError

    def backward(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Adds the same part of the loss; its gradients, summed over replicas, without an update."""
        raise NotImplementedError

    def run_loss(self, batch: Batch) -> None:
        """Add the same part of the loss without gradients."""
        raise NotImplementedError

    def run_outputs(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Return the model's outputs for an evaluation batch. No collective calls."""
        raise NotImplementedError

    def sum_over_replicas(self, tensors: Sequence[tf.Tensor]) -> Sequence[tf.Tensor]:
        """Collective: the sums over all replicas of tensors of one type; called in the same order by every process."""
        return tensors if self.strategy is None else self._sum(tensors)

    def new_sum(self) -> Callable[[Sequence[tf.Tensor]], Sequence[tf.Tensor]]:
        """What `sum_over_replicas` calls: a function that is traced for its tensors' shapes."""
        return self._in_replica(_all_reduce)

    def _in_replica(self, collective: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
        """A function that runs `collective(replica context, tensors)` for this process's replica."""

        def in_replica(tensors: Any) -> Any:
            # The collectives want to know each tensor's device; one made outside the replica names none.
            here = tf.nest.map_structure(tf.identity, tensors)
            return collective(tf.distribute.get_replica_context(), here)

        return tf.function(
            lambda tensors: self.strategy.run(in_replica, (tensors,)), autograph=False, reduce_retracing=True
        )

    # -- Trainer --------------------------------------------------------------------------------------------------

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

    def _run(self, compute: Callable[[Batch, int], object], steps: Iterable[list[Batch]]) -> TrainStats:
        """Call `compute(batch, its number)`; the only waits for the device are the look one interval late and the end."""
        self.total.assign(0.0)
        seen: Future[float] | None = None
        count = 0
        for count, (batch,) in enumerate(steps, start=1):
            compute(batch, count - 1)
            if count % CHECK_STEPS == 0:
                if seen is not None:
                    check_finite(seen.result(), count)
                seen = self._reader.submit(_read, self.total.read_value())
        own = self.total.read_value()
        # Asynchronous workers have made different numbers of steps.
        total = _read(own if self.exchange is not None else self.sum_over_replicas([own])[0])
        check_finite(total, count)
        return TrainStats(count, total / max(count, 1))

    def predict(self, batches: Iterable[list[Batch]]) -> Iterator[tuple[Batch, Arrays]]:
        """Each batch with its outputs; while one is read, the next is computed."""
        running: tuple[Batch, dict[str, tf.Tensor]] | None = None
        for (batch,) in batches:
            following = (batch, self.run_outputs(batch))
            if running is not None:
                yield _fetch(running)
            running = following
        if running is not None:
            yield _fetch(running)

    def gather(self, arrays: Arrays) -> list[Arrays] | None:
        """Arrays of all processes on process 0; they travel as bytes, so names, types and lengths may differ."""
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
        """Collective: arrays (n,) of all processes, joined in process order, (processes · n,)."""
        return self._join(tf.constant(array)).numpy()

    def broadcast(self, value: float) -> float:
        """Process 0's value: a sum to which the others add nothing."""
        mine = tf.constant(value if self.worker.rank == 0 else 0.0, tf.float64)
        return _read(self.sum_over_replicas([mine])[0])

    def memory_peak_bytes(self) -> int:
        """Peak of TensorFlow's GPU allocator, or of the resident set."""
        if self.on_gpu:
            return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])
        return super().memory_peak_bytes()

    def close(self) -> None:
        """Meet the other processes; TensorFlow's own shut-down, at exit, then finds them all alive."""
        self._reader.shutdown()
        self.broadcast(0.0)


def _bear_silence() -> None:
    """Processes of a busy machine may say nothing for longer than TensorFlow's own 10 s, after which their peers end."""
    runtime = context.context()
    configure = runtime.configure_coordination_service
    milliseconds = SILENCE_SECONDS * 1000
    runtime.configure_coordination_service = functools.partial(configure, heartbeat_timeout_in_ms=milliseconds)


def _all_reduce(context: Any, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Sums over replicas: joined, because every collective has its latency, then cut into chunks."""
    sizes = [tensor.shape.num_elements() for tensor in tensors]
    flat = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)
    chunks = [flat[first : first + CHUNK_ELEMENTS] for first in range(0, sum(sizes), CHUNK_ELEMENTS)]
    # One pack per chunk; otherwise the strategy would join them again.
    options = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=1)
    summed = tf.concat(context.all_reduce("SUM", chunks, options=options), 0)
    return [tf.reshape(part, tensor.shape) for part, tensor in zip(tf.split(summed, sizes), tensors, strict=True)]


def _read(tensor: tf.Tensor) -> float:
    """A scalar on the host: waits for the device."""
    return float(tensor.numpy())


def _fetch(item: tuple[Batch, dict[str, tf.Tensor]]) -> tuple[Batch, Arrays]:
    """A batch and its outputs on the host."""
    batch, outputs = item
    return batch, {name: tensor.numpy() for name, tensor in outputs.items()}
