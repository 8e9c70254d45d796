"""All-reduce benchmark in JAX, which uses the trainers' sum over replicas."""

from __future__ import annotations

from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np

from workloads.allreduce.timing import TimedSums
from workloads.allreduce.workload import PERIOD, contribution
from workloads.api import Array
from workloads.frameworks.jax.trainer import AXIS, PER_DEVICE, JaxTrainer, here

_TYPES = {"fp32": jnp.float32, "bf16": jnp.bfloat16}


class AllReduceTrainer(TimedSums, JaxTrainer):
    """All-reduce of an array per device. A separate function is compiled for each size."""

    def setup(self, weights: Iterable[tuple[str, Array]], warmup: bool = True) -> None:
        """Create one period of the values to sum.

        Each size has warm-up steps. The first warm-up step of a size compiles the function.
        """
        self.kind = np.dtype(_TYPES[self.settings.precision])
        self.mine, self.expected = (
            contribution(self.worker.replica_ids[0]),
            self.workload.expected(),
        )
        self.collective = self.mapped(
            lambda array: jax.lax.psum(array, AXIS), (PER_DEVICE,), PER_DEVICE
        )

    def fill(self, size: int, numbers: bool) -> None:
        """Create a new array of `size` bytes."""
        period = self.mine if numbers else np.zeros(PERIOD)
        self.total = self.operand = self.per_device(
            np.tile(period.astype(self.kind), size // self.kind.itemsize // PERIOD)
        )

    def reduce(self) -> None:
        """Sum the operand into a new array."""
        self.total = self.collective(self.operand)

    def wrong(self, numbers: bool) -> int:
        """Return the number of wrong values. The values are compared on the host.

        The values are integers that each of the types represents exactly.
        """
        rows = here(self.total).astype(np.float32).reshape(-1, PERIOD)
        return int(np.count_nonzero(rows != (self.expected if numbers else 0)))
