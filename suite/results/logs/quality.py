"""Quality of a run: its targets and evaluations, and whether it succeeded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from suite.results.directions import improves_as_it_falls, meets
from suite.results.logs.events import Event, Problem, Remarks, not_finite, number, numbers
from suite.results.logs.lenient_json import read_lenient_json
from suite.results.logs.record import Evaluation, RunSettings
from suite.results.names import workload_name
from suite.results.targets import OFFICIAL_TARGETS, QUALITY_PAIRS
from suite.results.text import clean
from workloads.api import Json

_SAME_MOMENT_MS = 10.0
"""An evaluation may be stamped this much later than the `run_stop` that follows from it. HugeCTR rounds its stamps to 10 ms."""


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


@dataclass(frozen=True)
class Evaluations:
    """The evaluations in a log."""

    used: tuple[Evaluation, ...] = ()
    """Those of the run that hold a finite number, in order of time."""
    last_quality: Mapping[str, float] = field(default_factory=dict)
    """Of the last evaluation of the run, also if it is not finite: NaN after a diverged run."""
    logged: bool = False
    """True if the log has an evaluation with a number, also outside the run. Some benchmarks evaluate after `run_stop`."""
    reached: int | None = None
    """Number (from 0) of the first evaluation that reaches every target; None: no evaluation does, or there is no target."""

    @property
    def diverged(self) -> str:
        """`NaN` if the last evaluation holds no finite number; empty if it does."""
        return next((quality_text(value) for value in self.last_quality.values() if not math.isfinite(value)), "")


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
) -> Evaluations:
    """Return the evaluations of the run, in order of time; what is left out or tolerated goes to `remarks`.

    Empties `events`, the `epoch_start` and `eval_accuracy`: a log may hold a million, too many to keep in both forms.
    """
    begin = clock.start.time_ms if clock.start else 0.0
    last_ms = clock.end.time_ms + _SAME_MOMENT_MS if clock.end else math.inf
    evaluations: list[Evaluation] = []
    last_quality: Mapping[str, float] = {}
    logged = False
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
        finite = {metric: value for metric, value in quality.items() if math.isfinite(value)}
        logged = logged or bool(finite)
        during_run = begin <= event.time_ms <= last_ms
        if during_run and quality:
            last_quality = quality
        if not quality or event.value is None:
            remarks.add(event.line, "eval_accuracy holds no number")
        elif len(finite) < len(quality):
            value = next(value for value in quality.values() if not math.isfinite(value))
            remarks.add(event.line, f"eval_accuracy is {quality_text(value)}")
        if not quality:
            continue
        if event.time_ms < begin:
            remarks.add(event.line, "eval_accuracy before run_start is not used")
        elif event.time_ms > last_ms:
            remarks.add(event.line, "eval_accuracy after run_stop is not used")
        elif finite:
            evaluations.append(Evaluation(event.line, (event.time_ms - begin) / 1000.0, epoch, len(begun), finite))
    return Evaluations(tuple(evaluations), last_quality, logged)


def quality_text(value: float) -> str:
    """Return a value for messages: `0.7591`, `NaN`, `inf`."""
    return "NaN" if math.isnan(value) else f"{value:.4g}"


def read_quality(event: Event, targets: Mapping[str, float], benchmark: str, remarks: Remarks) -> dict[str, float]:
    """Return metric name to value of a number, text, list, pair or object; an empty mapping if it holds no number.

    One bare number takes the name of the one target. Null, NaN, and infinity are values of an evaluation that has diverged.
    What was converted goes to `remarks`.
    """
    value = _value_inside_text(event, remarks)
    name = _metric_of_number(event, targets)
    if isinstance(value, dict):
        inner = value.get("accuracy")
        value = inner if isinstance(inner, dict) else value  # v0.6 Mask R-CNN
        quality = numbers(value)
        if event.key == "eval_accuracy":
            quality |= {
                str(metric): figure for metric, item in value.items() if (figure := not_finite(item)) is not None
            }
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
    if single is None and event.key == "eval_accuracy":
        single = not_finite(value)
    return {} if single is None else {name: single}


def _metric_of_number(event: Event, targets: Mapping[str, float]) -> str:
    """Return the metric's name of a bare number: the name of the only target, or the name that the record has."""
    metric = event.metadata.get("metric")  # Stable Diffusion: FID and CLIP in records of their own
    if len(targets) == 1:
        return next(iter(targets))
    return metric if isinstance(metric, str) and metric else "quality"


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
    if event.key == "eval_accuracy" and len(figures) < len(value):
        either = [number(item) if number(item) is not None else not_finite(item) for item in value if item is not None]
        figures = [figure for figure in either if figure is not None]
    names = QUALITY_PAIRS.get(_rules_name(benchmark), ())
    if len(value) == len(figures) == 1:
        remarks.add(event.line, f"{event.key} holds a list of one number")
        return {name: figures[0]}
    if len(value) == len(figures) == len(names):
        remarks.add(event.line, f"{event.key} holds a pair, read as {' and '.join(names)}")
        return dict(zip(names, figures, strict=True))
    pairs = [item for item in value if isinstance(item, list) and len(item) == 2 and isinstance(item[0], str)]
    quality = numbers(dict(pairs)) if pairs and len(pairs) == len(value) else {}
    if quality:
        remarks.add(event.line, f"{event.key} holds a list of pairs, read as name and number")
    return quality


