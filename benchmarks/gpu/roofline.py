"""Compare a training step with the limits of a GPU.

    python -m benchmarks.gpu.roofline RUN_FOLDER …

Each RUN_FOLDER contains the run.json of a run on a single GPU or on the stub CUDA driver.

The output is JSON with the floating-point operations of a step, the bytes that each operator reads
and writes, and lower bounds of the step time in milliseconds. For an embedding table, only the
bytes of the accessed rows are counted. Caches are not modeled. All numbers are means over ten
batches, because sentences differ in length. The lower bound of a step is the sum of the lower
bounds of all operators. The lower bound of an operator is the larger of its compute time and its
memory time. The compute time is the operator's operations divided by half of the card's peak rate
in the run's precision. The memory time is the operator's bytes divided by 80 % of the card's
bandwidth. On the stub driver, the output also contains the driver's counters and `host_ms`: the
median step time, which is only the time of the host.
"""

from __future__ import annotations

import collections
import itertools
import json
import statistics
import time
from typing import Any

from benchmarks.gpu.runs import ready, runs_from_command_line
from suite.common.runspec import RunSpec
from testing import null_counts

CARDS = {"H200": (990.0, 4.8), "H100": (990.0, 3.35), "A100 80GB": (312.0, 2.0)}
"""Maps the name of an SXM card to the pair (TFLOP/s in bf16 without sparsity, memory bandwidth in
TB/s). Source: NVIDIA's data sheets.
"""
OF_BF16 = {"bf16": 1.0, "fp16": 1.0, "tf32": 0.5, "fp32": 1 / 15}
"""Peak rate in each precision, relative to bf16."""
RATE, BANDWIDTH = 0.5, 0.8
AHEAD, STEPS, SHOWN = 3, 10, 12


def step(run: RunSpec) -> dict[str, Any]:
    """Measure the training step of a run, and compute its lower bounds."""
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
    for folder, planned in runs_from_command_line(__doc__):
        found = {
            "run": str(folder),
            "workload": planned.settings.workload,
            "precision": planned.settings.precision,
        }
        print(json.dumps(found | step(planned)), flush=True)
