"""Reads a log of any writer into a `RunRecord`: this file and quality.py decide what the events mean."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from suite.results.logs.all_reduce import EVENT as ALL_REDUCE
from suite.results.logs.all_reduce import TRAFFIC_EVENT, all_reduce, gradient_traffic
from suite.results.logs.events import Event, Problem, Remarks, number, whole_number
from suite.results.logs.fields import run_settings
from suite.results.logs.lines import read_file
from suite.results.logs.plausible import NOT_PLAUSIBLE, first_odd_value, odd_value
from suite.results.logs.quality import (
    RunClock,
    bleu_targets_in_log_scale,
    epochs_to_target,
    is_retinanet,
    read_evaluations,
    run_status,
    targets_of_run,
)
from suite.results.logs.record import NO_FIGURES, Condition, Evaluation, Reading, RunRecord, RunSettings, Throughput
from suite.results.names import workload_name
from suite.results.text import clean
from workloads.api import Json

STRUCTURAL_KEYS = frozenset(
    {
        *("submission_benchmark", "submission_org", "submission_division", "submission_status", "submission_platform"),
        *(
            "suite_run",
            "suite_condition",
            "suite_step_times",
            ALL_REDUCE,
            TRAFFIC_EVENT,
            "suite_staleness",
            "cache_clear",
        ),
        *("seed", "run_set_random_seed", "init_start", "init_stop", "run_start", "run_stop", "run_final"),
        *("block_start", "block_stop", "epoch_start", "epoch_stop", "train_loop", "tracked_stats"),
        *("eval_start", "eval_stop", "eval_accuracy", "eval_result", "quality_target"),
    }
)
"""Keys with a meaning of their own; all others are hyperparameters."""
ENDS_HERE = "the log ends here"
"""How the problem of a log without an end begins."""
_TIMING_KEYS = ("run_start", "run_stop", "eval_result")


def read(path: str | Path) -> Reading:
    """Read one log. Raises ValueError (one line) only if the file cannot be opened; no content raises.

    An empty, binary, cut-off or damaged file yields a record with what could be read, and problems with line numbers.
    """
    path = Path(path)
    file = read_file(path)
    problems, digest = file.sorted_problems(), file.digest
    return interpret(path, vars(file).pop("events"), problems, digest)


def interpret(path: Path, events: Sequence[Event], problems: Iterable[Problem], digest: str = "") -> Reading:
    """The record of a run from its events. `problems` are those found so far; new ones are added."""
    problems, remarks = list(problems), Remarks()
    unique: dict[int, Event] = {}
    first: dict[str, Event] = {}
    for event in events:
        unique.setdefault(event.mark, event)
        first.setdefault(event.key, event)
    events = list(unique.values())
    del unique
    log_format = _format(events, problems)
    benchmark = _text(first, "submission_benchmark") or (events[0].benchmark if events else "")
    settings = _settings(first, "retinanet" if is_retinanet(benchmark, first) else benchmark, log_format, problems)
    targets, source = targets_of_run(settings, log_format, first, remarks)
    clock = _clock(events, benchmark, log_format, problems)
    relevant = [event for event in events if event.key in ("epoch_start", "eval_accuracy")]
    events = [event for event in events if event.key != "eval_accuracy"]
    evaluations = read_evaluations(relevant, clock, targets, benchmark, remarks)
    targets = bleu_targets_in_log_scale(targets, source, evaluations, remarks)
    status, reason = "unreadable", problems[0].text if problems else "the file holds no record"
    if log_format:
        status, reason = run_status(clock, settings, targets, evaluations, problems)
    throughput = [_throughput(event) for event in events if event.key == "tracked_stats"]
    odd = first_odd_value((clock.start, clock.end), clock.seconds, evaluations, throughput, workload_name(benchmark))
    problems += [odd] if odd is not None else []
    implausible = [problem.text for problem in problems if problem.text.startswith(NOT_PLAUSIBLE)]
    if implausible:
        status, reason = "failed", implausible[0]
    seed = first.get("seed", first.get("run_set_random_seed"))
    epochs = epochs_to_target(log_format, events, targets, evaluations, remarks) if status == "success" else None
    batch, basis = _batch(first, settings)
    times, staleness = first.get("suite_step_times"), first.get("suite_staleness")
    record = RunRecord(
        path=path,
        format=log_format,
        benchmark=benchmark,
        org=_text(first, "submission_org"),
        division=_text(first, "submission_division"),
        submission_status=_text(first, "submission_status"),
        platform=_text(first, "submission_platform"),
        settings=settings,
        seed=_seed(seed, problems) if seed is not None else None,
        start_ms=clock.start.time_ms if clock.start else None,
        seconds=clock.seconds,
        status=status,
        reason=reason,
        targets=targets,
        targets_source=source,
        evaluations=_with_scores(evaluations, throughput),
        epochs_to_target=epochs,
        quality=evaluations[-1].quality if evaluations else {},
        throughput=tuple(throughput),
        hyperparameters={
            key: event.value for key, event in first.items() if key not in STRUCTURAL_KEYS and _is_flat(event)
        },
        batch_logged=batch,
        batch_basis=basis,
        digest=digest,
        condition=_condition(first.get("suite_condition")),
        step_times=_numbers(times.value) if times is not None else {},
        step_times_by=_how(times),
        all_reduce=all_reduce(first[ALL_REDUCE].value) if ALL_REDUCE in first else None,
        gradients=gradient_traffic(first[TRAFFIC_EVENT].value) if TRAFFIC_EVENT in first else None,
        staleness=_numbers(staleness.value) if staleness is not None else {},
    )
    return Reading(record, (*problems, *remarks.problems()))


def _format(events: Sequence[Event], problems: list[Problem]) -> str:
    """Line format of the first record; that others have another is a problem."""
    if not events:
        return ""
    other = next((event for event in events if event.format != events[0].format), None)
    if other is not None:
        problems.append(Problem(other.line, f"a {other.format} record in a {events[0].format} log"))
    return events[0].format


_SEEDS = 2**64
"""No framework takes a longer seed."""
LATER_ROUNDS = "v0.7 or later"
"""The rules of a log whose format several rounds used: it does not say which."""
_RULES_BY_FORMAT = {"MLPv0.5.0": "v0.5", "MLL": "v0.6", "MLPerf": "v0.6", "MLLOG": LATER_ROUNDS}
"""Line format to the rules of the rounds that used it."""


def _settings(first: Mapping[str, Event], benchmark: str, log_format: str, problems: list[Problem]) -> RunSettings:
    """The settings in `suite_run`; for logs of other programs, what their own keys say."""
    settings = run_settings(first.get("suite_run"), problems)
    if settings.profile:
        return settings
    batch = _integer(first, "global_batch_size")
    odd = odd_value("global_batch_size", batch, first["global_batch_size"].line) if batch is not None else None
    if odd is not None:
        problems.append(odd)
        batch = None
    system, rules = _text(first, "submission_platform"), _RULES_BY_FORMAT.get(log_format, "")
    return replace(settings, workload=benchmark, system=system, batch_size_global=batch, rules=rules)


def _integer(first: Mapping[str, Event], key: str) -> int | None:
    """The value under `key` as a whole number, or None."""
    return whole_number(first[key].value) if key in first else None


def _seed(event: Event, problems: list[Problem]) -> int | None:
    """The seed as the whole number that it is; anything else is a problem, but for none (Google's logs say so)."""
    seed = whole_number(event.value)
    if seed is not None and abs(seed) < _SEEDS:
        return seed
    if event.value not in (None, "none", "None"):
        problems.append(
            Problem(event.line, f"{event.key} is not a whole number below 2^64: {clean(str(event.value), 40)}")
        )
    return None


def _text(first: Mapping[str, Event], key: str) -> str:
    value = first[key].value if key in first else None
    return value if isinstance(value, str) else ""


def _is_flat(event: Event) -> bool:
    """True for a value that is a number, a text of at most 1,000 characters, or a list of at most 64 such: nothing nested."""
    items = event.value if isinstance(event.value, list) else [event.value]
    return len(items) <= 64 and all(
        isinstance(item, (bool, int, float)) or (isinstance(item, str) and len(item) <= 1000) for item in items
    )


def _batch(first: Mapping[str, Event], settings: RunSettings) -> tuple[int | None, str]:
    """(samples per step as logged, whether that is the global batch); v0.5 logs do not say for how many devices."""
    if settings.batch_size_global is not None:
        return settings.batch_size_global, "global"
    batch = _integer(first, "input_batch_size")
    return batch, "" if batch is None else "of one device or of all: the log does not say"


def _clock(events: Sequence[Event], benchmark: str, log_format: str, problems: list[Problem]) -> RunClock:
    """Start and end of the timed part, by time stamp; several different starts or stops are a problem."""
    by_time = sorted((event for event in events if event.key in _TIMING_KEYS), key=lambda event: event.time_ms)
    starts, stops, results = ([event for event in by_time if event.key == key] for key in _TIMING_KEYS)
    start = starts[0] if starts else None
    after = [event for event in stops if start is None or event.time_ms >= start.time_ms]
    for name, same_key in (("run_start", starts), ("run_stop", stops)):
        if len({event.time_ms for event in same_key}) > 1:
            last = name == "run_stop" and _end_of_run(after, events) is not next(iter(after), None)
            used = "the first with a status, after the last evaluation," if last else "the first"
            problems.append(Problem(same_key[1].line, f"{len(same_key)} different {name}; {used} is used"))
    if events and start is None:
        problems.append(Problem(0, "no run_start"))
    if log_format == "MLL" and benchmark == "minigo":
        return _minigo_clock(start, results, after, problems)
    if events and not after:
        late = " after run_start" if stops else ""
        problems.append(Problem(events[-1].line, f"{ENDS_HERE}: no run_stop{late}, the run was cut off"))
    stop = _end_of_run(after, events)
    seconds = (stop.time_ms - start.time_ms) / 1000.0 if start and stop else None
    return RunClock(start, stop, seconds, _claimed_status(after, problems))


def _end_of_run(stops: Sequence[Event], events: Sequence[Event]) -> Event | None:
    """The first `run_stop`; but where it has no status and an evaluation follows, the first after it that has one."""
    if not stops or _status_of_stop(stops[0]) is not None:
        return stops[0] if stops else None
    final = next((event for event in stops if _status_of_stop(event) is not None), stops[0])
    between = (stops[0].time_ms < event.time_ms <= final.time_ms for event in events if event.key == "eval_accuracy")
    return final if any(between) else stops[0]


def _claimed_status(stops: Sequence[Event], problems: list[Problem]) -> Json:
    """The status of the first `run_stop` that has one, in its metadata or, as in v0.5, in its value; others are a problem."""
    found = [(event, status) for event in stops if (status := _status_of_stop(event)) is not None]
    other = next((event for event, status in found if status != found[0][1]), None)
    if other is not None:
        problems.append(Problem(other.line, "run_stop contradicts another one about success; the first is used"))
    return found[0][1] if found else None


def _status_of_stop(event: Event) -> str | None:
    status, value = event.metadata.get("status"), event.value
    if isinstance(status, str):
        return status
    if isinstance(value, dict) and "success" in value:
        return "success" if str(value["success"]).lower() == "true" else "failed"
    return None


def _minigo_clock(
    start: Event | None, results: Sequence[Event], stops: Sequence[Event], problems: list[Problem]
) -> RunClock:
    """MiniGo of v0.6: models are evaluated after training, and `eval_result` holds the seconds up to the one that won."""
    for event in results:
        seconds = number(event.metadata.get("timestamp"))
        if seconds is not None:
            problems.append(
                Problem(event.line, "MiniGo of v0.6: the time is the one in eval_result, not that of run_stop")
            )
            return RunClock(start, event, seconds)
    line = stops[0].line if stops else 0
    problems.append(Problem(line, "MiniGo of v0.6 without an eval_result that holds a timestamp: the run has no time"))
    return RunClock(start, stops[0] if stops else None, None, _claimed_status(stops, problems))


def _throughput(event: Event) -> Throughput:
    stats = event.value if isinstance(event.value, dict) else {}
    step = number(event.metadata.get("step"))
    return Throughput(
        line=event.line,
        step=int(step) if step is not None else None,
        samples_per_second=number(stats.get("throughput")),
        samples=number(stats.get("samples")),
        train_seconds=number(stats.get("train_seconds")),
        evaluation_seconds=number(stats.get("evaluation_seconds")),
        data_wait_seconds=number(stats.get("data_wait_seconds")),
        loss=number(stats.get("loss")),
        data_bytes=number(stats.get("data_bytes")),
        rates=_numbers(stats.get("rates")),
        scores=_numbers(stats.get("scores")),
    )


def _condition(event: Event | None) -> Condition | None:
    """`suite_condition`; what is neither a number nor the list of reasons is left out."""
    if event is None or not isinstance(event.value, dict):
        return None
    busy = event.value.get("busy")
    reasons = tuple(text for text in busy[:8] if isinstance(text, str)) if isinstance(busy, list) else ()
    return Condition(reasons, _numbers(event.value))


def _how(event: Event | None) -> str:
    """`how` of `suite_step_times`."""
    said = event.value.get("how") if event is not None and isinstance(event.value, dict) else None
    return said[:100] if isinstance(said, str) else ""


def _numbers(value: Json) -> Mapping[str, float]:
    """The numbers of an object by name; anything else is left out."""
    if not isinstance(value, dict):
        return NO_FIGURES
    read = {str(name)[:100]: number(item) for name, item in list(value.items())[:64]}
    return {name: item for name, item in read.items() if item is not None}


def _with_scores(evaluations: Sequence[Evaluation], throughput: Sequence[Throughput]) -> tuple[Evaluation, ...]:
    """Evaluations with the scores that the line after each holds (`tracked_stats` of the same block)."""
    if not any(block.scores for block in throughput):
        return tuple(evaluations)
    lines = [block.line for block in throughput]
    ends = [*(evaluation.line for evaluation in evaluations[1:]), math.inf]
    found = []
    for evaluation, end in zip(evaluations, ends, strict=False):
        after = bisect_right(lines, evaluation.line)
        follows = after < len(lines) and lines[after] < end
        found.append(replace(evaluation, scores=throughput[after].scores) if follows else evaluation)
    return tuple(found)
