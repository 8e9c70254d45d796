"""Base of every MXNet trainer: contexts, step queue, outputs, and errors.

A process runs the replica of one CPU device, or the replicas of all GPUs of a host. Each replica
has an MXNet context. MXNet's engine is asynchronous. Calls only enqueue work, and the worker thread
of each context executes the work in order. Errors are raised when a result is read.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import TypeVar

import mxnet as mx
import numpy as np

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
from workloads.frameworks.mxnet.server import Meeting, SyncStore

T = TypeVar("T")

QUEUED_STEPS = 2
"""Maximum number of steps in the engine's queue. The maximum limits the memory of queued
batches. When a step is enqueued, the loss of an earlier step is read.
"""
_OUT_OF_MEMORY = (
    "failed to allocate",
    "out of memory",
    "could not create a memory object",
    "bad_alloc",
)


def one_thread_here() -> None:
    """Disable OpenMP for copies by the calling thread, which only enqueues work.

    The worker threads of the contexts keep their OpenMP threads. If the calling thread also created
    OpenMP threads, libgomp would count more threads than cores. All threads would then sleep at
    barriers instead of spinning. With sleeping threads, the Mask R-CNN demo on two cores trained 35
    images/s instead of 117 images/s (AMD EPYC, same losses).
    """
    mx.base.check_call(mx.base._LIB.MXSetNumOMPThreads(1))


class MXNetTrainer(Trainer):
    """Base class of the MXNet trainers. The trainer uses all devices of its process.

    Subclasses define `step`, `run_loss` and `run_outputs`.
    """

    store: Meeting | None = None
    """Connection to the other processes of the run. The attribute is None if the run has only one
    process, or before the process has connected.
    """

    def __init__(self, workload: Workload, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        # Each CPU context has a different number, because MXNet starts a separate worker thread
        # with OMP_NUM_THREADS OpenMP threads for each number.
        self.contexts = [
            mx.gpu(int(name.partition(":")[2] or 0)) if name.startswith("cuda") else mx.cpu(number)
            for number, name in enumerate(worker.devices)
        ]
        if self.contexts[0].device_type == "cpu":
            one_thread_here()

    # -- for subclasses
    # -------------------------------------------------------------------------------------------

    def step(self, batches: list[Batch], learning_rate: float) -> list[mx.nd.NDArray]:
        """Enqueue an optimizer step and return each replica's share of the loss, (1,).

        The share is the sum of the replica's loss terms / `global_weight_sum`.
        """
        raise NotImplementedError

    def run_loss(self, batches: list[Batch]) -> list[mx.nd.NDArray]:
        """Enqueue a forward pass without an update, and return each replica's loss share."""
        raise NotImplementedError

    def run_outputs(self, batch: Batch, replica: int) -> dict[str, list[mx.nd.NDArray]]:
        """Enqueue an evaluation batch on a local replica.

        Returns:
            The output arrays of each micro-batch by name. The caller joins the micro-batches along
            the first axis.
        """
        raise NotImplementedError

    def all_outputs(self, batches: list[Batch]) -> list[dict[str, list[mx.nd.NDArray]]]:
        return [self.run_outputs(batch, replica) for replica, batch in enumerate(batches)]

    def to_device(self, array: Array, context: mx.Context) -> mx.nd.NDArray:
        """Copy an array to a device without synchronization.

        The caller must not modify the array afterwards.

        `mx.nd.array` would wait for the queued work of the first context.
        """
        return mx.nd.from_numpy(np.ascontiguousarray(array)).as_in_context(context)

    # -- Trainer
    # ----------------------------------------------------------------------------------------------

    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        rate = self.workload.learning_rate
        return self.run(
            self.step(batches, rate(number)) for number, batches in enumerate(steps, first_step)
        )

    def forward(self, steps: Iterable[list[Batch]]) -> TrainStats:
        return self.run(self.run_loss(batches) for batches in steps)

    def run(self, steps: Iterator[list[mx.nd.NDArray]]) -> TrainStats:
        """Enqueue the steps and read each loss QUEUED_STEPS steps later.

        The devices execute later steps while a loss is read.
        """
        queued: deque[list[mx.nd.NDArray]] = deque()
        total, count = 0.0, 0
        with memory_errors():
            for count, parts in enumerate(steps, start=1):
                queued.append(parts)
                if len(queued) > QUEUED_STEPS:
                    total += _read(queued.popleft(), count)
            for parts in queued:
                total += _read(parts, count)
            mx.nd.waitall()
        return TrainStats(
            count, float(self.of_all({"loss": np.array(total)})["loss"].sum()) / max(count, 1)
        )

    def of_all(self, arrays: Arrays) -> Arrays:
        """Gather arrays over processes. This call is collective.

        With `update=sync`, each array has one row per process. Otherwise, each array has a single
        row.
        """
        if not isinstance(self.store, SyncStore):
            return {name: array[None] for name, array in arrays.items()}
        gathered = self.store.all_gather(arrays)
        return {name: np.stack([part[name] for part in gathered]) for name in arrays}

    def predict(self, batches: Iterable[list[Batch]]) -> Iterator[tuple[Batch, Arrays]]:
        """Yield each batch with its outputs.

        All contexts compute the outputs of the next batches while the caller reads the outputs of
        the current batches.
        """
        running: list[tuple[Batch, dict[str, list[mx.nd.NDArray]]]] = []
        with memory_errors():
            for local in batches:
                following = list(zip(local, self.all_outputs(local), strict=True))
                yield from map(_fetch, running)
                running = following
            yield from map(_fetch, running)

    def synchronize(self) -> None:
        with memory_errors():
            mx.nd.waitall()

    def gather(self, arrays: Arrays) -> list[Arrays] | None:
        return [arrays] if self.store is None else self.store.gather(arrays)

    def broadcast(self, value: float) -> float:
        return value if self.store is None else self.store.broadcast(value)

    def memory_peak_bytes(self) -> int:
        """Return the memory in use on the first GPU, or the peak resident set size on CPUs.

        MXNet's memory pool never releases memory, so the memory in use is the peak.
        """
        if self.contexts[0].device_type == "gpu":
            free, total = mx.context.gpu_memory_info(self.contexts[0].device_id)
            return int(total - free)
        return super().memory_peak_bytes()

    def close(self) -> None:
        with memory_errors():
            mx.nd.waitall()
        if self.store is not None:
            self.store.close()


