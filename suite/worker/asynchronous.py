"""`update=async` in the loop: how far a stretch of steps goes, what is added up at its end, and the histogram of staleness.

A step of the schedule is as many updates as there are workers, whoever makes them: a slow worker makes fewer, and nobody waits
for it before the end of a stretch (an epoch, or the steps up to the next evaluation). There all workers meet, pull the same
weights, and evaluate them together, each its part, as under `update=sync`. Up to workers - 1 updates more than asked for may be
under way when the last one is counted.

Each worker goes through its own share of every batch of the run, at its own pace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from workloads.api import Array, Batch, Exchange, Json, Trainer, TrainStats, WorkerContext

_SUMS = ("steps", "loss", "samples", "data_bytes")


def own_batches(batches: Iterable[list[Batch]]) -> Iterator[list[Batch]]:
    """What one worker trains on: its share of each batch as a batch by itself, whose loss is a mean; no empty ones."""
    for (batch,) in batches:
        if batch.weight > 0:
            share = batch.weight / batch.weight_global
            counts = {unit: round(count * share) for unit, count in batch.counts_global.items()}
            samples = round(batch.samples_global * share)
            yield [replace(batch, weight_global=batch.weight, samples_global=samples, counts_global=counts)]


class Asynchronous:
    """What the loop of one worker does between two pulls, and what process 0 learns of the others."""

    def __init__(self, trainer: Trainer, worker: WorkerContext) -> None:
        self.trainer, self.worker = trainer, worker
        self.staleness: Counter[int] = Counter()
        """Of all updates, in process 0."""
        self.updates = [0] * worker.world_size
        """Of each worker, in process 0."""

    @property
    def exchange(self) -> Exchange:
        assert self.trainer.exchange is not None, f"{type(self.trainer).__name__} made no exchange"
        return self.trainer.exchange

    def until(self, stop_step: int, steps: Iterator[list[Batch]]) -> Iterator[list[Batch]]:
        """Batches, each after a pull, until all workers together have made the updates of steps 0 … stop_step - 1."""
        while self.exchange.pull() < stop_step * self.worker.world_size:
            batch = next(steps, None)
            if batch is None:
                return
            yield batch

    def meet(self, stats: TrainStats, samples: int, data_bytes: int) -> tuple[TrainStats, int, int] | None:
        """Collective, after a stretch: wait for all, and pull what all have made.

        `stats` hold the mean loss of this worker's own updates. In process 0 (stats, samples, bytes of data) of all; elsewhere
        None.
        """
        staleness = self.exchange.staleness
        mine = {
            "steps": np.array([stats.steps]),
            "loss": np.array([stats.loss * stats.steps]),
            "samples": np.array([samples]),
            "data_bytes": np.array([data_bytes]),
            "staleness": np.array([*staleness], np.int64),
            "updates": np.array([*staleness.values()], np.int64),
        }
        gathered = self.trainer.gather(mine)
        staleness.clear()
        self.trainer.broadcast(0.0)  # until process 0 has gathered from everyone nobody goes on
        self.exchange.pull()
        return None if gathered is None else self._added(gathered)

    def _added(self, gathered: Iterable[dict[str, Array] | object]) -> tuple[TrainStats, int, int]:
        sums = dict.fromkeys(_SUMS, 0.0)
        for worker, arrays in enumerate(gathered):
            assert isinstance(arrays, dict)
            for name in sums:
                sums[name] += float(arrays[name][0])
            for staleness, count in zip(arrays["staleness"].tolist(), arrays["updates"].tolist(), strict=True):
                self.staleness[staleness] += count
                self.updates[worker] += count
        steps = int(sums["steps"])
        return TrainStats(steps, sums["loss"] / max(steps, 1)), int(sums["samples"]), int(sums["data_bytes"])

    def clear(self) -> None:
        """Forget what was counted: those steps were to warm up."""
        self.staleness.clear()
        self.updates = [0] * self.worker.world_size

    def statistics(self, seconds: float) -> dict[str, Json]:
        """For the log: updates of all and of each worker, in all and per second of `seconds`; staleness and its histogram."""
        total = sum(self.staleness.values())
        return {
            "updates": total,
            "updates_of_workers": list(self.updates),
            "updates_per_second_of_workers": [round(count / max(seconds, 1e-9), 6) for count in self.updates],
            "mean": round(sum(value * count for value, count in self.staleness.items()) / max(total, 1), 6),
            "most": max(self.staleness, default=0),
            "histogram": {str(value): self.staleness[value] for value in sorted(self.staleness)},
        }
