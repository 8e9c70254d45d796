"""A training step against what a GPU can do: operations, bytes by operator, the milliseconds that
they bound. Prints JSON.

    python -m benchmarks.gpu.roofline RUN_FOLDER …      folders with a run.json, of runs on one GPU or on the null device

Bytes are what each operator reads and writes; of tables only the rows that it takes; caches are not
modelled. All is the mean of ten batches: sentences differ in length. A bound in milliseconds: of
each operator the larger of operations at half of the card's peak in the run's precision and of
bytes at 80 % of its bandwidth, added up. On a null device also its counts, and `host_ms`: the
median step, which is the host's part alone.
"""

from __future__ import annotations

import collections
import itertools
import json
import statistics
import time
from typing import Any

from benchmarks.gpu.runs import ready, typed
from suite.common.runspec import RunSpec
from testing import null_counts

CARDS = {"H200": (990.0, 4.8), "H100": (990.0, 3.35), "A100 80GB": (312.0, 2.0)}
"""Name to TFLOP/s in bf16 without sparsity and TB/s; NVIDIA's data sheets of SXM cards."""
OF_BF16 = {"bf16": 1.0, "fp16": 1.0, "tf32": 0.5, "fp32": 1 / 15}
"""Rate of a precision as a share of bf16's."""
RATE, BANDWIDTH = 0.5, 0.8
AHEAD, STEPS, SHOWN = 3, 10, 12


def step(run: RunSpec) -> dict[str, Any]:
    """Measure the training step of a run and compute its bounds."""
    from torch.utils.flop_counter import FlopCounterMode

    from benchmarks.gpu.traffic import Traffic

    seconds: list[float] = []
    with ready(run) as (trainer, _, batches):
        items = list(itertools.islice(batches, AHEAD + STEPS))
        trainer.train(items[:AHEAD], 0)
        null_counts.reset()
        for (batch,) in items[AHEAD:]:
            begin = time.perf_counter()
            trainer.step(batch, 1e-4)
            seconds.append(time.perf_counter() - begin)
        counted = null_counts.summed(null_counts.counts(), STEPS)
        traffic, counter = Traffic(), FlopCounterMode(display=False)
        with traffic.with_triton(), counter, traffic:
            for (batch,) in items[AHEAD:]:
                trainer.step(batch, 1e-4)
    total = counter.get_flop_counts()["Global"]
    operations = {str(kind).rpartition(".")[2]: number / STEPS for kind, number in total.items()}
    moved = collections.Counter({name: size // STEPS for name, size in traffic.bytes.items()})
    found = {
        "tflop": round(sum(operations.values()) / 1e12, 2),
        "gb": round(moved.total() / 1e9, 1),
        "gb_by_operator": {name: round(size / 1e9, 2) for name, size in moved.most_common(SHOWN)},
        "bound_ms": {
            card: _bound(card, run.settings.precision, operations, moved) for card in CARDS
        },
    }
    if counted:
        to_device = counted.get("bytes host to device, pinned", 0) / 1e6
        found |= {
            "launches": counted["launches"],
            "waits": counted.get("wait", 0),
            "mb_to_device": round(to_device, 2),
        }
        found["host_ms"] = round(statistics.median(seconds) * 1e3, 1)
    return found


def _bound(
    card: str, precision: str, operations: dict[str, float], moved: collections.Counter[str]
) -> float:
    rate, bandwidth = CARDS[card]
    rate *= 1e12 * RATE * OF_BF16[precision]
    names = {*operations, *moved}
    seconds = (
        max(operations.get(name, 0) / rate, moved[name] / (bandwidth * 1e12 * BANDWIDTH))
        for name in names
    )
    return round(sum(seconds) * 1e3, 1)


if __name__ == "__main__":
    for folder, planned in typed(__doc__):
        found = {
            "run": str(folder),
            "workload": planned.settings.workload,
            "precision": planned.settings.precision,
        }
        print(json.dumps(found | step(planned)), flush=True)