def in_turn(works: Sequence[Generator[None, None, T]]) -> list[T]:
    """Run generators alternately and return their results.

    Each generator yields before it waits for its context. Every context therefore has queued work
    before the first wait.
    """
    results: dict[int, T] = {}
    while len(results) < len(works):
        for number, work in enumerate(works):
            if number in results:
                continue
            try:
                next(work)
            except StopIteration as end:
                results[number] = end.value
    return [results[number] for number in range(len(works))]


@contextlib.contextmanager
def memory_errors() -> Iterator[None]:
    """Convert MXNet's out-of-memory errors to MemoryError.

    MXNet raises out-of-memory errors either as MXNetError with a native stack trace, or as C++
    errors.
    """
    try:
        yield
    except mx.MXNetError as error:
        text = str(error)
        if any(phrase in text.lower() for phrase in _OUT_OF_MEMORY):
            line = next(
                line
                for line in text.splitlines()
                if any(phrase in line.lower() for phrase in _OUT_OF_MEMORY)
            )
            raise MemoryError(line.strip()) from error
        raise


def _read(parts: list[mx.nd.NDArray], steps: int) -> float:
    """Return the loss of a step, after waiting for all replicas."""
    value = sum(float(part.asscalar()) for part in parts)
    check_finite(value, steps)
    return value


def _fetch(item: tuple[Batch, dict[str, list[mx.nd.NDArray]]]) -> tuple[Batch, Arrays]:
    """Return a batch with its outputs, copied to the host."""
    batch, outputs = item
    return batch, {
        name: np.concatenate([part.asnumpy() for part in parts]) for name, parts in outputs.items()
    }
