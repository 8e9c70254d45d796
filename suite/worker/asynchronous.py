"""Asynchronous updates in the training loop (`update=async`).

The module synchronizes the workers at the end of each interval of steps, sums the statistics of all
workers, and counts staleness.

With W workers, a step of the learning-rate schedule consists of W updates. Any worker may compute
any of these updates, so a slow worker computes fewer updates than a fast worker. No worker waits
for a slow worker before the end of an interval, which is the end of an epoch or the next
evaluation. At the end of an interval, all workers synchronize and pull the same weights. Each
worker then evaluates a shard of the evaluation set, as under `update=sync`. When the last requested
update is counted, up to W - 1 further updates may be in progress.

Each worker iterates over its shard of every batch of the run at its individual speed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from workloads.api import (
    Array,
    Batch,
    Json,
    ParameterServerClient,
    Trainer,
    TrainStats,
    WorkerContext,
)

_SUMS = ("steps", "loss", "samples", "data_bytes")


def local_batches(batches: Iterable[list[Batch]]) -> Iterator[list[Batch]]:
    """Yield this worker's shard of each batch as a separate batch.

    Empty shards are skipped.

    The global weight of a yielded batch is the weight of the shard, so that its loss is the mean
    over the shard.

    Args:
        batches: For each step, a list that contains the shard of this worker's only device.
    """
    for (batch,) in batches:
        if batch.weight_sum > 0:
            share = batch.weight_sum / batch.global_weight_sum
            counts = {unit: round(count * share) for unit, count in batch.global_counts.items()}
            samples = round(batch.global_samples * share)
            yield [
                replace(
                    batch,
                    global_weight_sum=batch.weight_sum,
                    global_samples=samples,
                    global_counts=counts,
                )
            ]


class Asynchronous:
    """Asynchronous updates of one worker.

    The instance on rank 0 also collects the statistics of all workers.
    """

    def __init__(self, trainer: Trainer, worker: WorkerContext) -> None:
        self.trainer, self.worker = trainer, worker
        self.staleness: Counter[int] = Counter()
        """Histogram of the staleness of all workers' updates. Only rank 0 fills the histogram."""
        self.updates = [0] * worker.world_size
        """Number of updates of each worker. Only rank 0 fills the list."""

    @property
    def exchange(self) -> ParameterServerClient:
        """Return the trainer's client of the parameter server."""
        assert self.trainer.exchange is not None, f"{type(self.trainer).__name__} made no exchange"
        return self.trainer.exchange

    def until(self, stop_step: int, steps: Iterator[list[Batch]]) -> Iterator[list[Batch]]:
        """Yield batches until all workers together have reached `stop_step`.

        The workers have reached `stop_step` when they have computed all updates of the earlier
        steps. The method pulls the newest weights before each batch.
        """
        while self.exchange.pull() < stop_step * self.worker.world_size:
            batch = next(steps, None)
            if batch is None:
                return
            yield batch

    def sync_workers(
        self, stats: TrainStats, samples: int, data_bytes: int
    ) -> tuple[TrainStats, int, int] | None:
        """Wait for all workers at the end of an interval, and pull the final weights.

        The final weights include all updates of the interval. All workers must call this method
        (collective call).

        Args:
            stats: Number of this worker's steps in the interval, and the mean loss of its updates.
            samples: Number of samples on which this worker trained.
            data_bytes: Size in bytes of the batches on which this worker trained.

        Returns:
            On rank 0, the statistics, samples, and bytes of all workers. On all other ranks, None.
        """
        staleness = self.exchange.staleness
        local = {
            "steps": np.array([stats.steps]),
            "loss": np.array([stats.loss * stats.steps]),
            "samples": np.array([samples]),
            "data_bytes": np.array([data_bytes]),
            "staleness": np.array([*staleness], np.int64),
            "updates": np.array([*staleness.values()], np.int64),
        }
        gathered = self.trainer.gather(local)
        staleness.clear()
        # This barrier makes all workers wait until rank 0 has received the statistics of all
        # workers.
        self.trainer.broadcast(0.0)
        self.exchange.pull()
        return None if gathered is None else self._added(gathered)

    def _added(self, gathered: Iterable[dict[str, Array] | object]) -> tuple[TrainStats, int, int]:
        sums = dict.fromkeys(_SUMS, 0.0)
        for worker, arrays in enumerate(gathered):
            assert isinstance(arrays, dict)
            for name in sums:
                sums[name] += float(arrays[name][0])
            for staleness, count in zip(
                arrays["staleness"].tolist(), arrays["updates"].tolist(), strict=True
            ):
                self.staleness[staleness] += count
                self.updates[worker] += count
        steps = int(sums["steps"])
        return (
            TrainStats(steps, sums["loss"] / max(steps, 1)),
            int(sums["samples"]),
            int(sums["data_bytes"]),
        )

    def clear(self) -> None:
        """Reset the statistics after the warm-up steps, which are not measured."""
        self.staleness.clear()
        self.updates = [0] * self.worker.world_size

    def statistics(self, seconds: float) -> dict[str, Json]:
        """Return the statistics of the asynchronous updates for the log.

        Args:
            seconds: Training time, from which the updates per second of each worker are computed.

        Returns:
            The total number of updates, the number of updates and the updates per second of each
            worker, the mean and maximum staleness, and the staleness histogram.
        """
        total = sum(self.staleness.values())
        return {
            "updates": total,
            "updates_of_workers": list(self.updates),
            "updates_per_second_of_workers": [
                round(count / max(seconds, 1e-9), 6) for count in self.updates
            ],
            "mean": round(
                sum(value * count for value, count in self.staleness.items()) / max(total, 1), 6
            ),
            "most": max(self.staleness, default=0),
            "histogram": {str(value): self.staleness[value] for value in sorted(self.staleness)},
        }
