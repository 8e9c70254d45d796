"""All-reduces in TensorFlow: the sum over replicas that trainers call, cut into chunks as there."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from workloads.allreduce.timing import TimedSums
from workloads.allreduce.workload import PERIOD, contribution
from workloads.api import Array
from workloads.frameworks.tensorflow.trainer import TensorFlowTrainer

_TYPES = {"fp32": tf.float32, "bf16": tf.bfloat16, "fp16": tf.float16}


class AllReduceTrainer(TimedSums, TensorFlowTrainer):
    """One tensor on one device, and a function that sums it, for each size."""

    def setup(self, weights: Iterable[tuple[str, Array]], warmup: bool = True) -> None:
        """A period of what is summed; each size has warm-ups of its own, the first of which traces its function."""
        self.build()
        self.kind = _TYPES[self.settings.precision]
        mine, expected = contribution(self.worker.replica_ids[0]), self.workload.expected()
        self.mine, self.expected = (tf.cast(tf.constant(one), self.kind) for one in (mine, expected))
        self.zeros = tf.zeros([PERIOD], self.kind)
        self.size = 0

    def fill(self, size: int, numbers: bool) -> None:
        """A new tensor; for a new size a new function, since one function would forget the shape, which the sum needs."""
        if size != self.size:
            self.size, self.collective = size, self.new_sum()
        self.operand = tf.tile(self.mine if numbers else self.zeros, [size // self.kind.size // PERIOD])

    def reduce(self) -> None:
        """Into a new tensor."""
        (self.result,) = self.collective([self.operand])

    def wrong(self, numbers: bool) -> int:
        """Compared on the device."""
        rows = tf.reshape(self.result, [-1, PERIOD])
        differ = tf.not_equal(rows, self.expected if numbers else self.zeros)
        return int(np.asarray(tf.math.count_nonzero(differ)))
