"""Reads a log of any writer into a `RunRecord`: this file and quality.py decide what the events mean."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from suite.results.logs import attempts, quality
from suite.results.logs.all_reduce import all_reduce, gradient_traffic
from suite.results.logs.epochs import epochs_at, epochs_at_stop
from suite.results.logs.events import Event, Problem, ProblemKind, Remarks, number, numbers, whole_number
from suite.results.logs.fields import run_settings, with_open_reasons
from suite.results.logs.keys import STRUCTURAL
from suite.results.logs.lines import read_file
from suite.results.logs.plausible import NOT_PLAUSIBLE, first_odd_value, odd_value
from suite.results.logs.record import NO_FIGURES, Condition, Evaluation, Reading, RunRecord, RunSettings, Throughput
from suite.results.names import UNKNOWN_ROUND, round_like, workload_name
from suite.results.targets import LABELED_IN_SAMPLES
from suite.results.text import clean
from workloads.api import Json

ENDS_HERE, NO_START = "the log ends here", "no run_start"
"""How the problems of a log without an end and without a start begin."""
_RULES_BY_FORMAT = {"MLPv0.5.0": "v0.5", "MLL": "v0.6", "MLPerf": "v0.6", "MLLOG": UNKNOWN_ROUND}


def read(path: str | Path) -> Reading:
    """Read one log. Raises ValueError (one line) only if the file cannot be opened; no content raises.

    An empty, binary, cut-off or damaged file yields a record with what could be read, and problems with line numbers.
    """
    file = read_file(path := Path(path))
    return interpret(path, vars(file).pop("events"), file.problems, file.digest)  # which frees events as it goes


def interpret(path: Path, events: Sequence[Event], problems: Iterable[Problem], digest: str = "") -> Reading:
    """The record of a run from its events. `problems` are those found so far; new ones are added."""
    problems, remarks = list(problems), Remarks()
    log_format = events[0].format if events else ""
    events = _of_last_attempt(attempts.without_repeats(events), problems)
    first: dict[str, Event] = {}
    for event in events:
        first.setdefault(event.key, event)
    resumptions = sum(event.key == "suite_continued" for event in events)
    values = {key: event.value for key, event in first.items()}
    other = next((event for event in events if event.format != log_format), None)
    if other is not None:
        problems.append(Problem(other.line, f"a {other.format} record in a {log_format} log"))
    benchmark = _text(values, "submission_benchmark") or (events[0].benchmark if events else "")
    workload = "retinanet" if quality.is_retinanet(benchmark, values) else benchmark
    platform = _text(values, "submission_platform")
    settings = _settings(first, workload, platform, log_format, problems)
    opened = values.get("suite_open")
    settings = settings if opened is None else with_open_reasons(settings, opened)
    targets, source = quality.targets_of_run(settings, log_format, first.get("quality_target"), remarks)
    clock = _clock(events, benchmark, log_format, problems)
    written = [_object(event.value).get("seconds") for event in events if event.key == "suite_checkpoint"]
    relevant = [event for event in events if event.key in ("epoch_start", "eval_accuracy")]
    events = [event for event in events if event.key != "eval_accuracy"]
    found = quality.read_evaluations(relevant, clock, targets, benchmark, remarks)
    evaluations = found.used
    targets = quality.bleu_targets_in_log_scale(targets, source, evaluations, remarks)
    found = replace(found, reached=quality.first_that_meets(targets, evaluations, benchmark))
    status, reason = "unreadable", problems[0].text if problems else "the file holds no record"
    if log_format:
        status, reason = quality.run_status(clock, settings, bool(targets), found, problems)
    throughput = tuple(_throughput(event, clock.start) for event in events if event.key == "tracked_stats")
    problems += first_odd_value(clock, evaluations, throughput, workload_name(benchmark))
    implausible = [problem.text for problem in problems if problem.text.startswith(NOT_PLAUSIBLE)]
    if implausible:
        status, reason = "failed", implausible[0]
    epochs = None
    reached = found.reached
    by_rules = log_format != "MLPerf" and settings.first_epoch == 1
    if status == "success" and reached is not None:
        if quality.is_rounded(targets, evaluations[reached].quality, benchmark):
            remarks.add(evaluations[reached].line, "reaches the target only up to float32 rounding")
        if source != "rules" or workload not in LABELED_IN_SAMPLES:
            epochs = epochs_at(reached, by_rules, events, evaluations, remarks)
    epochs_trained = epochs
    if epochs is not None and reached is not None and clock.end is not None:
        epochs_trained = epochs_at_stop(epochs, reached, by_rules, events, evaluations, clock.end.time_ms)
        if epochs_trained > epochs:
            text = f"the run continued after the target, from epoch {epochs:g} to {epochs_trained:g}"
            remarks.add(evaluations[reached].line, f"{text}: the time counts to run_stop, the epochs to the target")
    batch, basis = settings.batch_size_global, "global"
    if batch is None:
        batch = whole_number(values.get("input_batch_size"))
        basis = "" if batch is None else "of one device or of all: the log does not say"
    record = RunRecord(
        path=path,
        format=log_format,
        benchmark=benchmark,
        org=_text(values, "submission_org"),
        division="open"
        if opened is not None or (resumptions and settings.profile)
        else _text(values, "submission_division"),
        submission_status=_text(values, "submission_status"),
        platform=platform,
        settings=settings,
        seed=_seed(first.get("seed", first.get("run_set_random_seed")), problems),
        start_ms=clock.start.time_ms if clock.start else None,
        seconds=clock.seconds,
        status=status,
        reason=reason,
        targets=targets,
        targets_source=source,
        evaluations=_with_scores(evaluations, throughput),
        epochs_to_target=epochs,
        epochs_trained=epochs_trained,
        quality=found.last_quality,
        throughput=throughput,
        logged={key: it for key, it in values.items() if key not in STRUCTURAL and _is_flat(it)},
        batch_logged=batch,
        batch_basis=basis,
        digest=digest,
        resumptions=resumptions,
        interrupted_seconds=_interrupted_seconds(events),
        checkpoint_seconds=math.fsum(number(seconds) or 0.0 for seconds in written),
        condition=_condition(values.get("suite_condition")),
        step_times=_numbers(values.get("suite_step_times")),
        step_times_by=_text(_object(values.get("suite_step_times")), "how")[:100],
        all_reduce=all_reduce(values.get("suite_all_reduce")),
        gradients=gradient_traffic(values.get("suite_gradients")),
        staleness=_numbers(values.get("suite_staleness")),
    )
    return Reading(record, (*problems, *remarks.problems()))


def _interrupted_seconds(events: Sequence[Event]) -> float:
    """Return the seconds between each `suite_continued` line and the line before it."""
    gaps_ms = (
        event.time_ms - earlier.time_ms
        for earlier, event in itertools.pairwise(events)
        if event.key == "suite_continued"
    )
    return math.fsum(max(0.0, gap_ms) for gap_ms in gaps_ms) / 1e3


def _of_last_attempt(events: list[Event], problems: list[Problem]) -> Sequence[Event]:
    """Return the records of the attempt that counts; a problem is added if a relaunched program appended to the file."""
    found = attempts.find_attempts(events)
    if len(found) == 1:
        return events
    chosen = attempts.choose_attempt(found)
    problems.append(Problem(found[chosen].lines[0], attempts.attempts_text(found, chosen)))
    return attempts.events_with_identity(found, chosen)


def _settings(
    first: Mapping[str, Event], benchmark: str, system: str, log_format: str, problems: list[Problem]
) -> RunSettings:
    """The settings in `suite_run`; for logs of other programs, what their own keys say."""
    settings = run_settings(first.get("suite_run"), problems)
    if settings.profile:
        known = settings.first_epoch is not None
        return settings if known else replace(settings, first_epoch=round_like(settings.rules).first_epoch)
    logged = first.get("global_batch_size")
    batch = whole_number(logged.value) if logged else None
    odd = odd_value("global_batch_size", batch, logged.line) if logged else None
    if odd is not None:
        problems.append(odd)
        batch = None
    rules = _RULES_BY_FORMAT.get(log_format, "")
    like = round_like(rules)
    settings = replace(settings, rules=rules, first_epoch=like.first_epoch, clock=like.clock)
    return replace(settings, workload=benchmark, system=system, batch_size_global=batch)


def _seed(event: Event | None, problems: list[Problem]) -> int | None:
    """The seed as the whole number that it is; anything else is a problem, but for none (Google's logs say so)."""
    if event is None or event.value in (None, "none", "None"):
        return None
    seed = whole_number(event.value)
    if seed is not None and abs(seed) < 2**64:  # no framework takes a longer one
        return seed
    shown = clean(str(event.value), 40)
    problems.append(Problem(event.line, f"{event.key} is not a whole number below 2^64: {shown}"))
    return None


def _text(values: Mapping[str, Json], key: str) -> str:
    value = values.get(key)
    return value if isinstance(value, str) else ""


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _is_flat(value: Json) -> bool:
    """True for a value that is a number, a text of at most 1,000 characters, or a list of at most 64 such: nothing nested."""
    items = value if isinstance(value, list) else [value]
    return len(items) <= 64 and all(
        isinstance(item, (bool, int, float)) or (isinstance(item, str) and len(item) <= 1000) for item in items
    )


def _clock(events: Sequence[Event], benchmark: str, log_format: str, problems: list[Problem]) -> quality.RunClock:
    """Start and end of the timed part, by time stamp; several different starts or stops are a problem."""
    keys = ("run_start", "run_stop", "eval_result")
    by_time = sorted((event for event in events if event.key in keys), key=lambda event: event.time_ms)
    evaluated_ms = (event.time_ms for event in events if event.key == "eval_accuracy")
    starts, stops, results = ([event for event in by_time if event.key == key] for key in keys)
    start = starts[0] if starts else None
    after = [event for event in stops if start is None or event.time_ms >= start.time_ms]
    stop = after[0] if after else None
    claims = [(event, status) for event in after if (status := _status_of_stop(event)) is not None]
    final, claimed = claims[0] if claims else (stop, None)
    used = "the first"
    if stop and final and any(stop.time_ms < at <= final.time_ms for at in evaluated_ms):
        stop, used = final, "the first with a status, after the last evaluation,"
    for same_key, which in ((starts, "the first"), (stops, used)):
        if len({event.time_ms for event in same_key}) > 1:
            several = f"{len(same_key)} different {same_key[0].key}"
            problems.append(Problem(same_key[1].line, f"{several}; {which} is used"))
    if events and start is None:
        problems.append(Problem(0, NO_START, kind=ProblemKind.CUT_OFF))
    other = next((event for event, status in claims if status != claimed), None)
    if other is not None:
        problems.append(Problem(other.line, "run_stop contradicts another one about success; the first is used"))
    if log_format == "MLL" and benchmark == "minigo":
        return _minigo_clock(results, quality.RunClock(start, stop, None, claimed), problems)
    if events and stop is None:
        late = " after run_start" if stops else ""
        text = f"{ENDS_HERE}: no run_stop{late}, the run was cut off"
        problems.append(Problem(events[-1].line, text, kind=ProblemKind.CUT_OFF))
    return quality.RunClock(start, stop, (stop.time_ms - start.time_ms) / 1000.0 if start and stop else None, claimed)


def _status_of_stop(event: Event) -> str | None:
    status, value = event.metadata.get("status"), event.value
    if isinstance(status, str):
        return status
    if isinstance(value, dict) and "success" in value:
        return "success" if str(value["success"]).lower() == "true" else "failed"
    return None


def _minigo_clock(results: Sequence[Event], clock: quality.RunClock, problems: list[Problem]) -> quality.RunClock:
    """MiniGo of v0.6: models are evaluated after training, and `eval_result` holds the seconds up to the one that won."""
    for event in results:
        seconds = number(event.metadata.get("timestamp"))
        if seconds is not None:
            remark = "the time is the one in eval_result, not that of run_stop"
            problems.append(Problem(event.line, f"MiniGo of v0.6: {remark}"))
            return quality.RunClock(clock.start, event, seconds)
    remark = "MiniGo of v0.6 without an eval_result that holds a timestamp: the run has no time"
    problems.append(Problem(clock.end.line if clock.end else 0, remark))
    return clock


def _throughput(event: Event, start: Event | None) -> Throughput:
    stats, step = _object(event.value), number(event.metadata.get("step"))
    names = ("samples", "train_seconds", "evaluation_seconds", "data_wait_seconds", "loss", "data_bytes")
    return Throughput(
        line=event.line,
        seconds=None if start is None else (event.time_ms - start.time_ms) / 1000.0,
        step=int(step) if step is not None else None,
        samples_per_second=number(stats.get("throughput")),
        rates=_numbers(stats.get("rates")),
        scores=_numbers(stats.get("scores")),
        **{name: number(stats.get(name)) for name in names},
    )


def _condition(value: Json) -> Condition | None:
    """`suite_condition`; what is neither a number nor the list of reasons is left out."""
    if not isinstance(value, dict):
        return None
    busy = value.get("busy")
    reasons = tuple(text for text in busy[:8] if isinstance(text, str)) if isinstance(busy, list) else ()
    return Condition(reasons, _numbers(value))


def _numbers(value: Json) -> Mapping[str, float]:
    """The numbers of an object by name; anything else is left out."""
    if not isinstance(value, dict):
        return NO_FIGURES
    return numbers({name[:100]: item for name, item in list(value.items())[:64]})


def _with_scores(evaluations: tuple[Evaluation, ...], throughput: Sequence[Throughput]) -> tuple[Evaluation, ...]:
    """Evaluations with the scores that the line after each holds (`tracked_stats` of the same block)."""
    if not any(block.scores for block in throughput):
        return evaluations
    lines = [block.line for block in throughput]
    ends = [*(evaluation.line for evaluation in evaluations[1:]), math.inf]
    scored = []
    for evaluation, end in zip(evaluations, ends, strict=False):
        after = bisect_right(lines, evaluation.line)
        follows = after < len(lines) and lines[after] < end
        scored.append(replace(evaluation, scores=throughput[after].scores) if follows else evaluation)
    return tuple(scored)
