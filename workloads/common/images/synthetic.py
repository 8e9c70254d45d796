"""Made-up batches of images, for throughput alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from workloads.api import Batch, Place
from workloads.common.randomness import bits


def random_pixels(key: np.uint64, count: int, size: int) -> npt.NDArray[np.uint8]:
    """(count, size, size, 3) uniform bytes, by hash."""
    total = count * size * size * 3
    return bits(key, 0, np.arange(-(-total // 8))).view(np.uint8)[:total].reshape(count, size, size, 3)


class SyntheticData:
    """`workloads.api.Data` of a few batches, made once and handed out in turn, never copied."""

    def __init__(self, place: Place, batches: Sequence[Batch]) -> None:
        self.place, self.batches = place, batches

    def train(self, first_step: int, stop_step: int) -> Iterator[list[Batch]]:
        """Batches of the real sizes; which made-up images they hold means nothing."""
        for step in range(first_step, stop_step):
            yield [self.batches[(step + replica) % len(self.batches)] for replica in self.place.replicas]

    def evaluation(self) -> Iterator[list[Batch]]:
        """Nothing: made-up data has no quality."""
        return iter(())

    def close(self) -> None:
        """Nothing to release."""
