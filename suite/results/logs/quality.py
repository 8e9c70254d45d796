"""Quality: targets, evaluations, whether a run succeeded, and after how many epochs."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from suite.results.logs.events import Event, Problem, Remarks, number
from suite.results.logs.lenient_json import read_loose
from suite.results.logs.record import Evaluation, RunSettings
from suite.results.targets import OFFICIAL, PAIRS
from suite.results.text import clean
from workloads.api import Json

_FLOAT32 = 1e-6
"""Relative rounding of a quality that was computed in float32 and logged as a double."""
_OPEN_IMAGES = 1_000_000
"""More training samples than this under the name `ssd`: RetinaNet on Open Images (v2.0 on), not SSD on COCO."""
_BEGUN = ("MLPv0.5.0", "MLPerf")
"""Formats that label epochs from 0, 1 or -1: there the epochs begun are counted."""


@dataclass(frozen=True)
class Clock:
    """The records between which a run is timed."""

    start: Event | None
    """`run_start`."""
    end: Event | None
    """The record that ended the run: `run_stop`, or `eval_result` (MiniGo of v0.6). Later evaluations do not count."""
    seconds: float | None
    """Time of the run by the rule of its round."""


def find_targets(
    settings: RunSettings, benchmark: str, log_format: str, first: Mapping[str, Event], remarks: Remarks
) -> tuple[Mapping[str, float], str]:
    """(targets, their source: `log`, `rules` or empty). `first` holds the first record of each key."""
    if settings.profile:
        return settings.targets, "log" if settings.targets else ""
    logged = first.get("quality_target")
    if logged is not None:
        found = read_quality(logged, {}, benchmark, remarks)
        if found:
            return found, "log"
        remarks.add(logged.line, "the quality target holds no number")
    samples = number(first["train_samples"].value) if "train_samples" in first else None
    if benchmark == "ssd" and samples is not None and samples > _OPEN_IMAGES:
        remarks.add(
            first["train_samples"].line, "RetinaNet on Open Images under the name ssd: its target is not known here"
        )
        return {}, ""
    official = OFFICIAL.get(log_format, {}).get(benchmark, {})
    return official, "rules" if official else ""


def in_points(
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
    events: Sequence[Event], clock: Clock, targets: Mapping[str, float], benchmark: str, remarks: Remarks
) -> tuple[Evaluation, ...]:
    """The evaluations up to the end of the run, in order of time; what is left out or tolerated goes to `remarks`."""
    begin = clock.start.time_ms if clock.start else 0.0
    found: list[Evaluation] = []
    begun: set[str] = set()
    relevant = (event for event in events if event.key in ("epoch_start", "eval_accuracy"))
    for event in sorted(relevant, key=lambda event: event.time_ms):
        epoch = number(event.metadata.get("epoch_num"))
        if event.key == "epoch_start":
            begun.add(event.text if epoch is None else str(epoch))
            continue
        quality = read_quality(event, targets, benchmark, remarks)
        if not quality:
            remarks.add(event.line, "eval_accuracy holds no number")
        elif clock.end is not None and event.time_ms > clock.end.time_ms:
            remarks.add(event.line, "eval_accuracy after run_stop is not used")
        else:
            found.append(Evaluation(event.line, (event.time_ms - begin) / 1000.0, epoch, len(begun), quality))
    return tuple(found)


def read_quality(event: Event, targets: Mapping[str, float], benchmark: str, remarks: Remarks) -> dict[str, float]:
    """Metric name to value of a number, text, list, pair or object; empty if it holds no number.

    One bare number takes the name of the one target. What was converted goes to `remarks`.
    """
    value = _plain(event, remarks)
    if isinstance(value, dict):
        inner = value.get("accuracy")
        if isinstance(inner, dict):  # v0.6 Mask R-CNN
            value = inner
        numbers = {str(name): number(item) for name, item in value.items()}
        found = {name: item for name, item in numbers.items() if item is not None}
        if any(isinstance(value[name], str) for name in found):
            remarks.add(event.line, f"{event.key} holds text, read as the number in it")
        if len(found) == len(targets) == 1 and found.keys() != targets.keys():
            remarks.add(
                event.line,
                f"{event.key} names its number {clean(next(iter(found)), 40)}, taken as {next(iter(targets))}",
            )
            return {next(iter(targets)): next(iter(found.values()))}
        return found
    single = number(value)
    name = next(iter(targets)) if len(targets) == 1 else "quality"
    if single is not None:
        return {name: single}
    return _from_list(event, value, name, benchmark, remarks) if isinstance(value, list) else {}


def _plain(event: Event, remarks: Remarks) -> Json:
    """The value of a record; what stands inside a text (`"[0.324]"`, `"75.9%"`) is read, and said so."""
    value = event.value
    if not isinstance(value, str):
        return value
    try:
        inner, end, _ = read_loose(value, 0)
    except ValueError:
        return value
    if value[end:].strip() or isinstance(inner, str):
        return value
    remarks.add(event.line, f"{event.key} holds text, read as the number in it")
    return inner


def _from_list(event: Event, value: Sequence[Json], name: str, benchmark: str, remarks: Remarks) -> dict[str, float]:
    """`[0.76]`, `[0.377, 0.339]` (box, mask) or `[["BBOX", 0.377], …]`; empty for any other list: nothing is guessed."""
    numbers = [number(item) for item in value]
    names = PAIRS.get(benchmark, ())
    if len(value) == 1 and numbers[0] is not None:
        remarks.add(event.line, f"{event.key} holds a list of one number")
        return {name: numbers[0]}
    if len(value) == len(names) and None not in numbers:
        remarks.add(event.line, f"{event.key} holds a pair, read as {' and '.join(names)}")
        return {one: item for one, item in zip(names, numbers, strict=True) if item is not None}
    found: dict[str, float] = {}
    for item in value:
        if not (isinstance(item, list) and len(item) == 2 and isinstance(item[0], str)):
            return {}
        figure = number(item[1])
        if figure is not None:
            found[item[0]] = figure
    if found:
        remarks.add(event.line, f"{event.key} holds a list of pairs, read as name and number")
    return found


def met(quality: Mapping[str, float], targets: Mapping[str, float]) -> bool:
    """True if every target is reached, up to float32 rounding; False without targets."""
    return bool(targets) and all(
        metric in quality and quality[metric] >= target - _FLOAT32 * abs(target) for metric, target in targets.items()
    )


def judge(
    clock: Clock,
    settings: RunSettings,
    targets: Mapping[str, float],
    evaluations: Sequence[Evaluation],
    problems: list[Problem],
) -> tuple[str, str]:
    """(status, reason) of a log that holds records; what it claims is held against its evaluations."""
    end = clock.end
    if end is None:
        return "truncated", "the log has no run_stop"
    reached = any(met(evaluation.quality, targets) for evaluation in evaluations)
    claimed = end.metadata.get("status")
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
    status = "failed" if claimed == "failed" else "aborted"
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
    """Epochs trained at the first evaluation that meets the targets; None if none does.

    v0.5 labels epochs from 0, 1 or -1, so there the epochs begun are counted; later logs are labelled from 1, and where
    such a log labels from 0, one is added.
    """
    hit = next((evaluation for evaluation in evaluations if met(evaluation.quality, targets)), None)
    if hit is None:
        return None
    if any(hit.quality[metric] < target for metric, target in targets.items()):
        remarks.add(hit.line, "reaches the target only up to float32 rounding")
    if log_format in _BEGUN:
        return float(hit.epochs_begun + _unrecorded(evaluations, remarks))
    if hit.epoch is None:
        return None
    started = (number(event.metadata.get("epoch_num")) for event in events if event.key == "epoch_start")
    if _lowest(started) == 0 and _lowest(evaluation.epoch for evaluation in evaluations) == 0:
        remarks.add(evaluations[0].line, "epochs are labelled from 0: counted as one more")
        return hit.epoch + 1
    return hit.epoch


def _lowest(labels: Iterable[float | None]) -> float | None:
    return min((label for label in labels if label is not None), default=None)


def _unrecorded(evaluations: Sequence[Evaluation], remarks: Remarks) -> int:
    """1 where a first epoch has no record: an evaluation labelled -1 as late after run_start as one epoch takes; else 0."""
    times = [evaluation.seconds for evaluation in evaluations]
    if len(times) < 3 or evaluations[0].epoch != -1 or evaluations[0].epochs_begun:
        return 0
    typical = statistics.median(late - early for early, late in itertools.pairwise(times))
    if times[0] < typical / 2:  # an evaluation of the untrained model
        return 0
    remarks.add(
        evaluations[0].line, "epochs are labelled from -1 and the first has no train_epoch record: it is counted"
    )
    return 1
