"""Assignment of a step's samples to replicas, and synthetic batches of equal sizes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from workloads.api import Batch, DatasetInfo, Settings, WorkerContext, num_steps
from workloads.common.randomness import bits, integers, stream
from workloads.ncf.sampling import NEGATIVES_PER_POSITIVE

SAMPLES_PER_POSITIVE = 1 + NEGATIVES_PER_POSITIVE


class Sharding:
    """Assignment of the positions of a step's samples to replicas."""

    def __init__(
        self, samples_per_epoch: int, global_batch_size: int, worker: WorkerContext
    ) -> None:
        self.samples_per_epoch = samples_per_epoch
        self.global_batch_size = global_batch_size
        self.worker = worker
        self.steps_per_epoch = num_steps(samples_per_epoch, global_batch_size)

    def size(self, step: int) -> int:
        """Return the number of samples in a step, summed over all replicas."""
        first = step % self.steps_per_epoch * self.global_batch_size
        return min(self.global_batch_size, self.samples_per_epoch - first)

    def padded(self, step: int) -> int:
        """Return the number of samples per replica in a step, including padding samples."""
        return -(-self.size(step) // self.worker.num_replicas)

    def positions(self, step: int, replica: int) -> range:
        """Return the positions of a replica's samples within the epoch.

        If the last step of the epoch is short, the range may be empty.
        """
        first = step % self.steps_per_epoch * self.global_batch_size
        size, share = self.size(step), self.padded(step)
        return range(first + min(replica * share, size), first + min((replica + 1) * share, size))


class SyntheticNCFData:
    """Synthetic batches with ML-20M's sizes, for throughput measurements.

    A few batches are generated once and returned in rotation.
    """

    BATCHES = 4

    def __init__(
        self, settings: Settings, dataset_info: DatasetInfo, worker: WorkerContext, seed: int
    ) -> None:
        self.worker = worker
        samples_per_epoch = dataset_info.train_samples * SAMPLES_PER_POSITIVE
        self.sharding = Sharding(samples_per_epoch, settings.global_batch_size, worker)
        self.steps_per_epoch = self.sharding.steps_per_epoch
        size = self.sharding.padded(0)
        self.batches = []
        for number in range(self.BATCHES):
            key, index = stream(seed, "ncf synthetic", number), np.arange(size)
            arrays = {
                "user": integers(bits(key, 0, index), dataset_info.sizes["users"]).astype(np.int32),
                "item": integers(bits(key, 1, index), dataset_info.sizes["items"]).astype(np.int32),
                "label": (np.arange(size) % SAMPLES_PER_POSITIVE == 0).astype(np.float32),
                "weight": np.ones(size, np.float32),
            }
            self.batches.append(arrays)

    def train(self, first_step: int, stop_step: int) -> Iterator[list[Batch]]:
        """Yield batches with the same sizes as real batches and random contents."""
        for step in range(first_step, stop_step):
            total, padded = self.sharding.size(step), self.sharding.padded(step)
            batches = []
            for replica in self.worker.replica_ids:
                real = len(self.sharding.positions(step, replica))
                arrays = {
                    name: array[:padded]
                    for name, array in self.batches[(step + replica) % self.BATCHES].items()
                }
                if real < padded:
                    arrays["weight"] = (np.arange(padded) < real).astype(np.float32)
                batches.append(Batch(arrays, float(real), float(total), total))
            yield batches

    def evaluation(self) -> Iterator[list[Batch]]:
        """Return an empty iterator, because synthetic data is not evaluated."""
        return iter(())

    def close(self) -> None:
        """Do nothing, because synthetic batches use no threads or files."""
