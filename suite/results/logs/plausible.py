"""Limits of what a log can hold: wide enough for every honest run, so that a figure outside shows a broken or forged log."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from suite.results.logs.events import Event, Problem
from suite.results.logs.record import Evaluation, Throughput
from suite.results.targets import metric_name

NOT_PLAUSIBLE = "not plausible"
"""How a problem begins that makes a run a failed one."""
_COUNT, _SECONDS, _SHARE = (1.0, 1e12), (0.0, 3.2e7), (-1.0, 1.0)
"""A batch or place in training: no data set has 1e12 samples. A time: ten years; the longest published run took 7.3 days. A
fraction; pycocotools gives -1 for an average over nothing."""
_LIMITS: Mapping[str, tuple[float, float]] = {
    "time_ms": (1_262_304_000_000.0, 4_102_444_800_000.0),  # 2010 to 2100: MLPerf began in 2018
    "seconds": (0.002, _SECONDS[1]),  # stamps are in whole milliseconds: within one tick nothing was timed
    "devices": (1.0, 1e6),  # the largest published runs have some 10,000
    "nodes": (1.0, 1e6),
    "cores_per_device": (1.0, 1e6),
    "batch_size_global": _COUNT,
    "global_batch_size": _COUNT,
    "run_index": (0.0, 1e6),
    "runs_required": (0.0, 1e6),
    "timing_warmup_steps": (0.0, 1e12),
    "straggler_ms": (0.0, 1e9),
    "epoch_num": (-1.0, 1e12),  # from -1 in v0.5; BERT's counts samples
    "step": (0.0, 1e12),
    "throughput": (0.0, 1e12),  # samples or tokens per second: 10,000 chips with 1e8 each
    "samples": (0.0, 1e18),
    "train_seconds": _SECONDS,
    "evaluation_seconds": _SECONDS,
    "data_wait_seconds": _SECONDS,
    "top1": _SHARE,
    "map": _SHARE,
    "hr_at_10": _SHARE,
    "BBOX": _SHARE,
    "SEGM": _SHARE,
    "bleu": (0.0, 100.0),
}
"""Key of a log, field of `suite_run` or metric to its lowest and highest value."""


def odd_value(key: str, value: float, line: int) -> Problem | None:
    """The problem of a value outside its limits; None for one inside, and for keys without."""
    low, high = _LIMITS.get(key, (value, value))
    return None if low <= value <= high else Problem(line, f"{NOT_PLAUSIBLE}: {key} = {value:.6g}")


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
    return next((found for figure in figures if (found := odd_value(*figure)) is not None), None)


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
