"""Interface of a trainer, the part of a workload that uses a framework."""

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
    """The loss is not a finite number. The run ends as `failed`."""


def check_finite(loss: float, steps: int) -> None:
    """Raise NonFiniteLossError if the loss of a segment of `steps` steps is not finite."""
    if not math.isfinite(loss):
        raise NonFiniteLossError(
            f"the loss is {loss} within {steps} steps of this block. Try a smaller learning rate"
        )


@dataclass(frozen=True)
class TrainStats:
    """Result of a segment of steps."""

    steps: int
    loss: float
    """Mean loss over the last reported segment of steps (global mean per unit of weight)."""


@dataclass(frozen=True)
class GradientAllReduceInfo:
    """Size of the all-reduce of a step, which sums the gradients of all devices.

    The numbers are per device.
    """

    size_bytes: float
    tensors: int = 0
    """Number of gradient tensors. 0: unknown."""
    buckets: int = 1
    """Number of buckets, each with the latency of an all-reduce."""


class Trainer(ABC):
    """Model and training step of a workload in a framework, with collectives for small arrays.

    The constructor must not create parameters, optimizer state or device memory. `setup` does,
    because the v0.5 clock times it.
    """

    timed_by: ClassVar[str] = "device events"
    """Source of the times of `time_steps`, for the log."""
    exchange: ParameterServerClient | None = None
    """Parameter-server client under `update=async`, created at the end of `setup`.

    Steps push their gradients to the server instead of updating the model.
    """

    def __init__(self, workload: Workload, worker: WorkerContext) -> None:
        self.beat: Callable[[], object] = lambda: None
        """Reports progress of `setup`, since compiling all shapes may take longer than the
        controller's watchdog allows.
        """
        self.workload = workload
        self.settings = workload.settings
        self.worker = worker

    @property
    def threads_per_device(self) -> int:
        """Number of threads that compute a device's operators on CPU cores."""
        return self.worker.threads_per_device

    def dummy_batch(self, specs: Mapping[str, ArraySpec]) -> Batch:
        """Report progress, and return the workload's dummy batch of these shapes."""
        self.beat()
        return self.workload.dummy_batch(specs)

    @abstractmethod
    def setup(self, weights: Iterable[tuple[str, Array]], warmup: bool = True) -> None:
        """Build the model, load the weights, and compile.

        With `warmup`, run dummy batches without an effect on the state.
        """

    @abstractmethod
    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        """Run an optimizer step for each item, in order.

        Raises NonFiniteLossError if the loss is not finite.
        """

    @abstractmethod
    def forward(self, steps: Iterable[list[Batch]]) -> TrainStats:
        """Compute the loss of each item in training mode (`mode=forward`).

        There are no gradients and updates.
        """

    def forward_backward(self, steps: Iterable[list[Batch]]) -> TrainStats:
        """Compute loss and gradients of each item, without updates (`mode=forward_backward`).

        Gradients are summed over replicas.
        """
        raise ValueError(
            f"mode=forward_backward: {type(self).__name__} does not support it. Set mode=train or"
            " mode=forward"
        )

    def gradient_all_reduce_info(self) -> GradientAllReduceInfo | None:
        """Return the size of a step's all-reduce, with a single device too, or None if unknown.

        Call it after `setup`.
        """
        return None

    @contextlib.contextmanager
    def prefetch_to_device(self, batches: Iterator[list[Batch]]) -> Iterator[Iterator[list[Batch]]]:
        """Return a context manager that yields the same batches.

        While it is open, a thread may copy the next batches to the device.
        """
        yield batches

    def time_steps(
        self, steps: Iterable[list[Batch]], seconds: list[float]
    ) -> Iterator[list[Batch]] | None:
        """Return the same items, whose steps the device times (`timing=steps`).

        There is no synchronization after each step.

        Args:
            steps: Batches of each step.
            seconds: Receives the time of each step, after the last step.

        Returns:
            The items. None: the device has no such clock, so the loop synchronizes after each step.
        """
        return None

    def synchronize(self) -> None:  # noqa: B027
        """Wait until the devices have finished all work that was launched.

        Steps of some trainers return after their computation, and need no implementation.
        """

    @abstractmethod
    def predict(self, batches: Iterable[list[Batch]]) -> Iterator[tuple[Batch, Arrays]]:
        """Yield each batch with the outputs of the model as NumPy arrays.

        Implementations must not call collectives.
        """

    @abstractmethod
    def gather(self, arrays: Arrays) -> list[Arrays] | None:
        """Return the arrays of every process, by rank, on rank 0, and None on all other ranks.

        This call is collective.
        """

    @abstractmethod
    def broadcast(self, value: float) -> float:
        """Return the value of rank 0 on every rank. This call is collective."""

    def weights(self) -> dict[str, Array]:
        """Return copies of the parameters and running statistics.

        They are float32 with canonical names, without optimizer state.
        """
        return self.state_dict()

    @abstractmethod
    def state_dict(self) -> dict[str, Array]:
        """Return copies of the parameters (canonical names) and the optimizer state, in float32."""

    @abstractmethod
    def load_state_dict(self, state: Arrays) -> None:
        """Restore a state that `state_dict` returned."""

    def memory_peak_bytes(self) -> int:
        """Return the peak device memory of the first local replica.

        On a CPU, it is the peak resident set of the process.
        """
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    @abstractmethod
    def close(self) -> None:
        """Shut down collectives."""

    @classmethod
    def run_parameter_server(cls, workload: Workload, address: str, workers: int) -> None:
        """Run the parameter server of `update=async` at `address` (`host:port`).

        It runs until all workers have left or it is killed.
        """
        raise ValueError(f"update=async: {cls.__name__} has no parameter server. Set update=sync")
