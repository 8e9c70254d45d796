"""Limits of what a log can hold: wide enough for every honest run, so that a figure outside shows a broken or forged log."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from suite.results.logs.events import Event, Problem
from suite.results.logs.record import Evaluation, Throughput
from suite.results.targets import metric_name
from suite.results.text import clean

NOT_PLAUSIBLE = "not plausible"
"""How a problem begins that makes a run a failed one."""
_ANY = (-math.inf, math.inf)
_LIMITS: Mapping[str, tuple[float, float]] = {
    "time_ms": (1_262_304_000_000.0, 4_102_444_800_000.0),  # 2010 to 2100: MLPerf began in 2018
    "seconds": (
        0.002,
        3.2e7,
    ),  # stamps are whole ms: in one tick nothing was timed; the longest published run took 7.3 days
    **dict.fromkeys(("train_seconds", "evaluation_seconds", "data_wait_seconds"), (0.0, 3.2e7)),
    **dict.fromkeys(
        ("devices", "nodes", "cores_per_device"), (1.0, 1e6)
    ),  # the largest published runs have some 10,000
    **dict.fromkeys(("batch_size_global", "global_batch_size"), (1.0, 1e12)),  # no data set has as many samples
    **dict.fromkeys(("run_index", "runs_required", "straggler_ms", "timing_warmup_steps", "step"), (0.0, 1e12)),
    "epoch_num": (-1.0, 1e12),  # from -1 in v0.5; BERT's counts samples
    "throughput": (0.0, 1e12),  # samples or tokens per second: 10,000 chips with 1e8 each
    "samples": (0.0, 1e18),
    **dict.fromkeys(
        ("top1", "map", "hr_at_10", "BBOX", "SEGM"), (-1.0, 1.0)
    ),  # pycocotools: -1 for a mean over nothing
    "bleu": (0.0, 100.0),
}
"""Key of a log, field of `suite_run` or metric to its lowest and highest value."""


def odd_value(key: str, value: float, line: int) -> Problem | None:
    """The problem of a value outside its limits; None for one inside, and for keys without."""
    low, high = _LIMITS.get(key, _ANY)
    shown = f"{value:.6g}" if isinstance(value, float) else clean(str(value), 24)  # no float may hold an integer
    return None if low <= value <= high else Problem(line, f"{NOT_PLAUSIBLE}: {key} = {shown}")


def first_odd_value(
    clock: Iterable[Event | None],
    seconds: float | None,
    evaluations: Sequence[Evaluation],
    throughput: Sequence[Throughput],
    workload: str,
) -> Problem | None:
    """The problem of the first such figure that a result is made of. `clock`: the records that start and end the run."""
    ticks = [("time_ms", event.time_ms, event.line) for event in clock if event is not None]
    timed = [("seconds", seconds, ticks[-1][2] if ticks else 0)] if seconds is not None else []
    figures = itertools.chain(ticks, timed, _figures(evaluations, throughput, workload))
    for key, value, line in figures:
        low, high = _LIMITS.get(key, _ANY)
        if not low <= value <= high:
            return odd_value(key, value, line)
    return None


def _figures(
    evaluations: Sequence[Evaluation], throughput: Sequence[Throughput], workload: str
) -> Iterator[tuple[str, float, int]]:
    """(key, value, line) of everything measured."""
    for evaluation in evaluations:
        if evaluation.epoch is not None:
            yield "epoch_num", evaluation.epoch, evaluation.line
        for metric, value in evaluation.quality.items():
            yield metric_name(metric, workload), value, evaluation.line
    for block in throughput:
        named = (("step", block.step), ("throughput", block.samples_per_second), ("samples", block.samples))
        timed = (("train_seconds", block.train_seconds), ("evaluation_seconds", block.evaluation_seconds))
        for key, figure in (*named, *timed, ("data_wait_seconds", block.data_wait_seconds)):
            if figure is not None:
                yield key, figure, block.line
        yield from (("throughput", rate, block.line) for rate in block.rates.values())
