"""All-reduce benchmark in TensorFlow, with the all-reduce of TensorFlow training.

The buffer is split into the same chunks as in training.
"""

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
    """All-reduce of one tensor per device in TensorFlow.

    Each size has a separate tensor and a separate function.
    """

    def setup(self, weights: Iterable[tuple[str, Array]], warmup: bool = True) -> None:
        """Create one period of the tensor contents.

        The warm-up steps are separate for each size. The first warm-up step of a size traces the
        function.
        """
        self.build()
        self.kind = _TYPES[self.settings.precision]
        mine, expected = contribution(self.worker.replica_ids[0]), self.workload.expected()
        self.mine, self.expected = (
            tf.cast(tf.constant(period), self.kind) for period in (mine, expected)
        )
        self.zeros = tf.zeros([PERIOD], self.kind)
        self.size = 0

    def fill(self, size: int, numbers: bool) -> None:
        """Create a new tensor. If the size changes, create a new function, too.

        The all-reduce requires a static shape, but a single function for all sizes would have a
        dynamic shape.
        """
        if size != self.size:
            self.size, self.collective = size, self.new_sum()
        self.operand = tf.tile(
            self.mine if numbers else self.zeros, [size // self.kind.size // PERIOD]
        )

    def reduce(self) -> None:
        """Sum the tensors of all devices into a new tensor."""
        (self.result,) = self.collective([self.operand])

    def wrong(self, numbers: bool) -> int:
        """Return the number of wrong values in the sums.

        The devices compare the values.
        """
        rows = tf.reshape(self.result, [-1, PERIOD])
        differ = tf.not_equal(rows, self.expected if numbers else self.zeros)
        return int(np.asarray(tf.math.count_nonzero(differ)))
