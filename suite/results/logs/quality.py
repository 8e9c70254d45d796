"""Quality of a run: its targets and evaluations, whether it succeeded, and after how many epochs."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from suite.results.logs.epochs import epochs_at
from suite.results.logs.events import Event, Problem, Remarks, number
from suite.results.logs.lenient_json import read_lenient_json
from suite.results.logs.record import Evaluation, RunSettings
from suite.results.names import workload_name
from suite.results.targets import OFFICIAL_TARGETS, QUALITY_PAIRS
from suite.results.text import clean
from workloads.api import Json

_OPEN_IMAGES_SAMPLES = 1_170_301
"""Training images of RetinaNet; logs have them under `train_samples`, or the batches that they make (NVIDIA's code)."""


@dataclass(frozen=True)
class RunClock:
    """The records between which a run is timed."""

    start: Event | None
    """`run_start`."""
    end: Event | None
    """The record that ended the run: `run_stop`, or `eval_result` (MiniGo of v0.6). Later evaluations do not count."""
    seconds: float | None
    """Time of the run by the rule of its round."""
    claimed: Json = None
    """What the log says of its success: `success`, `aborted`, …; None: nothing."""


def targets_of_run(
    settings: RunSettings, log_format: str, first: Mapping[str, Event], remarks: Remarks
) -> tuple[Mapping[str, float], str]:
    """(targets, their source: `log`, `rules` or empty). `first` holds the first record of each key."""
    benchmark = settings.workload
    if settings.profile:
        return settings.targets, "log" if settings.targets else ""
    logged = first.get("quality_target")
    if logged is not None:
        targets = read_quality(logged, {}, benchmark, remarks)
        if targets:
            return targets, "log"
        remarks.add(logged.line, "the quality target holds no number")
    official = OFFICIAL_TARGETS.get(log_format, {}).get(_rules_name(benchmark), {})
    return official, "rules" if official else ""


def is_retinanet(benchmark: str, first: Mapping[str, Event]) -> bool:
    """True for a log under the name `ssd` of v2.0 or later, which is RetinaNet on Open Images and not SSD on COCO.

    The rules of `ssd` ask for `model_bn_span` and a warm-up in steps up to v1.1, for Adam and a warm-up in epochs from v2.0 on
    (mlperf-logging, training_1.1.0 and training_2.0.0/closed_ssd.yaml).
    """
    if benchmark != "ssd" or "model_bn_span" in first:
        return False
    samples, batch = (
        number(first[key].value) if key in first else None for key in ("train_samples", "global_batch_size")
    )
    images = samples is not None and any(
        abs(samples * size - _OPEN_IMAGES_SAMPLES) <= 2 * size for size in (1.0, batch or 1.0)
    )
    adam = "opt_name" in first and first["opt_name"].value == "adam"
    return images or adam or "opt_learning_rate_warmup_epochs" in first


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
    if isinstance(value, dict):
        inner = value.get("accuracy")
        if isinstance(inner, dict):  # v0.6 Mask R-CNN
            value = inner
        numbers = {str(name): number(item) for name, item in value.items()}
        quality = {name: item for name, item in numbers.items() if item is not None}
        if any(isinstance(value[name], str) for name in quality):
            remarks.add(event.line, f"{event.key} holds text, read as the number in it")
        if len(quality) == len(targets) == 1 and quality.keys() != targets.keys():
            remarks.add(
                event.line,
                f"{event.key} names its number {clean(next(iter(quality)), 40)}, taken as {next(iter(targets))}",
            )
            return {next(iter(targets)): next(iter(quality.values()))}
        return quality
    single = number(value)
    name = next(iter(targets)) if len(targets) == 1 else "quality"
    if single is not None:
        return {name: single}
    return _quality_from_list(event, value, name, benchmark, remarks) if isinstance(value, list) else {}


def _value_inside_text(event: Event, remarks: Remarks) -> Json:
    """The value of a record; a number or list inside a text (`"[0.324]"`, `"75.9%"`) is read, with a remark."""
    value = event.value
    if not isinstance(value, str):
        return value
    try:
        inner, end, _ = read_lenient_json(value, 0)
    except ValueError:
        return value
    if value[end:].strip() or isinstance(inner, str):
        return value
    remarks.add(event.line, f"{event.key} holds text, read as the number in it")
    return inner


def _quality_from_list(
    event: Event, value: Sequence[Json], name: str, benchmark: str, remarks: Remarks
) -> dict[str, float]:
    """Quality from `[0.76]`, `[0.377, 0.339]` (box, mask) or `[["BBOX", 0.377], …]`; empty for any other list."""
    numbers = [number(item) for item in value]
    names = QUALITY_PAIRS.get(_rules_name(benchmark), ())
    if len(value) == 1 and numbers[0] is not None:
        remarks.add(event.line, f"{event.key} holds a list of one number")
        return {name: numbers[0]}
    if len(value) == len(names) and None not in numbers:
        remarks.add(event.line, f"{event.key} holds a pair, read as {' and '.join(names)}")
        return {one: item for one, item in zip(names, numbers, strict=True) if item is not None}
    quality: dict[str, float] = {}
    for item in value:
        if not (isinstance(item, list) and len(item) == 2 and isinstance(item[0], str)):
            return {}
        figure = number(item[1])
        if figure is not None:
            quality[item[0]] = figure
    if quality:
        remarks.add(event.line, f"{event.key} holds a list of pairs, read as name and number")
    return quality


def meets_targets(quality: Mapping[str, float], targets: Mapping[str, float]) -> bool:
    """True if every target is reached, be it as the nearest float32 below it; False without targets."""
    return bool(targets) and all(
        metric in quality and (quality[metric] >= target or quality[metric] >= _as_float32(target))
        for metric, target in targets.items()
    )


def _as_float32(value: float) -> float:
    """What a program that computes in float32 holds for `value` (0.635: 0.63499999)."""
    return ctypes.c_float(value).value


def run_status(
    clock: RunClock,
    settings: RunSettings,
    targets: Mapping[str, float],
    evaluations: Sequence[Evaluation],
    problems: list[Problem],
) -> tuple[str, str]:
    """(status, reason) of a log with records; its claim of success is checked against its evaluations."""
    end = clock.end
    if end is None:
        return "truncated", "the log has no run_stop"
    if clock.start is None or clock.seconds is None:
        return "failed", "no run_start" if clock.start is None else "the run has no time"
    reached = any(meets_targets(evaluation.quality, targets) for evaluation in evaluations)
    claimed = clock.claimed
    if end.key == "eval_result":
        return ("success", "") if reached else ("failed", "no evaluation up to eval_result reaches the target")
    if not isinstance(claimed, str):
        if settings.profile or not reached:
            problems.append(Problem(end.line, "run_stop has no status"))
        return ("success", "") if reached else ("failed", "run_stop has no status and no target was reached")
    if claimed == "success":
        if settings.to_target and targets and not reached:
            return "failed", "run_stop says success, but no evaluation reaches the target"
        return "success", ""
    reason = end.metadata.get("reason")
    status = "failed" if claimed in ("failed", "fail") else "aborted"
    if reached and settings.to_target:
        problems.append(Problem(end.line, f"run_stop says {clean(claimed, 40)}, but an evaluation reaches the target"))
    if isinstance(reason, str) and reason:
        return status, reason
    return status, "target not reached" if settings.to_target else ""


def epochs_to_target(
    log_format: str,
    events: Sequence[Event],
    targets: Mapping[str, float],
    evaluations: Sequence[Evaluation],
    remarks: Remarks,
) -> float | None:
    """Epochs trained at the first evaluation that meets the targets; None if none does, or the log contradicts itself."""
    reached = next(
        (index for index, evaluation in enumerate(evaluations) if meets_targets(evaluation.quality, targets)), None
    )
    if reached is None:
        return None
    first_reached = evaluations[reached]
    if any(first_reached.quality[metric] < target for metric, target in targets.items()):
        remarks.add(first_reached.line, "reaches the target only up to float32 rounding")
    return epochs_at(reached, log_format, events, evaluations, remarks)
