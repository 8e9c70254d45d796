"""The framework half of a workload."""

from __future__ import annotations

import contextlib
import math
import resource
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from workloads.api.data import ArraySpec, Batch
from workloads.api.exchange import ParameterServerClient
from workloads.api.values import Array, Arrays
from workloads.api.worker_context import WorkerContext
from workloads.api.workload import Workload


class NonFiniteLossError(RuntimeError):
    """The loss is not a finite number; the run ends as `failed`."""


def check_finite(loss: float, steps: int) -> None:
    """Raise NonFiniteLossError for a `loss` that is no finite number within `steps` steps of a segment."""
    if not math.isfinite(loss):
        raise NonFiniteLossError(f"the loss is {loss} within {steps} steps of this block; try a smaller learning rate")


@dataclass(frozen=True)
class TrainStats:
    """What a trainer says about a segment of steps."""

    steps: int
    loss: float
    """Mean loss over the last reported segment of steps (global mean per unit of weight)."""


@dataclass(frozen=True)
class GradientAllReduceInfo:
    """What the all-reduce of a step moves: the gradients of one device."""

    size_bytes: float
    tensors: int = 0
    """0: not known."""
    buckets: int = 1
    """Pieces in which they travel, each with the latency of an all-reduce."""


class Trainer(ABC):
    """A model, a step, and moving small arrays between processes.

    The constructor creates no parameter, optimizer state or device memory: under clock v0.5 that is timed, in `setup`.
    """

    timed_by: ClassVar[str] = "device events"
    """What takes the times that `marked` gives, for the log."""
    exchange: ParameterServerClient | None = None
    """Under `update=async` what `setup` ended with: a step then pushes its gradients, and updates nothing itself."""

    def __init__(self, workload: Workload, worker: WorkerContext) -> None:
        self.beat: Callable[[], object] = lambda: None
        """Tells the controller that `setup` goes on: all shapes together may take longer to compile than its patience."""
        self.workload = workload
        self.settings = workload.settings
        self.worker = worker

    @property
    def threads_per_device(self) -> int:
        """Threads that compute a device's operators, on CPU cores."""
        return self.worker.threads_per_device

    def dummy_batch(self, specs: Mapping[str, ArraySpec]) -> Batch:
        """The workload's, of the next shape to warm up."""
        self.beat()
        return self.workload.dummy_batch(specs)

    @abstractmethod
    def setup(self, weights: Iterable[tuple[str, Array]], warmup: bool = True) -> None:
        """Build the model, load the weights, compile; warm up on dummy batches and leave no trace of that."""

    @abstractmethod
    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        """One optimizer step per item; items are consumed in order. Raises NonFiniteLossError."""

    @abstractmethod
    def forward(self, steps: Iterable[list[Batch]]) -> TrainStats:
        """The loss of each item in training mode, no gradients, no update (`mode=forward`)."""

    def forward_backward(self, steps: Iterable[list[Batch]]) -> TrainStats:
        """Loss and gradients of each item, summed over replicas as in training, but no update (`mode=forward_backward`)."""
        raise ValueError(f"mode=forward_backward: {type(self).__name__} does not offer it; type mode=train or forward")

    def gradient_all_reduce_info(self) -> GradientAllReduceInfo | None:
        """What a step's sum over devices moves, also where there is one device; known after `setup`. None: it does not tell."""
        return None

    @contextlib.contextmanager
    def prefetch_to_device(self, batches: Iterator[list[Batch]]) -> Iterator[Iterator[list[Batch]]]:
        """While it holds, the same batches, of which a thread may bring the next ones to where the device takes them from."""
        yield batches

    def time_steps(self, steps: Iterable[list[Batch]], seconds: list[float]) -> Iterator[list[Batch]] | None:
        """The same items, each step of which the device itself times while many are under way (`timing=steps`).

        The times, in seconds, stand in `seconds` once the steps are over. None: the device has no such clock; the loop then
        waits after each step.
        """
        return None

    def synchronize(self) -> None:  # noqa: B027 - trainers whose steps return when they are done have nothing to wait for
        """Return when the devices have done what they were given."""

    @abstractmethod
    def predict(self, batches: Iterable[list[Batch]]) -> Iterator[tuple[Batch, Arrays]]:
        """Each batch with the model's outputs for it, as NumPy arrays. No collective calls."""

    @abstractmethod
    def gather(self, arrays: Arrays) -> list[Arrays] | None:
        """Collective: the arrays of every process on process 0 (in process order), None elsewhere."""

    @abstractmethod
    def broadcast(self, value: float) -> float:
        """Collective: process 0's value."""

    def weights(self) -> dict[str, Array]:
        """Copies of what of the state makes the model: parameters and running statistics (canonical names), float32."""
        return self.state_dict()

    @abstractmethod
    def state_dict(self) -> dict[str, Array]:
        """Copies of parameters (canonical names) and optimizer state, float32."""

    @abstractmethod
    def load_state_dict(self, state: Arrays) -> None:
        """Inverse of `state`."""

    def memory_peak_bytes(self) -> int:
        """Peak device memory of the first local replica; on a CPU the peak resident set of the process."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    @abstractmethod
    def close(self) -> None:
        """Leave collectives in an orderly way."""

    @classmethod
    def run_parameter_server(cls, workload: Workload, address: str, workers: int) -> None:
        """Be the parameter server of `update=async` at `address` (`host:port`), until the workers are gone or this is ended."""
        raise ValueError(f"update=async: {cls.__name__} has no server; type update=sync")
