"""Quality of a run: its targets and evaluations, and whether it succeeded."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from suite.results.logs.events import Event, Problem, Remarks, number, numbers
from suite.results.logs.lenient_json import read_lenient_json
from suite.results.logs.record import Evaluation, RunSettings
from suite.results.names import workload_name
from suite.results.targets import OFFICIAL_TARGETS, QUALITY_PAIRS
from suite.results.text import clean
from workloads.api import Json


@dataclass(frozen=True)
class RunClock:
    """The records between which a run is timed."""

    start: Event | None
    """`run_start`."""
    end: Event | None
    """The record that ended the run: `run_stop`, or `eval_result` (MiniGo of v0.6). Later evaluations do not count."""
    seconds: float | None
    """Time of the run by the rule of its round."""
    claimed: str | None = None
    """What the log says of its success: `success`, `aborted`, …; None: nothing."""


def targets_of_run(
    settings: RunSettings, log_format: str, logged: Event | None, remarks: Remarks
) -> tuple[Mapping[str, float], str]:
    """(targets, their source: `log`, `rules` or empty). `logged`: the first `quality_target`."""
    if settings.profile:
        return settings.targets, "log" if settings.targets else ""
    if logged is not None:
        targets = read_quality(logged, {}, settings.workload, remarks)
        if targets:
            return targets, "log"
        remarks.add(logged.line, "the quality target holds no number")
    official = OFFICIAL_TARGETS.get(log_format, {}).get(_rules_name(settings.workload), {})
    return official, "rules" if official else ""


def is_retinanet(benchmark: str, values: Mapping[str, Json]) -> bool:
    """True for a log under the name `ssd` of v2.0 or later, which is RetinaNet on Open Images and not SSD on COCO.

    The rules of `ssd` ask for `model_bn_span` and a warm-up in steps up to v1.1, for Adam and a warm-up in epochs from v2.0 on
    (mlperf-logging, training_1.1.0 and training_2.0.0/closed_ssd.yaml). `values`: the first of each key.
    """
    if benchmark != "ssd" or "model_bn_span" in values:
        return False
    samples, batch = (number(values.get(key)) for key in ("train_samples", "global_batch_size"))
    # 1,170,301 training images; NVIDIA's code logs the batches that they make
    images = samples is not None and any(abs(samples * n - 1_170_301) <= 2 * n for n in (1.0, batch or 1.0))
    return images or values.get("opt_name") == "adam" or "opt_learning_rate_warmup_epochs" in values


def _rules_name(benchmark: str) -> str:
    """The rules' name of a benchmark: Mask R-CNN goes by several in logs."""
    return "maskrcnn" if workload_name(benchmark) == "maskrcnn" else benchmark


def bleu_targets_in_log_scale(
    targets: Mapping[str, float], source: str, evaluations: Sequence[Evaluation], remarks: Remarks
) -> Mapping[str, float]:
    """The targets in the scale of the log: BLEU is a fraction by the rules of v0.7, but some logs hold points."""
    target = targets.get("bleu", 1.0)
    above = [evaluation for evaluation in evaluations if evaluation.quality.get("bleu", 0.0) > 1.0]
    if source != "rules" or target >= 1.0 or not above:
        return targets
    remarks.add(above[0].line, f"BLEU in points: the target is taken as {100 * target:g}")
    return {"bleu": 100.0 * target}


def read_evaluations(
    events: list[Event], clock: RunClock, targets: Mapping[str, float], benchmark: str, remarks: Remarks
) -> tuple[Evaluation, ...]:
    """The evaluations of the run, in order of time; what is left out or tolerated goes to `remarks`.

    Empties `events`, the `epoch_start` and `eval_accuracy`: a log may hold a million, too many to keep in both forms.
    """
    begin = clock.start.time_ms if clock.start else 0.0
    evaluations: list[Evaluation] = []
    begun: set[float] = set()
    events.sort(key=lambda event: event.time_ms)
    events.reverse()
    while events:
        event = events.pop()
        epoch = number(event.metadata.get("epoch_num"))
        if event.key == "epoch_start":
            begun.add(event.mark if epoch is None else epoch)
            continue
        quality = read_quality(event, targets, benchmark, remarks)
        if not quality:
            remarks.add(event.line, "eval_accuracy holds no number")
        elif event.time_ms < begin:
            remarks.add(event.line, "eval_accuracy before run_start is not used")
        elif clock.end is not None and event.time_ms > clock.end.time_ms:
            remarks.add(event.line, "eval_accuracy after run_stop is not used")
        else:
            evaluations.append(Evaluation(event.line, (event.time_ms - begin) / 1000.0, epoch, len(begun), quality))
    return tuple(evaluations)


