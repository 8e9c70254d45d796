"""All-reduces in JAX: the sum over replicas that trainers call."""

from __future__ import annotations

from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np

from workloads.allreduce.timing import TimedSums
from workloads.allreduce.workload import PERIOD, contribution
from workloads.api import Array
from workloads.frameworks.jax.trainer import AXIS, OWN, JaxTrainer, here

_TYPES = {"fp32": jnp.float32, "bf16": jnp.bfloat16}


class AllReduceTrainer(TimedSums, JaxTrainer):
    """One array on one device, and one function, which is compiled for each size."""

    def setup(self, weights: Iterable[tuple[str, Array]], warmup: bool = True) -> None:
        """A period of what is summed; each size has warm-ups of its own, the first of which compiles."""
        self.kind = np.dtype(_TYPES[self.settings.precision])
        self.mine, self.expected = contribution(self.worker.replica_ids[0]), self.workload.expected()
        self.collective = self.mapped(lambda array: jax.lax.psum(array, AXIS), (OWN,), OWN)

    def fill(self, size: int, numbers: bool) -> None:
        """A new array."""
        period = self.mine if numbers else np.zeros(PERIOD)
        self.total = self.operand = self.own(np.tile(period.astype(self.kind), size // self.kind.itemsize // PERIOD))

    def reduce(self) -> None:
        """Into a new array."""
        self.total = self.collective(self.operand)

    def wrong(self, numbers: bool) -> int:
        """Compared on the host: whole numbers that each of the types holds."""
        rows = here(self.total).astype(np.float32).reshape(-1, PERIOD)
        return int(np.count_nonzero(rows != (self.expected if numbers else 0)))
