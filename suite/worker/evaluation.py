"""One evaluation: predict on the device, measure beside it, gather, score; signs of life all the while."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from suite.worker.heartbeat import INTERVAL_SECONDS, HeartbeatWriter
from workloads.api import Arrays, Data, Trainer, Workload


def evaluate(
    workload: Workload, trainer: Trainer, data: Data, heartbeat: HeartbeatWriter, patience_seconds: float
) -> dict[str, float] | None:
    """Metric name to value in process 0, None in the others. Every process calls it.

    `patience_seconds`: for so long scoring, and in the other processes waiting for it, counts as progress.
    """
    local = merge(measured(workload, trainer, data, heartbeat))
    with alive(heartbeat, patience_seconds):
        gathered = trainer.gather(local)
    if gathered is None:
        return None
    with alive(heartbeat, patience_seconds):
        return workload.score(merge(gathered))


def measured(workload: Workload, trainer: Trainer, data: Data, heartbeat: HeartbeatWriter) -> Iterator[Arrays]:
    """Results of each evaluation batch, in order, whether threads measure them beside the device or not."""
    outputs = trainer.predict(data.evaluation())
    if not workload.measure_threads:
        for batch, output in outputs:
            heartbeat.update()
            yield workload.measure(batch, output)
        return
    with ThreadPoolExecutor(workload.measure_threads, "measure") as pool:
        waiting: deque[Future[Arrays]] = deque()
        for batch, output in outputs:
            heartbeat.update()
            waiting.append(pool.submit(workload.measure, batch, output))
            if len(waiting) > workload.measure_threads:  # bounds the memory of outputs
                yield waiting.popleft().result()
        for result in waiting:
            heartbeat.update()
            yield result.result()


@contextlib.contextmanager
def alive(heartbeat: HeartbeatWriter, patience_seconds: float) -> Iterator[None]:
    """Beats for up to `patience_seconds` while the block runs: it is one long call that cannot beat itself."""
    ended = threading.Event()

    def beat() -> None:
        for _ in range(int(patience_seconds / INTERVAL_SECONDS)):
            if ended.wait(INTERVAL_SECONDS):
                return
            heartbeat.update()

    thread = threading.Thread(target=beat, name="alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def merge(parts: Iterable[Arrays]) -> dict[str, np.ndarray]:
    """Per-sample arrays of many batches or processes, joined along the first axis."""
    kept = [part for part in parts if part]
    return {name: np.concatenate([part[name] for part in kept]) for name in (kept[0] if kept else {})}
