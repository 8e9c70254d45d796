"""Quality: evaluations, targets, whether a run succeeded, and after how many epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from suite.results.lines import Event, Problem, number
from suite.results.record import Evaluation, RunSettings
from suite.results.targets import OFFICIAL
from workloads.api import Json

_FLOAT32 = 1e-6
"""Relative rounding of a quality that was computed in float32 and logged as a double."""


def find_targets(
    settings: RunSettings, benchmark: str, log_format: str, logged: Event | None
) -> tuple[Mapping[str, float], str]:
    """(targets, their source: `log`, `rules` or empty). `logged` is a v0.5 `eval_target`."""
    if settings.profile:
        return settings.targets, "log" if settings.targets else ""
    target = number(logged.value) if logged is not None else None
    if target is not None:
        return {"quality": target}, "log"
    official = OFFICIAL.get(log_format, {}).get(benchmark, {})
    return official, "rules" if official else ""


def read_evaluations(
    events: Sequence[Event],
    start: Event | None,
    stop: Event | None,
    targets: Mapping[str, float],
    problems: list[Problem],
) -> tuple[Evaluation, ...]:
    """The evaluations at or before `run_stop`, in order of time; what is left out is added to `problems`."""
    begin = start.time_ms if start else 0.0
    found: list[Evaluation] = []
    begun: set[str] = set()
    for event in sorted(events, key=lambda event: event.time_ms):
        if event.key == "epoch_start":
            epoch = number(event.metadata.get("epoch_num"))
            begun.add(event.text if epoch is None else str(epoch))
        if event.key != "eval_accuracy":
            continue
        quality = _quality(event.value, targets)
        if not quality:
            problems.append(Problem(event.line, "eval_accuracy holds no number"))
        elif stop is not None and event.time_ms > stop.time_ms:
            problems.append(Problem(event.line, "eval_accuracy after run_stop is not used"))
        else:
            epoch = number(event.metadata.get("epoch_num"))
            found.append(Evaluation(event.line, (event.time_ms - begin) / 1000.0, epoch, len(begun), quality))
    return tuple(found)


def _quality(value: Json, targets: Mapping[str, float]) -> dict[str, float]:
    """Metric name to value; one bare number takes the name of the one target."""
    if isinstance(value, dict):
        inner = value.get("accuracy")
        if isinstance(inner, dict):  # v0.6 Mask R-CNN
            value = inner
        numbers = {str(name): number(item) for name, item in value.items()}
        return {name: item for name, item in numbers.items() if item is not None}
    single = number(value)
    name = next(iter(targets)) if len(targets) == 1 else "quality"
    return {} if single is None else {name: single}


def _met(quality: Mapping[str, float], targets: Mapping[str, float]) -> bool:
    """True if every target is reached, up to float32 rounding; False without targets."""
    return bool(targets) and all(
        metric in quality and quality[metric] >= target - _FLOAT32 * abs(target) for metric, target in targets.items()
    )


def judge(
    events: Sequence[Event],
    stop: Event | None,
    settings: RunSettings,
    targets: Mapping[str, float],
    evaluations: Sequence[Evaluation],
    problems: list[Problem],
) -> tuple[str, str]:
    """(status, reason); what the log claims is held against its evaluations."""
    if not events:
        return "unreadable", problems[0].text if problems else "the file holds no record"
    if stop is None:
        return "truncated", "the log has no run_stop"
    reached = any(_met(evaluation.quality, targets) for evaluation in evaluations)
    claimed = stop.metadata.get("status")
    if not isinstance(claimed, str):
        if settings.profile or not reached:
            problems.append(Problem(stop.line, "run_stop has no status"))
        return ("success", "") if reached else ("failed", "run_stop has no status and no target was reached")
    if claimed == "success":
        if settings.to_target and targets and not reached:
            return "failed", "run_stop says success, but no evaluation reaches the target"
        return "success", ""
    reason = stop.metadata.get("reason")
    status = "failed" if claimed == "failed" else "aborted"
    if reached and settings.to_target:
        problems.append(Problem(stop.line, f"run_stop says {claimed}, but an evaluation reaches the target"))
    if isinstance(reason, str) and reason:
        return status, reason
    return status, "target not reached" if settings.to_target else ""


def epochs_to_target(
    log_format: str, status: str, targets: Mapping[str, float], evaluations: Sequence[Evaluation]
) -> float | None:
    """Epochs at the first evaluation that meets the targets.

    v0.5 labels epochs from 0, 1 or -1, so there the epochs begun are counted; later logs label from 1.
    """
    hits = [evaluation for evaluation in evaluations if _met(evaluation.quality, targets)]
    if status != "success" or not hits:
        return None
    return float(hits[0].epochs_begun) if log_format == "MLPv0.5.0" else hits[0].epoch
