"""Evaluate a model.

The devices predict, threads compute the per-sample results, and rank 0 gathers the results and
computes the metrics.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from suite.worker.heartbeat import INTERVAL_SECONDS, HeartbeatWriter
from workloads.api import Arrays, DataPipeline, Json, Trainer, Workload


def evaluate(
    workload: Workload,
    trainer: Trainer,
    data: DataPipeline,
    heartbeat: HeartbeatWriter,
    patience_seconds: float,
) -> dict[str, float] | None:
    """Return the value of each metric on rank 0, and None on all other ranks.

    All ranks must call this function (collective call).

    Args:
        workload: The workload, which computes the per-sample results and the metrics.
        trainer: The trainer, which predicts.
        data: The source of evaluation batches.
        heartbeat: The heartbeat of this worker.
        patience_seconds: Maximum duration of gathering and scoring before the watchdog may report a
            hang.
    """
    local = merge(measured(workload, trainer, data, heartbeat))
    with keep_alive(heartbeat, patience_seconds):
        gathered = trainer.gather(local)
    if gathered is None:
        return None
    with keep_alive(heartbeat, patience_seconds):
        return workload.compute_metrics(merge(gathered))


def targets_reached(
    scores: Mapping[str, float], targets: Mapping[str, float], falling_metrics: Collection[str] = ()
) -> bool:
    """Return True if every metric has reached its target.

    Returns False if there are no targets.

    Args:
        scores: Value of each metric. NaN does not reach any target.
        targets: Target of each metric.
        falling_metrics: Metrics whose value must be at or below the target. The values of all other
            metrics must be at or above their targets.
    """
    return bool(targets) and all(
        scores[metric] <= target if metric in falling_metrics else scores[metric] >= target
        for metric, target in targets.items()
    )


def eval_accuracy_value(scores: Mapping[str, float], targets: Mapping[str, float]) -> Json:
    """Return the value of `eval_accuracy` in the log.

    If a single metric has a target, the value is a number. If several metrics have targets, the
    value is an object with these metrics. If no metric has a target, the value is an object with
    all metrics.
    """
    names = [name for name in targets if name in scores] or list(scores)
    return scores[names[0]] if len(names) == 1 else {name: scores[name] for name in names}


def measured(
    workload: Workload, trainer: Trainer, data: DataPipeline, heartbeat: HeartbeatWriter
) -> Iterator[Arrays]:
    """Yield the per-sample results of each evaluation batch, in order.

    Threads compute the results while the devices predict the next batches.
    """
    outputs = trainer.predict(data.evaluation())
    if not workload.measure_threads:
        for batch, output in outputs:
            heartbeat.update()
            yield workload.eval_batch_metrics(batch, output)
        return
    with ThreadPoolExecutor(workload.measure_threads, "measure") as pool:
        waiting: deque[Future[Arrays]] = deque()
        for batch, output in outputs:
            heartbeat.update()
            waiting.append(pool.submit(workload.eval_batch_metrics, batch, output))
            # The limit on the number of waiting outputs also limits the host memory that they use.
            if len(waiting) > workload.measure_threads:
                yield waiting.popleft().result()
        for result in waiting:
            heartbeat.update()
            yield result.result()


@contextlib.contextmanager
def keep_alive(heartbeat: HeartbeatWriter, patience_seconds: float) -> Iterator[None]:
    """Update the heartbeat in the background while the `with` block runs.

    The updates stop after `patience_seconds`. They are needed because the block is a single long
    call that cannot update the heartbeat.
    """
    ended = threading.Event()

    def update() -> None:
        for _ in range(int(patience_seconds / INTERVAL_SECONDS)):
            if ended.wait(INTERVAL_SECONDS):
                return
            heartbeat.update()

    thread = threading.Thread(target=update, name="keep-alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def merge(parts: Iterable[Arrays]) -> dict[str, np.ndarray]:
    """Concatenate the per-sample arrays of batches or workers along the first axis."""
    kept = [part for part in parts if part]
    return {
        name: np.concatenate([part[name] for part in kept]) for name in (kept[0] if kept else {})
    }
