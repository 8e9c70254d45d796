"""The one reader: what a log says, whoever wrote it. The only place that gives events a meaning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from suite.results.fields import run_settings
from suite.results.lines import Event, Problem, number, read_events
from suite.results.quality import epochs_to_target, find_targets, judge, read_evaluations
from suite.results.record import Reading, RunRecord, RunSettings, Throughput

STRUCTURE = frozenset(
    {
        *("submission_benchmark", "submission_org", "submission_division", "submission_status", "submission_platform"),
        *("suite_run", "seed", "cache_clear", "init_start", "init_stop", "run_start", "run_stop", "run_final"),
        *("block_start", "block_stop", "epoch_start", "epoch_stop", "train_loop", "tracked_stats"),
        *("eval_start", "eval_stop", "eval_accuracy", "quality_target"),
    }
)
"""Keys with a meaning of their own; all others are hyperparameters."""


def read(path: str | Path) -> Reading:
    """Read one log. Raises ValueError (one line) only if the file cannot be opened; no content makes it fail.

    An empty, binary, cut-off or damaged file yields a record with what could be read, and problems with line numbers.
    """
    path = Path(path)
    events, problems = read_events(path)
    return interpret(path, events, problems)


def interpret(path: Path, events: Sequence[Event], problems: Iterable[Problem]) -> Reading:
    """Give events their meaning. `problems` are those met so far; the new ones are added."""
    problems = list(problems)
    unique: dict[str, Event] = {}
    first: dict[str, Event] = {}
    for event in events:
        unique.setdefault(event.text, event)
        first.setdefault(event.key, event)
    events = list(unique.values())
    log_format = events[0].format if events else ""
    benchmark = _text(first, "submission_benchmark") or (events[0].benchmark if events else "")
    settings = _settings(first, benchmark, log_format, problems)
    targets, source = find_targets(settings, benchmark, log_format, first.get("quality_target"))
    start, stop = _clock(events, problems)
    evaluations = read_evaluations(events, start, stop, targets, problems)
    status, reason = judge(events, stop, settings, targets, evaluations, problems)
    record = RunRecord(
        path=path,
        format=log_format,
        benchmark=benchmark,
        org=_text(first, "submission_org"),
        division=_text(first, "submission_division"),
        submission_status=_text(first, "submission_status"),
        platform=_text(first, "submission_platform"),
        settings=settings,
        seed=_whole(first, "seed"),
        start_ms=start.time_ms if start else None,
        seconds=(stop.time_ms - start.time_ms) / 1000.0 if start and stop else None,
        status=status,
        reason=reason,
        targets=targets,
        targets_source=source,
        evaluations=evaluations,
        epochs_to_target=epochs_to_target(log_format, status, targets, evaluations),
        quality=evaluations[-1].quality if evaluations else {},
        throughput=tuple(_throughput(event) for event in events if event.key == "tracked_stats"),
        hyperparameters={key: event.value for key, event in first.items() if key not in STRUCTURE and _plain(event)},
    )
    return Reading(record, tuple(problems))


_RULES = {"MLPv0.5.0": "v0.5", "MLL": "v0.6", "MLLOG": "v0.7 or later"}
"""Line format to the rules that it came with."""


def _settings(first: Mapping[str, Event], benchmark: str, log_format: str, problems: list[Problem]) -> RunSettings:
    """What was run; of a log that is not ours, what its own keys say."""
    settings = run_settings(first.get("suite_run"), problems)
    if settings.profile:
        return settings
    batch = _whole(first, "global_batch_size")
    system, rules = _text(first, "submission_platform"), _RULES.get(log_format, "")
    return replace(settings, workload=benchmark, system=system, batch_size_global=batch, rules=rules)


def _whole(first: Mapping[str, Event], key: str) -> int | None:
    """The value under `key` as a whole number, or None."""
    value = first[key].value if key in first else None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    read = number(value)
    return int(read) if read is not None else None


def _text(first: Mapping[str, Event], key: str) -> str:
    value = first[key].value if key in first else None
    return value if isinstance(value, str) else ""


def _plain(event: Event) -> bool:
    """True for a value that is a number, text, or a list of at most 64 such: nothing nested."""
    value = event.value
    if isinstance(value, list):
        return len(value) <= 64 and all(isinstance(item, (bool, int, float, str)) for item in value)
    return isinstance(value, (bool, int, float, str))


def _clock(events: Sequence[Event], problems: list[Problem]) -> tuple[Event | None, Event | None]:
    """First `run_start` and the first `run_stop` behind it, by time stamp."""
    starts = [event for event in events if event.key == "run_start"]
    stops = [event for event in events if event.key == "run_stop"]
    start = starts[0] if starts else None
    after = [event for event in stops if start is None or event.time_ms >= start.time_ms]
    for name, found in (("run_start", starts), ("run_stop", stops)):
        if len({event.time_ms for event in found}) > 1:
            problems.append(Problem(found[1].line, f"{len(found)} different {name}; the first is used"))
    if events and start is None:
        problems.append(Problem(0, "no run_start"))
    if events and not after:
        late = " behind run_start" if stops else ""
        problems.append(Problem(events[-1].line, f"the log ends here: no run_stop{late}, the run was cut off"))
    return start, after[0] if after else None


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
    )
