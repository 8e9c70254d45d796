"""Limits of plausible values in logs.

The values of all published runs are within these limits, so a value outside the limits indicates a
broken or forged log.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from suite.results.logs.events import Problem, ProblemCode
from suite.results.logs.quality import RunClock
from suite.results.logs.record import Evaluation, Throughput
from suite.results.targets import metric_name
from suite.results.text import clean

_LIMITS: Mapping[str, tuple[float, float]] = {
    # the years 2010 to 2100 (MLPerf began in 2018)
    "time_ms": (1_262_304_000_000.0, 4_102_444_800_000.0),
    # Time stamps are whole milliseconds, so a run of 1 ms cannot be timed. The longest published
    # run lasted 7.3 days.
    "seconds": (0.002, 3.2e7),
    **dict.fromkeys(("train_seconds", "evaluation_seconds", "data_wait_seconds"), (0.0, 3.2e7)),
    # The largest published runs have about 10,000 devices.
    **dict.fromkeys(("devices", "nodes", "cores_per_device"), (1.0, 1e6)),
    **dict.fromkeys(
        ("global_batch_size", "global_batch_size"), (1.0, 1e12)
    ),  # no data set has this many samples
    **dict.fromkeys(
        ("run_index", "runs_required", "straggler_ms", "timing_warmup_steps", "step"), (0.0, 1e12)
    ),
    # In v0.5, epoch labels start at -1. BERT logs a number of samples instead of epochs.
    "epoch_num": (-1.0, 1e12),
    # samples or tokens per second: 10,000 devices with 1e8 per second each
    "throughput": (0.0, 1e12),
    "samples": (0.0, 1e18),
    **dict.fromkeys(
        ("top1", "map", "hr_at_10", "BBOX", "SEGM"), (-1.0, 1.0)
    ),  # pycocotools returns -1 if there are no detections
    "bleu": (0.0, 100.0),
}
"""Lowest and highest plausible value of log keys, fields of `suite_run`, and metrics."""


def odd_value(key: str, value: float | None, line: int) -> Problem | None:
    """Return a problem if a value is outside the limits of its key.

    Returns None for a plausible value and for keys without limits.
    """
    low, high = _LIMITS.get(key, (-math.inf, math.inf))
    if value is None or low <= value <= high:
        return None
    shown = (
        f"{value:.6g}" if isinstance(value, float) else clean(str(value), 24)
    )  # the integer may exceed the range of a float
    return Problem(line, ProblemCode.NOT_PLAUSIBLE, f"not plausible: {key} = {shown}")


def first_odd_value(
    clock: RunClock,
    evaluations: Sequence[Evaluation],
    throughput: Sequence[Throughput],
    workload: str,
) -> list[Problem]:
    """Return a list with the problem of the first measurement outside its limits.

    The list is empty if all measurements are plausible.
    """
    figures = itertools.starmap(odd_value, _figures(clock, evaluations, throughput, workload))
    return list(itertools.islice(filter(None, figures), 1))


def _figures(
    clock: RunClock,
    evaluations: Sequence[Evaluation],
    throughput: Sequence[Throughput],
    workload: str,
) -> Iterator[tuple[str, float | None, int]]:
    """Yield the key, value, and line number of each measurement."""
    ends = [event for event in (clock.start, clock.end) if event is not None]
    yield from (("time_ms", event.time_ms, event.line) for event in ends)
    yield "seconds", clock.seconds, ends[-1].line if ends else 0
    for evaluation in evaluations:
        yield "epoch_num", evaluation.epoch, evaluation.line
        for metric, value in evaluation.quality.items():
            yield metric_name(metric, workload), value, evaluation.line
    for block in throughput:
        yield from (
            ("throughput", rate, block.line)
            for rate in (block.samples_per_second, *block.rates.values())
        )
        for key in ("step", "samples", "train_seconds", "evaluation_seconds", "data_wait_seconds"):
            yield key, getattr(block, key), block.line
