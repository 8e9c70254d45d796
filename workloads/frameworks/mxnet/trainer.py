"""What every MXNet trainer shares: contexts, key-value store, bounded queue of steps, errors, sum of gradients, a sharded Adam.

One process drives every replica, one context each. MXNet's engine is asynchronous: calls only enqueue work, each
context's worker computes it in order, and errors appear where a result is read.
"""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

import mxnet as mx
import numpy as np

from workloads.api import Array, Arrays, Batch, Diverged, Place, Trainer, TrainStats, Workload

QUEUED_STEPS = 2
"""Steps that may wait in the engine; the loss of the step before them is read. Bounds the memory of queued batches."""
_OUT_OF_MEMORY = ("failed to allocate", "out of memory", "could not create a memory object", "bad_alloc")


class MXNetTrainer(Trainer):
    """One process, all its devices. Subclasses give `step`, `loss` and `outputs`."""

    def __init__(self, workload: Workload, place: Place) -> None:
        super().__init__(workload, place)
        if place.processes != 1:
            raise ValueError(f"mxnet drives all devices from one process, not {place.processes}; use nodes=1")
        # CPU contexts are numbered too: each number has its own worker thread (and OMP_NUM_THREADS threads below it).
        self.contexts = [
            mx.gpu(int(name.partition(":")[2] or 0)) if name.startswith("cuda") else mx.cpu(number)
            for number, name in enumerate(place.devices)
        ]

    # -- for subclasses -------------------------------------------------------------------------------------------

    def step(self, batches: list[Batch], learning_rate: float) -> list[mx.nd.NDArray]:
        """Enqueue one optimizer step; returns each replica's part of the loss (sum of terms / weight_global), (1,)."""
        raise NotImplementedError

    def loss(self, batches: list[Batch]) -> list[mx.nd.NDArray]:
        """The same parts of the loss without an update."""
        raise NotImplementedError

    def outputs(self, batch: Batch, replica: int) -> dict[str, list[mx.nd.NDArray]]:
        """Enqueue one evaluation batch on a local replica; each output as parts to be joined along the first axis."""
        raise NotImplementedError

    def to_device(self, array: Array, context: mx.Context) -> mx.nd.NDArray:
        """The array on a device, without waiting: it must not change any more.

        `mx.nd.array` would wait for whatever the first context computes at that moment.
        """
        return mx.nd.from_numpy(np.ascontiguousarray(array)).as_in_context(context)

    # -- Trainer --------------------------------------------------------------------------------------------------

    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        """One optimizer step per item."""
        rate = self.workload.learning_rate
        return self._run(self.step(batches, rate(number)) for number, batches in enumerate(steps, first_step))

    def forward(self, steps: Iterable[list[Batch]]) -> TrainStats:
        """The loss of each item."""
        return self._run(self.loss(batches) for batches in steps)

    def _run(self, steps: Iterator[list[mx.nd.NDArray]]) -> TrainStats:
        """Enqueue the steps; the loss is read QUEUED_STEPS later, when others keep the devices busy."""
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
        return TrainStats(count, total / max(count, 1))

    def predict(self, batches: Iterable[list[Batch]]) -> Iterator[tuple[Batch, Arrays]]:
        """Each batch with its outputs; while one list is read, the next is computed on all contexts at once."""
        running: list[tuple[Batch, dict[str, list[mx.nd.NDArray]]]] = []
        with memory_errors():
            for local in batches:
                following = [(batch, self.outputs(batch, replica)) for replica, batch in enumerate(local)]
                yield from map(_fetch, running)
                running = following
            yield from map(_fetch, running)

    def gather(self, arrays: Arrays) -> list[Arrays] | None:
        """There is one process."""
        return [arrays]

    def broadcast(self, value: float) -> float:
        """There is one process."""
        return value

    def memory_peak_bytes(self) -> int:
        """Memory in use on the first GPU (MXNet's pool gives nothing back: its peak), or the peak resident set."""
        if self.contexts[0].device_type == "gpu":
            free, total = mx.context.gpu_memory_info(self.contexts[0].device_id)
            return int(total - free)
        return super().memory_peak_bytes()

    def close(self) -> None:
        """Let the engine finish."""
        with memory_errors():
            mx.nd.waitall()


