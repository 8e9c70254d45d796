"""Parse the values that have the same format in all line formats."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from suite.common.run_end import RunEnd
from suite.results.logs.events import Event, Problem, ProblemCode, number, numbers, whole_number
from suite.results.logs.keys import STRUCTURAL
from suite.results.logs.quality import Evaluations, RunClock
from suite.results.logs.record import NO_FIGURES, Evaluation, RunRecord, Throughput
from suite.results.text import clean
from workloads.api import Json


def first_of_each_key(events: Sequence[Event]) -> dict[str, Event]:
    """Return the first record of each key."""
    first: dict[str, Event] = {}
    for event in events:
        first.setdefault(event.key, event)
    return first


def text_or_empty(value: Json) -> str:
    """Return a string unchanged, and an empty string for all other values."""
    return value if isinstance(value, str) else ""


def object_or_empty(value: Json) -> Mapping[str, Json]:
    """Return an object unchanged, and an empty mapping for all other values."""
    return value if isinstance(value, dict) else {}


def named_numbers(value: Json) -> Mapping[str, float]:
    """Return the numbers in an object by name. At most 64 numbers are returned."""
    if not isinstance(value, dict):
        return NO_FIGURES
    return numbers({name[:100]: item for name, item in list(value.items())[:64]})


def plain_values(first: Mapping[str, Event]) -> dict[str, Json]:
    """Return the numbers, strings, and short lists of all keys that are not structural."""
    return {
        key: event.value
        for key, event in first.items()
        if key not in STRUCTURAL and _is_plain(event.value)
    }


def _is_plain(value: Json) -> bool:
    """Check whether a value is a number, a short string, or a short list.

    The limits are 1,000 characters for a string and 64 items for a list.
    """
    items = value if isinstance(value, list) else [value]
    return len(items) <= 64 and all(
        isinstance(item, (bool, int, float)) or (isinstance(item, str) and len(item) <= 1000)
        for item in items
    )


def described_run(
    path: Path, log_format: str, first: Mapping[str, Event], digest: str, benchmark: str = ""
) -> RunRecord:
    """Return a record with the benchmark, organization, and simple values of a run.

    The simple values are the numbers, short strings, and short lists in the log. `benchmark` is the
    default for logs that do not contain the name of the benchmark.
    """

    def text(key: str) -> str:
        return text_or_empty(first[key].value) if key in first else ""

    return RunRecord(
        path=path,
        format=log_format,
        benchmark=text("submission_benchmark") or benchmark,
        org=text("submission_org"),
        division=text("submission_division"),
        submission_status=text("submission_status"),
        platform=text("submission_platform"),
        logged=plain_values(first),
        digest=digest,
    )


def with_result(
    record: RunRecord,
    clock: RunClock,
    end: RunEnd,
    evaluations: Evaluations,
    throughput: tuple[Throughput, ...],
) -> RunRecord:
    """Add the time, evaluations, throughput, and end of a run to its record."""
    return replace(
        record,
        start_ms=clock.start.time_ms if clock.start else None,
        seconds=clock.seconds,
        end=end,
        evaluations=with_scores(evaluations.used, throughput),
        quality=evaluations.last_quality,
        throughput=throughput,
    )


def read_seed(event: Event | None, problems: list[Problem]) -> int | None:
    """Return the seed as an integer.

    Null and the string "none", which occurs in logs of Google, mean that the run has no seed. All
    other values that are not integers are problems.
    """
    if event is None or event.value in (None, "none", "None"):
        return None
    seed = whole_number(event.value)
    if seed is not None and abs(seed) < 2**64:  # frameworks do not accept seeds with more bits
        return seed
    shown = clean(str(event.value), 40)
    text = f"{event.key} is not an integer below 2^64: {shown}"
    problems.append(Problem(event.line, ProblemCode.SEED, text))
    return None


def throughput_blocks(events: Sequence[Event], start: Event | None) -> tuple[Throughput, ...]:
    """Return the contents of all `tracked_stats` records in a log."""
    return tuple(_throughput(event, start) for event in events if event.key == "tracked_stats")


def _throughput(event: Event, start: Event | None) -> Throughput:
    stats, step = object_or_empty(event.value), number(event.metadata.get("step"))
    names = (
        "samples",
        "train_seconds",
        "evaluation_seconds",
        "data_wait_seconds",
        "loss",
        "data_bytes",
    )
    return Throughput(
        line=event.line,
        seconds=None if start is None else (event.time_ms - start.time_ms) / 1000.0,
        step=int(step) if step is not None else None,
        samples_per_second=number(stats.get("throughput")),
        rates=named_numbers(stats.get("rates")),
        scores=named_numbers(stats.get("scores")),
        **{name: number(stats.get(name)) for name in names},
    )


def with_scores(
    evaluations: tuple[Evaluation, ...], throughput: Sequence[Throughput]
) -> tuple[Evaluation, ...]:
    """Add the scores of each block to the block's evaluation.

    The scores are read from the `tracked_stats` record after the evaluation.
    """
    if not any(block.scores for block in throughput):
        return evaluations
    lines = [block.line for block in throughput]
    ends = [*(evaluation.line for evaluation in evaluations[1:]), math.inf]
    scored = []
    for evaluation, end in zip(evaluations, ends, strict=False):
        after = bisect_right(lines, evaluation.line)
        follows = after < len(lines) and lines[after] < end
        scored.append(
            replace(evaluation, scores=throughput[after].scores) if follows else evaluation
        )
    return tuple(scored)
