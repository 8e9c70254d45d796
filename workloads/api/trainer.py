"""Interface of a trainer, which is the framework-specific code of a workload."""

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
    """Error for a loss that is NaN or infinite. The run ends as `failed`."""


def check_finite(loss: float, steps: int) -> None:
    """Raise NonFiniteLossError if the loss over `steps` steps is NaN or infinite."""
    if not math.isfinite(loss):
        raise NonFiniteLossError(
            f"the loss is {loss} within {steps} steps of this block. Try a smaller learning rate"
        )


@dataclass(frozen=True)
class TrainStats:
    """Result of a sequence of training steps."""

    steps: int
    loss: float
    """Mean loss over the last reported steps (global mean per unit of weight)."""


@dataclass(frozen=True)
class GradientAllReduceInfo:
    """Size of the gradient all-reduce in a step.

    All numbers are per device.
    """

    size_bytes: float
    tensors: int = 0
    """Number of gradient tensors. 0 if the number is unknown."""
    buckets: int = 1
    """Number of buckets. Each bucket adds the latency of an all-reduce."""


class Trainer(ABC):
    """Model, training step, and collectives of a workload in a framework.

    The collectives are for small arrays.

    The constructor must not create parameters, optimizer state, or device memory. `setup` creates
    them, because the v0.5 clock includes this time.
    """

    timed_by: ClassVar[str] = "device events"
    """Clock of the times from `time_steps`, for the log."""
    state_is_sharded: bool = False
    """True if each process holds only a part of the parameters and of the optimizer state.

    All ranks must then call `weights` and `state_dict` (collective calls), and only rank 0 receives
    the arrays.
    """
    exchange: ParameterServerClient | None = None
    """Parameter-server client under `update=async`, which is created at the end of `setup`.

    Steps then push their gradients to the server instead of updating the model.
    """

    def __init__(self, workload: Workload, worker: WorkerContext) -> None:
        self.beat: Callable[[], object] = lambda: None
        """Callback that reports progress of `setup`. Without progress reports, compiling all shapes
        could exceed the controller's watchdog timeout.
        """
        self.workload = workload
        self.settings = workload.settings
        self.worker = worker

    @property
    def threads_per_device(self) -> int:
        """Return the number of threads that compute a device's operators on CPU cores."""
        return self.worker.threads_per_device

    def dummy_batch(self, specs: Mapping[str, ArraySpec]) -> Batch:
        """Report progress, and return the workload's dummy batch with these shapes."""
        self.beat()
        return self.workload.dummy_batch(specs)

    @abstractmethod
    def setup(self, weights: Iterable[tuple[str, Array]], warmup: bool = True) -> None:
        """Build the model, load the weights, and compile.

        With `warmup`, also run dummy batches that do not change the state.
        """

    @abstractmethod
    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        """Run an optimizer step for each item, in order.

        The method raises NonFiniteLossError if the loss is NaN or infinite.
        """

    @abstractmethod
    def forward(self, steps: Iterable[list[Batch]]) -> TrainStats:
        """Compute the loss of each item in training mode (`mode=forward`).

        Neither gradients nor updates are computed.
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
        """Return the size of a step's gradient all-reduce, or None if it is unknown.

        The size is also returned for a single device. The method must be called after `setup`.
        """
        return None

    @contextlib.contextmanager
    def prefetch_to_device(self, batches: Iterator[list[Batch]]) -> Iterator[Iterator[list[Batch]]]:
        """Return a context manager that yields the same batches.

        Inside the context, a thread may copy the next batches to the device.
        """
        yield batches

    def time_steps(
        self, steps: Iterable[list[Batch]], seconds: list[float]
    ) -> Iterator[list[Batch]] | None:
        """Return the same items, with the time of each step measured by the device.

        The method is used under `timing=steps`. There is no synchronization after each step.

        Args:
            steps: Batches of each step.
            seconds: Receives the time of each step, after the last step.

        Returns:
            The items, or None if the device cannot time steps. The loop then synchronizes after
            each step.
        """
        return None

    def synchronize(self) -> None:  # noqa: B027
        """Wait until the devices have finished all launched work.

        Trainers whose steps return only after the computation do not need to implement this method.
        """

    @abstractmethod
    def predict(self, batches: Iterable[list[Batch]]) -> Iterator[tuple[Batch, Arrays]]:
        """Yield each batch with the outputs of the model as NumPy arrays.

        Implementations must not call collectives.
        """

    @abstractmethod
    def gather(self, arrays: Arrays) -> list[Arrays] | None:
        """Return the arrays of every process by rank, on rank 0, and None on all other ranks.

        All ranks must call this method (collective call).
        """

    @abstractmethod
    def broadcast(self, value: float) -> float:
        """Return the value of rank 0 on every rank (collective call)."""

    def weights(self) -> dict[str, Array]:
        """Return copies of the parameters and running statistics.

        The copies are float32 with canonical names. The optimizer state is not included.
        """
        return self.state_dict()

    @abstractmethod
    def state_dict(self) -> dict[str, Array]:
        """Return copies of the parameters (canonical names) and the optimizer state, in float32."""

    @abstractmethod
    def load_state_dict(self, state: Arrays) -> None:
        """Restore a state that `state_dict` returned."""

    def memory_peak_bytes(self) -> int:
        """Return the peak device memory of the first local replica in bytes.

        On a CPU, the result is the peak resident set size of the process.
        """
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    @abstractmethod
    def close(self) -> None:
        """Shut down collectives."""

    @classmethod
    def run_parameter_server(cls, workload: Workload, address: str, workers: int) -> None:
        """Run the parameter server of `update=async` at `address` (`host:port`).

        The server runs until all workers have disconnected or the process is killed.
        """
        raise ValueError(f"update=async: {cls.__name__} has no parameter server. Set update=sync")
