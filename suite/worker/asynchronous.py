"""The part of the loop for `update=async`.

It ends each interval of steps, adds up its statistics, and counts staleness.

A step of the schedule is W updates, if there are W workers. Any worker may compute any of these
updates, so a slow worker computes fewer. No worker waits for a slow worker before the end of an
interval, which is the end of an epoch or the next evaluation. At the end of an interval, all
workers synchronize, pull the same weights, and each evaluate a part of the evaluation set, as under
`update=sync`. When the last requested update is counted, up to W - 1 further updates may be in
progress.

Each worker iterates over its share of every batch of the run, at its speed.
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
    """Yield the share of each batch that this worker trains on, as a separate batch.

    Empty shares are skipped.

    The weight of a yielded batch is its global weight, so its loss is the mean over the share.

    Args:
        batches: The batches of the run, each with the part of this worker's single device.
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
    """Runs the asynchronous updates of a worker.

    On rank 0, it also collects the statistics of all workers.
    """

    def __init__(self, trainer: Trainer, worker: WorkerContext) -> None:
        self.trainer, self.worker = trainer, worker
        self.staleness: Counter[int] = Counter()
        """Histogram of the staleness of all workers' updates. Only filled on rank 0."""
        self.updates = [0] * worker.world_size
        """Number of updates of each worker. Only filled on rank 0."""

    @property
    def exchange(self) -> ParameterServerClient:
        """The connection of the trainer to the parameter server."""
        assert self.trainer.exchange is not None, f"{type(self.trainer).__name__} made no exchange"
        return self.trainer.exchange

    def until(self, stop_step: int, steps: Iterator[list[Batch]]) -> Iterator[list[Batch]]:
        """Yield batches until the workers together have done all updates before `stop_step`.

        The newest weights are pulled before each batch.
        """
        while self.exchange.pull() < stop_step * self.worker.world_size:
            batch = next(steps, None)
            if batch is None:
                return
            yield batch

    def sync_workers(
        self, stats: TrainStats, samples: int, data_bytes: int
    ) -> tuple[TrainStats, int, int] | None:
        """Wait at the end of an interval for all workers, and pull the weights with all updates.

        This is a collective call.

        Args:
            stats: Steps of this worker in the interval, and the mean loss of its updates.
            samples: Number of samples that this worker trained on.
            data_bytes: Size of the arrays that this worker trained on, in bytes.

        Returns:
            The statistics, samples, and bytes of all workers on rank 0, and None on the remaining
            ranks.
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
        # No worker continues until rank 0 has the results of all workers.
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
        """Reset the counts after the warm-up steps, which are not measured."""
        self.staleness.clear()
        self.updates = [0] * self.worker.world_size

    def statistics(self, seconds: float) -> dict[str, Json]:
        """Return the statistics for the log.

        Args:
            seconds: Training time, for the updates per second of each worker.

        Returns:
            The number of updates in total and of each worker, the updates per second of each
            worker, the mean and the maximum of the staleness, and its histogram.
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
