"""All-reduce benchmark in JAX, with the same all-reduce as in JAX training."""

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
    """All-reduce of one array per device in JAX.

    A separate function is compiled for each array size.
    """

    def setup(self, weights: Iterable[tuple[str, Array]], warmup: bool = True) -> None:
        """Create one period of the array contents.

        The warm-up steps are separate for each array size. The first warm-up step of a size
        compiles the function.
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
        """Create a new array of `size` bytes on each device."""
        period = self.mine if numbers else np.zeros(PERIOD)
        self.total = self.operand = self.per_device(
            np.tile(period.astype(self.kind), size // self.kind.itemsize // PERIOD)
        )

    def reduce(self) -> None:
        """Sum the arrays of all devices into a new array."""
        self.total = self.collective(self.operand)

    def wrong(self, numbers: bool) -> int:
        """Return the number of wrong values in the sums. The host compares the values.

        The correct sums are integers that all precisions represent exactly.
        """
        rows = here(self.total).astype(np.float32).reshape(-1, PERIOD)
        return int(np.count_nonzero(rows != (self.expected if numbers else 0)))
