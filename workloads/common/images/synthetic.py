"""Synthetic image batches for throughput measurements."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from workloads.api import Array, Batch, DatasetInfo, Settings, WorkerContext
from workloads.common.images.counts import image_shapes
from workloads.common.randomness import bits, stream


class SyntheticData(ABC):
    """Data pipeline (`workloads.api.DataPipeline`) of a few precomputed batches.

    The pipeline reuses the batches without copying. Subclasses define the targets. The batches
    cycle through the model's shapes. In a step, the batches of all replicas have the same shape.
    """

    BATCHES: ClassVar[int]
    """Minimum number of precomputed batches."""
    STREAM: ClassVar[str]
    """Label of the random number stream for the batches."""

    def __init__(
        self, settings: Settings, dataset_info: DatasetInfo, worker: WorkerContext, seed: int
    ) -> None:
        self.settings, self.dataset_info, self.worker = settings, dataset_info, worker
        total = settings.global_batch_size
        count, self.shapes = total // worker.num_replicas, image_shapes(settings.model)
        self.batches = []
        for number in range(-(-self.BATCHES // len(self.shapes)) * len(self.shapes)):
            key = stream(seed, self.STREAM, number)
            self.shape = self.shapes[number % len(self.shapes)]
            shape = (count, *self.shape, 3)
            values = bits(key, 0, np.arange(-(-math.prod(shape) // 8))).view(np.uint8)
            image = values[: math.prod(shape)].reshape(shape)
            arrays: dict[str, Array] = {"image": image, **self.targets(key, count)}
            self.batches.append(Batch(arrays, float(count), float(total), total))

    @abstractmethod
    def targets(self, key: np.uint64, count: int) -> dict[str, Array]:
        """Return the arrays of a batch of `count` images of `self.shape`, except `image`.

        The random numbers must use `key` and a first coordinate of at least 1.
        """

    def train(self, first_step: int, stop_step: int) -> Iterator[list[Batch]]:
        """Yield synthetic batches with the sizes of real batches."""
        for step in range(first_step, stop_step):
            numbers = (step + replica * len(self.shapes) for replica in self.worker.replica_ids)
            yield [self.batches[number % len(self.batches)] for number in numbers]

    def evaluation(self) -> Iterator[list[Batch]]:
        """Return an empty iterator, because synthetic data have no quality metric."""
        return iter(())

    def close(self) -> None:
        self.batches.clear()
