"""All-reduce benchmark in MXNet.

A KVStore sums flat gradients over the contexts of one process.
"""

from __future__ import annotations

from collections.abc import Iterable

import mxnet as mx
import numpy as np

from workloads.allreduce.timing import TimedSums
from workloads.allreduce.workload import PERIOD, contribution
from workloads.api import Array
from workloads.frameworks.mxnet.optimizers.reduction import GradientSum
from workloads.frameworks.mxnet.trainer import MXNetTrainer, memory_errors

_TYPES = {"fp32": "float32", "fp16": "float16"}


class AllReduceTrainer(TimedSums, MXNetTrainer):
    """All-reduce of the first bytes of a buffer on each MXNet context."""

    def setup(self, weights: Iterable[tuple[str, Array]], warmup: bool = True) -> None:
        """Allocate the buffers.

        The warm-up steps are separate for each size.
        """
        self.kind = _TYPES[self.settings.precision]
        self.item_bytes = np.dtype(self.kind).itemsize
        count, self.size = self.workload.sizes[-1] // self.item_bytes, 0
        with memory_errors():
            self.buffers = [
                mx.nd.zeros((count,), ctx=context, dtype=self.kind) for context in self.contexts
            ]
            self.periods = [
                [
                    mx.nd.array(period, ctx=context, dtype=self.kind)
                    for period in (contribution(replica), self.workload.expected())
                ]
                for replica, context in zip(self.worker.replica_ids, self.contexts, strict=True)
            ]
            self.synchronize()

    def fill(self, size: int, numbers: bool) -> None:
        """Fill the first `size` bytes of each buffer.

        If the size changes, a new KVStore is created, because the buffer of a KVStore has a fixed
        size.
        """
        count = size // self.item_bytes
        with memory_errors():
            if size != self.size:
                self.size, self.parts = size, [buffer[:count] for buffer in self.buffers]
                self.sum = GradientSum(self.parts, sharded=False)
            for part, (mine, _) in zip(self.parts, self.periods, strict=True):
                part[:] = mx.nd.tile(mine, count // PERIOD) if numbers else 0

    def reduce(self) -> None:
        """Enqueue an in-place all-reduce of the filled bytes."""
        self.sum.reduce()

    def wrong(self, numbers: bool) -> int:
        """Return the number of wrong values in the sums.

        Each context compares its values.
        """
        differ = (
            mx.nd.broadcast_not_equal(
                part.reshape((-1, PERIOD)),
                (expected if numbers else expected * 0).reshape((1, PERIOD)),
            )
            for part, (_, expected) in zip(self.parts, self.periods, strict=True)
        )
        return sum(int(values.astype("float32").sum().asscalar()) for values in differ)