def read_quality(event: Event, targets: Mapping[str, float], benchmark: str, remarks: Remarks) -> dict[str, float]:
    """Metric name to value of a number, text, list, pair or object; empty if it holds no number.

    One bare number takes the name of the one target. What was converted goes to `remarks`.
    """
    value = _value_inside_text(event, remarks)
    name = next(iter(targets)) if len(targets) == 1 else "quality"
    if isinstance(value, dict):
        inner = value.get("accuracy")
        value = inner if isinstance(inner, dict) else value  # v0.6 Mask R-CNN
        quality = numbers(value)
        if any(isinstance(value[metric], str) for metric in quality):
            remarks.add(event.line, f"{event.key} holds text, read as the number in it")
        if len(quality) == len(targets) == 1 and name not in quality:
            [(other, figure)] = quality.items()
            remarks.add(event.line, f"{event.key} names its number {clean(other, 40)}, taken as {name}")
            return {name: figure}
        return quality
    if isinstance(value, list):
        return _quality_from_list(event, value, name, benchmark, remarks)
    single = number(value)
    return {} if single is None else {name: single}


def _value_inside_text(event: Event, remarks: Remarks) -> Json:
    """The value of a record; a number or list inside a text (`"[0.324]"`, `"75.9%"`) is read, with a remark."""
    if not isinstance(event.value, str):
        return event.value
    try:
        inner, end, _ = read_lenient_json(event.value, 0)
    except ValueError:
        return event.value
    if event.value[end:].strip() or isinstance(inner, str):
        return event.value
    remarks.add(event.line, f"{event.key} holds text, read as the number in it")
    return inner


def _quality_from_list(
    event: Event, value: Sequence[Json], name: str, benchmark: str, remarks: Remarks
) -> dict[str, float]:
    """Quality from `[0.76]`, `[0.377, 0.339]` (box, mask) or `[["BBOX", 0.377], …]`; empty for any other list."""
    figures = [figure for item in value if (figure := number(item)) is not None]
    names = QUALITY_PAIRS.get(_rules_name(benchmark), ())
    if len(value) == len(figures) == 1:
        remarks.add(event.line, f"{event.key} holds a list of one number")
        return {name: figures[0]}
    if len(value) == len(figures) == len(names):
        remarks.add(event.line, f"{event.key} holds a pair, read as {' and '.join(names)}")
        return dict(zip(names, figures, strict=True))
    pairs = [item for item in value if isinstance(item, list) and len(item) == 2 and isinstance(item[0], str)]
    quality = numbers(dict(pairs)) if len(pairs) == len(value) else {}
    if quality:
        remarks.add(event.line, f"{event.key} holds a list of pairs, read as name and number")
    return quality


def first_that_meets(targets: Mapping[str, float], evaluations: Sequence[Evaluation]) -> int | None:
    """Number (from 0) of the first evaluation that reaches every target, be it as the nearest float32 below it; None: none."""
    # what a program that computes in float32 holds for a target: 0.63499999 for 0.635
    least = {metric: min(target, ctypes.c_float(target).value) for metric, target in targets.items()}
    met = (all(one.quality.get(metric, -math.inf) >= low for metric, low in least.items()) for one in evaluations)
    return next((index for index, reached in enumerate(met) if reached), None) if targets else None


def run_status(
    clock: RunClock, settings: RunSettings, has_targets: bool, reached: bool, problems: list[Problem]
) -> tuple[str, str]:
    """(status, reason) of a log with records; its claim of success is checked against its evaluations."""
    end, claimed = clock.end, clock.claimed
    if end is None:
        return "truncated", "the log has no run_stop"
    if clock.start is None or clock.seconds is None:
        return "failed", "no run_start" if clock.start is None else "the run has no time"
    if end.key == "eval_result":
        return ("success", "") if reached else ("failed", "no evaluation up to eval_result reaches the target")
    if claimed is None:
        if settings.profile or not reached:
            problems.append(Problem(end.line, "run_stop has no status"))
        return ("success", "") if reached else ("failed", "run_stop has no status and no target was reached")
    if claimed == "success":
        if settings.to_target and has_targets and not reached:
            return "failed", "run_stop says success, but no evaluation reaches the target"
        return "success", ""
    if reached and settings.to_target:
        problems.append(Problem(end.line, f"run_stop says {clean(claimed, 40)}, but an evaluation reaches the target"))
    reason = end.metadata.get("reason")
    if not isinstance(reason, str) or not reason:
        reason = "target not reached" if settings.to_target else ""
    return "failed" if claimed in ("failed", "fail") else "aborted", reason
