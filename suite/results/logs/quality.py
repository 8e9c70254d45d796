"""Evaluations of a run, the targets that the run reached, and the run's success."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from suite.common.run_end import SUCCESS, EndCode, EndStatus, RunEnd, parse_code
from suite.results.directions import improves_as_it_falls, meets
from suite.results.logs.events import Event, Problem, ProblemCode, Remarks, number
from suite.results.logs.record import Evaluation
from suite.results.text import clean


@dataclass(frozen=True)
class RunClock:
    """Start and end records between which a run is timed."""

    start: Event | None
    """The `run_start` record."""
    end: Event | None
    """The record that ended the run: `run_stop`, or `eval_result` for MiniGo v0.6.

    Later evaluations are ignored.
    """
    seconds: float | None
    """Duration of the run in seconds, measured as the rules of the round require."""
    claimed: str | None = None
    """Status that the log claims, such as `success` or `aborted`. None if the log contains no
    status.
    """


@dataclass(frozen=True)
class Evaluations:
    """The evaluations in a log."""

    used: tuple[Evaluation, ...] = ()
    """Evaluations of the run that have a finite value, in order of time."""
    last_quality: Mapping[str, float] = field(default_factory=dict)
    """Quality of the last evaluation. The quality of a diverged run may be NaN."""
    logged: bool = False
    """True if the log contains an evaluation with a number, even before or after the run.

    Some benchmarks evaluate after `run_stop`.
    """
    reached: int | None = None
    """Index of the first evaluation that reaches every target."""

    @property
    def diverged(self) -> str:
        """Return `NaN` or `inf` if the last evaluation has this value.

        The string is empty for a finite value.
        """
        return next(
            (
                quality_text(value)
                for value in self.last_quality.values()
                if not math.isfinite(value)
            ),
            "",
        )


def read_evaluations(
    events: list[Event],
    clock: RunClock,
    read_quality: Callable[[Event], Mapping[str, float]],
    remarks: Remarks,
    late_ms: float = 0.0,
) -> Evaluations:
    """Return the evaluations of the run, in order of time.

    Args:
        events: The records `epoch_start` and `eval_accuracy`. The function empties the list to free
            memory, because a log may contain a million records.
        clock: Start and end of the run.
        read_quality: Function that returns the metrics in an `eval_accuracy` record as a mapping
            from name to value. The mapping is empty if the record contains no number.
        remarks: Receives a remark for each ignored value.
        late_ms: Maximum time in ms by which an evaluation may follow the end of the run.
    """
    begin = clock.start.time_ms if clock.start else 0.0
    last_ms = clock.end.time_ms + late_ms if clock.end else math.inf
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
        quality = read_quality(event)
        finite = {metric: value for metric, value in quality.items() if math.isfinite(value)}
        logged = logged or bool(finite)
        if quality and begin <= event.time_ms <= last_ms:
            last_quality = quality
        if text := _why_no_quality(event, quality, finite):
            remarks.add(event.line, ProblemCode.NO_QUALITY, text)
        if not quality:
            continue
        if event.time_ms < begin:
            remarks.add(
                event.line,
                ProblemCode.EVALUATION_NOT_USED,
                "eval_accuracy before run_start is not used",
            )
        elif event.time_ms > last_ms:
            remarks.add(
                event.line,
                ProblemCode.EVALUATION_NOT_USED,
                "eval_accuracy after run_stop is not used",
            )
        elif finite:
            samples = number(event.metadata.get("samples_count"))
            seconds = (event.time_ms - begin) / 1000.0
            evaluations.append(
                Evaluation(event.line, seconds, epoch, len(begun), finite, samples=samples)
            )
    return Evaluations(tuple(evaluations), last_quality, logged)


def _why_no_quality(event: Event, quality: Mapping[str, float], finite: Mapping[str, float]) -> str:
    """Return the remark on an evaluation whose value is not finite.

    The remark is empty if all values are finite.
    """
    if not quality or event.value is None:
        return "eval_accuracy holds no number"
    if len(finite) == len(quality):
        return ""
    return (
        "eval_accuracy is"
        f" {quality_text(next(value for value in quality.values() if not math.isfinite(value)))}"
    )


def quality_text(value: float) -> str:
    """Format a value for messages: `0.7591`, `NaN`, `inf`."""
    return "NaN" if math.isnan(value) else f"{value:.4g}"


def first_that_meets(
    targets: Mapping[str, float],
    evaluations: Sequence[Evaluation],
    benchmark: str = "",
    falling_metrics: Collection[str] = (),
) -> int | None:
    """Return the index of the first evaluation that reaches all targets, or None.

    `benchmark` and `falling_metrics` determine whether lower values of a metric are better.
    """
    falls = {metric: improves_as_it_falls(metric, benchmark, falling_metrics) for metric in targets}
    if not targets:
        return None
    for index, evaluation in enumerate(evaluations):
        quality = evaluation.quality
        if all(
            metric in quality and meets(quality[metric], targets[metric], falls[metric])
            for metric in targets
        ):
            return index
    return None


def is_rounded(
    targets: Mapping[str, float],
    quality: Mapping[str, float],
    benchmark: str,
    falling_metrics: Collection[str] = (),
) -> bool:
    """Check whether a metric reaches its target only after rounding to float32."""
    for metric, target in targets.items():
        value = quality[metric]
        falls = improves_as_it_falls(metric, benchmark, falling_metrics)
        if value > target if falls else value < target:
            return True
    return False


def report_rounding(
    evaluations: Evaluations,
    targets: Mapping[str, float],
    benchmark: str,
    remarks: Remarks,
    falling_metrics: Collection[str] = (),
) -> None:
    """Add a remark if a metric reaches its target only after rounding to float32."""
    assert evaluations.reached is not None
    evaluation = evaluations.used[evaluations.reached]
    if is_rounded(targets, evaluation.quality, benchmark, falling_metrics):
        text = "reaches the target only up to float32 rounding"
        remarks.add(evaluation.line, ProblemCode.ROUNDED_TARGET, text)


def claimed_end(
    clock: RunClock,
    is_to_target: bool,
    has_targets: bool,
    evaluations: Evaluations,
    problems: list[Problem],
) -> RunEnd:
    """Return the end of a run according to its `run_stop`.

    The success or failure that the log claims is compared with the evaluations.

    Args:
        clock: Start, end, and claimed status of the run.
        is_to_target: True if the run was requested to end at its target.
        has_targets: True if the log or the rules contain targets.
        evaluations: Evaluations of the run.
        problems: Receives contradictions between the claim and the evaluations.
    """
    if clock.end is None:
        return RunEnd(EndStatus.TRUNCATED, EndCode.NO_RUN_STOP, "the log has no run_stop")
    if clock.start is None:
        return RunEnd(EndStatus.FAILED, EndCode.NO_RUN_START, "no run_start")
    if clock.seconds is None:
        return RunEnd(EndStatus.FAILED, EndCode.NO_TIME, "the run has no time")
    if clock.claimed is None:
        if evaluations.reached is not None:
            return SUCCESS
        return RunEnd(
            EndStatus.FAILED, EndCode.NO_STATUS, "run_stop has no status and no target was reached"
        )
    if clock.claimed == EndStatus.SUCCESS.value:
        refuted = _why_no_success(has_targets, evaluations) if is_to_target else ""
        if refuted:
            return RunEnd(
                EndStatus.FAILED,
                EndCode.FALSE_SUCCESS,
                f"run_stop has status success, but {refuted}",
            )
        return SUCCESS
    return _unsuccessful_end(clock.end, clock.claimed, is_to_target, evaluations, problems)


def _unsuccessful_end(
    end: Event, claimed: str, is_to_target: bool, evaluations: Evaluations, problems: list[Problem]
) -> RunEnd:
    """Return the end of a run whose `run_stop` does not claim success."""
    status = EndStatus.FAILED if claimed in ("failed", "fail") else EndStatus.ABORTED
    is_false = is_to_target and evaluations.reached is not None
    contradiction = (
        f"run_stop has status {clean(claimed, 40)}, but an evaluation reaches the target"
    )
    if is_false:
        problems.append(Problem(end.line, ProblemCode.CONTRADICTING_STATUS, contradiction))
    reason = end.metadata.get("reason")
    if isinstance(reason, str) and reason:
        return RunEnd(status, parse_code(end.metadata.get("code"), status, reason), reason)
    if not is_to_target:
        return RunEnd(status)
    if evaluations.diverged:
        return RunEnd(
            status, EndCode.DIVERGED, f"diverged: the last evaluation is {evaluations.diverged}"
        )
    if is_false:
        return RunEnd(status, EndCode.FALSE_FAILURE, contradiction)
    return RunEnd(status, EndCode.TARGET_MISSED, "target not reached")


def _why_no_success(has_targets: bool, evaluations: Evaluations) -> str:
    """Return the reason why the evaluations contradict a claimed success.

    The string is empty if the evaluations confirm the success.
    """
    if evaluations.reached is not None:
        return ""
    if evaluations.diverged:
        return f"the last evaluation is {evaluations.diverged}"
    if not evaluations.logged:
        return "the log has no evaluation"
    return "no evaluation reaches the target" if has_targets else ""