class GradientSum:
    """Sums flat gradients, one per context, in place; each context sums one segment for all."""

    def __init__(self, gradients: Sequence[mx.nd.NDArray]) -> None:
        size, count = gradients[0].size, len(gradients)
        self.store = mx.kv.create("device") if count > 1 else None
        segments = [slice(size * number // count, size * (number + 1) // count) for number in range(count)]
        self.segments = [[vector[segment] for vector in gradients] for segment in segments]
        if self.store is not None:
            for owner, parts in enumerate(self.segments):
                self.store.init(owner, parts[owner])

    def reduce(self) -> None:
        """Enqueue the sum; afterwards every context has it in place of its own gradient."""
        if self.store is not None:
            for owner, parts in enumerate(self.segments):
                self.store.push(owner, parts)
            for owner, parts in enumerate(self.segments):
                self.store.pull(owner, out=parts)


class ShardedAdam:
    """Adam on flat vectors, one per context, all equal; each context updates one segment for all.

    A key-value store sums a segment's gradients for its owner; the owner updates its part of the weights and copies it
    to the others: each gradient is summed once, each weight updated once, each moment stored once. Epsilon is added to
    √(v / (1 - β2^t)), as PyTorch does; MXNet's operator adds it to √v, so its learning rate and its epsilon both carry
    the correction. The operator computes 1 - β in float32, which for 0.999 is 4.7e-5 off; that factor stays in the
    moments and is taken out by the same two numbers.
    """

    def __init__(
        self,
        weights: Sequence[mx.nd.NDArray],
        gradients: Sequence[mx.nd.NDArray],
        betas: tuple[float, float],
        epsilon: float,
    ) -> None:
        self.betas, self.epsilon, self.steps = betas, epsilon, 0
        size, count = weights[0].size, len(weights)
        self.store = mx.kv.create("device") if count > 1 else None
        segments = [slice(size * owner // count, size * (owner + 1) // count) for owner in range(count)]
        self.weights = [[vector[segment] for vector in weights] for segment in segments]
        self.gradients = [[vector[segment] for vector in gradients] for segment in segments]
        self.moments = [[mx.nd.zeros_like(parts[owner]) for _ in range(2)] for owner, parts in enumerate(self.weights)]
        if self.store is not None:
            for owner, parts in enumerate(self.gradients):
                self.store.init(owner, parts[owner])

    def step(self, learning_rate: float) -> None:
        """Enqueue the sum of the gradients, one update, and the copies to all contexts."""
        self.steps += 1
        beta1, beta2 = self.betas
        # What a constant gradient of 1 would have made of each moment.
        sum1, sum2 = (
            (1 - beta**self.steps) / (1 - beta) * float(np.float32(1) - np.float32(beta)) for beta in self.betas
        )
        rate, epsilon = learning_rate * math.sqrt(sum2) / sum1, self.epsilon * math.sqrt(sum2)
        constants = {"lr": rate, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "wd": 0.0}
        # In phases: all segments of a context are one vector to the engine, so each loop runs on all contexts at once.
        owners = range(len(self.weights))
        if self.store is not None:
            for owner in owners:
                self.store.push(owner, self.gradients[owner])
            for owner in owners:
                self.store.pull(owner, out=self.gradients[owner][owner])
        for owner in owners:
            weight, gradient = self.weights[owner][owner], self.gradients[owner][owner]
            mx.nd.adam_update(weight, gradient, *self.moments[owner], **constants, out=weight)
        for owner in owners:
            for other in owners:
                if other != owner:
                    self.weights[owner][owner].copyto(self.weights[owner][other])

    def state(self) -> dict[str, Array]:
        """Moments as flat vectors in the order of the weights, and the number of steps, float32 (1,)."""
        mean, square = (np.concatenate([pair[kind].asnumpy() for pair in self.moments]) for kind in range(2))
        return {"adam.exp_avg": mean, "adam.exp_avg_sq": square, "adam.step": np.array([self.steps], np.float32)}

    def load_state(self, state: Arrays) -> None:
        """Inverse of `state`."""
        self.steps, first = int(state["adam.step"][0]), 0
        for mean, square in self.moments:
            mean[:] = state["adam.exp_avg"][first : first + mean.size]
            square[:] = state["adam.exp_avg_sq"][first : first + mean.size]
            first += mean.size

    def reset(self) -> None:
        """As before the first step."""
        self.steps = 0
        for moment in (moment for pair in self.moments for moment in pair):
            moment[:] = 0.0


def views(flat: mx.nd.NDArray, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, mx.nd.NDArray]:
    """Name to its part of a flat vector, in its shape."""
    found, first = {}, 0
    for name, shape in shapes.items():
        stop = first + math.prod(shape)
        found[name] = flat[first:stop].reshape(shape)
        first = stop
    return found


@contextlib.contextmanager
def memory_errors() -> Iterator[None]:
    """Raise MXNet's memory errors as MemoryError; they come as MXNetError with a native stack, or from C++ directly."""
    try:
        yield
    except mx.MXNetError as error:
        text = str(error)
        if any(words in text.lower() for words in _OUT_OF_MEMORY):
            line = next(line for line in text.splitlines() if any(words in line.lower() for words in _OUT_OF_MEMORY))
            raise MemoryError(line.strip()) from error
        raise


def _read(parts: list[mx.nd.NDArray], steps: int) -> float:
    """The loss of one step: waits for its parts."""
    value = sum(float(part.asscalar()) for part in parts)
    if not math.isfinite(value):
        raise Diverged(f"the loss is {value} within {steps} steps of this block; try a smaller learning rate")
    return value


def _fetch(item: tuple[Batch, dict[str, list[mx.nd.NDArray]]]) -> tuple[Batch, Arrays]:
    """A batch and its outputs on the host."""
    batch, outputs = item
    return batch, {name: np.concatenate([part.asnumpy() for part in parts]) for name, parts in outputs.items()}