def first_that_meets(
    targets: Mapping[str, float], evaluations: Sequence[Evaluation], benchmark: str = ""
) -> int | None:
    """Return the number (from 0) of the first evaluation that reaches every target; None if no evaluation does.

    `benchmark` decides whether a metric improves as it rises or as it falls.
    """
    falls = {metric: improves_as_it_falls(metric, benchmark) for metric in targets}
    if not targets:
        return None
    for index, evaluation in enumerate(evaluations):
        quality = evaluation.quality
        if all(metric in quality and meets(quality[metric], targets[metric], falls[metric]) for metric in targets):
            return index
    return None


def is_rounded(targets: Mapping[str, float], quality: Mapping[str, float], benchmark: str) -> bool:
    """Return True if a quality that meets all targets meets one of them only as rounded to float32."""
    for metric, target in targets.items():
        value = quality[metric]
        if value > target if improves_as_it_falls(metric, benchmark) else value < target:
            return True
    return False


def run_status(
    clock: RunClock, settings: RunSettings, has_targets: bool, evaluations: Evaluations, problems: list[Problem]
) -> tuple[str, str]:
    """Return (status, reason) of a log with records. Its claim of success is checked against its evaluations."""
    end, claimed = clock.end, clock.claimed
    reached = evaluations.reached is not None
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
        refuted = _why_no_success(has_targets, evaluations) if settings.to_target else ""
        return ("failed", f"run_stop says success, but {refuted}") if refuted else ("success", "")
    if reached and settings.to_target:
        problems.append(Problem(end.line, f"run_stop says {clean(claimed, 40)}, but an evaluation reaches the target"))
    reason = end.metadata.get("reason")
    if not isinstance(reason, str) or not reason:
        reason = "target not reached" if settings.to_target else ""
        if evaluations.diverged and settings.to_target:
            reason = f"diverged: the last evaluation is {evaluations.diverged}"
    return "failed" if claimed in ("failed", "fail") else "aborted", reason


def _why_no_success(has_targets: bool, evaluations: Evaluations) -> str:
    """Return what contradicts a claim of success; an empty string if nothing does."""
    if evaluations.reached is not None:
        return ""
    if evaluations.diverged:
        return f"the last evaluation is {evaluations.diverged}"
    if not evaluations.logged:
        return "the log has no evaluation"
    return "no evaluation reaches the target" if has_targets else ""
