"""Check the time stamps and the measured seconds in a log of this suite.

`time_ms` is the wall-clock time at the start of the log plus the elapsed time of a monotonic clock,
so `time_ms` never decreases (suite/worker/runlog.py). Training seconds, evaluation seconds, and
`suite_condition.seconds` use the same monotonic clock as `time_ms`. Rank 0 measures
`suite_condition.seconds` from just before the `run_start` record to just after the `run_stop`
record (suite/worker/loop.py).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from suite.compliance.complaints import Complaint
from suite.compliance.log_origin import NEVER_EDIT
from suite.compliance.logged_workload import suite_run_value
from suite.results.logs.events import Event, number
from suite.results.logs.record import RunRecord
from workloads.api import Json

STAMP_MS = 10.0
"""Maximum difference in milliseconds between two measurements of the same interval with the same
clock.

Time stamps are rounded to milliseconds. Seconds are rounded to 0.0001 in `suite_condition` and to
1e-9 in `tracked_stats`.
"""
START_SECONDS = 2.0
"""Maximum seconds that a process needs to read the kernel's counters near `run_start` and
`run_stop`.

The maximum is also sufficient on a busy machine.
"""
START_SECONDS_OF_MANY = 10.0
"""Maximum seconds that several processes need to read the kernel's counters.

Versions without `code_digest` logged the longest measurement of all processes, which start at
different times.
"""
RUN_START_SECONDS = 10.0
"""Maximum seconds between `run_start` and the record that `run_start` must directly follow.

Typical delays are milliseconds. On a busy machine, the delay can be seconds.
"""
_WITHIN_RUN = frozenset({"block", "epoch", "eval"})
_BEFORE_RUN = ("submission_benchmark", "cache_clear", "suite_run", "init_start", "init_stop")


def find_clock_complaints(record: RunRecord, events: Sequence[Event]) -> Iterator[Complaint]:
    """Yield complaints about time stamps that are impossible in a run.

    `events` contains all records in the order of the file.
    """
    yield from _falling_stamps(events)
    starts = [event for event in events if event.key == "run_start"]
    stops = [event for event in events if event.key == "run_stop"]
    if len(starts) != 1 or len(stops) != 1:
        return  # the rules and the log reader already report this error
    start, stop = starts[0], stops[0]
    yield from _order(events, events.index(start), events.index(stop))
    yield from _start_delay(events, start)
    yield from _block_seconds(events)
    yield from _total_seconds(record, start, stop)
    yield from _counted_seconds(record, events, start, stop)


def _falling_stamps(events: Sequence[Event]) -> Iterator[Complaint]:
    for earlier, event in itertools.pairwise(events):
        if event.time_ms < earlier.time_ms:
            found = (
                f"{event.time_ms:.0f} ms, {earlier.time_ms - event.time_ms:.0f} ms before line"
                f" {earlier.line}"
            )
            yield Complaint("time_ms", event.line, found, "time stamps that never fall", NEVER_EDIT)
            return


def _order(events: Sequence[Event], start: int, stop: int) -> Iterator[Complaint]:
    """Yield complaints about records on the wrong side of `run_start` or `run_stop`.

    Records of blocks and evaluations must be between `run_start` and `run_stop`. Records of the
    initialization must precede `run_start`.
    """
    for event in events[:start]:
        if _is_within_run(event):
            needed = f"after run_start (line {events[start].line})"
            yield Complaint(event.key, event.line, "before run_start", needed, NEVER_EDIT)
            break
    for event in events[start:]:
        if event.key in _BEFORE_RUN:
            needed = f"before run_start (line {events[start].line})"
            yield Complaint(event.key, event.line, "after run_start", needed, NEVER_EDIT)
            break
    for event in events[stop:]:
        if _is_within_run(event):
            needed = f"before run_stop (line {events[stop].line})"
            yield Complaint(event.key, event.line, "after run_stop", needed, NEVER_EDIT)
            break


def _is_within_run(event: Event) -> bool:
    part, _, edge = event.key.partition("_")
    return event.key in ("tracked_stats", "eval_accuracy") or (
        part in _WITHIN_RUN and edge in ("start", "stop")
    )


def _start_delay(events: Sequence[Event], start: Event) -> Iterator[Complaint]:
    """Check that `run_start` directly follows `init_stop`, or `suite_run` if setup is timed."""
    key = "init_stop" if any(event.key == "init_stop" for event in events) else "suite_run"
    before = [event for event in events if event.key == key]
    if not before:
        return
    delay_ms = start.time_ms - before[-1].time_ms
    if delay_ms > RUN_START_SECONDS * 1e3:
        found = f"{delay_ms / 1e3:.3f} s after {before[-1].key}"
        needed = f"at most {RUN_START_SECONDS:g} s after {before[-1].key} (line {before[-1].line})"
        yield Complaint("run_start", start.line, found, needed, NEVER_EDIT)


def _block_seconds(events: Sequence[Event]) -> Iterator[Complaint]:
    """Check that each block lasted at least as long as the block's training and evaluation."""
    begun: Event | None = None
    for event in events:
        if event.key == "block_start":
            begun = event
        if event.key != "tracked_stats" or begun is None or not isinstance(event.value, dict):
            continue
        seconds = _sum_seconds(
            event.value.get(name) for name in ("train_seconds", "evaluation_seconds")
        )
        lasted_ms = event.time_ms - begun.time_ms
        if seconds is not None and seconds * 1e3 > lasted_ms + STAMP_MS:
            found = f"{seconds:.3f} s of training and evaluation"
            needed = (
                f"at most {lasted_ms / 1e3:.3f} s, the time since block_start (line {begun.line})"
            )
            yield Complaint("tracked_stats", event.line, found, needed, NEVER_EDIT)
            return


def _total_seconds(record: RunRecord, start: Event, stop: Event) -> Iterator[Complaint]:
    blocks = record.throughput
    seconds = math.fsum(
        (block.train_seconds or 0.0) + (block.evaluation_seconds or 0.0) for block in blocks
    )
    lasted_ms = stop.time_ms - start.time_ms
    if seconds * 1e3 > lasted_ms + STAMP_MS * (len(blocks) + 1):
        found = f"{lasted_ms / 1e3:.3f} s after run_start"
        needed = f"at least {seconds:.3f} s, the training and evaluation of all blocks"
        yield Complaint("run_stop", stop.line, found, needed, NEVER_EDIT)


def _counted_seconds(
    record: RunRecord, events: Sequence[Event], start: Event, stop: Event
) -> Iterator[Complaint]:
    """Compare the time from `run_start` to `run_stop` with `suite_condition.seconds`.

    `suite_condition.seconds` does not include the interruptions of a resumed run.
    """
    lasted = (stop.time_ms - start.time_ms) / 1e3
    counts_single_process = record.settings.devices == 1 or bool(
        suite_run_value(events).get("code_digest")
    )
    tolerance = START_SECONDS if counts_single_process else START_SECONDS_OF_MANY
    for event in events:
        if event.key != "suite_condition" or not isinstance(event.value, dict):
            continue
        counted = number(event.value.get("seconds"))
        if counted is None:
            continue
        is_short = lasted < counted - tolerance
        is_long = lasted > counted + STAMP_MS / 1e3 and not record.resumptions
        if is_short or is_long:
            found = f"{counted:.4f} seconds"
            needed = (
                f"{lasted:.3f} to {lasted + tolerance:.3f}, as run_stop - run_start is"
                f" {lasted:.3f} s"
            )
            yield Complaint("suite_condition", event.line, found, needed, NEVER_EDIT)
            return


def _sum_seconds(values: Iterator[Json]) -> float | None:
    """Return the sum of the numbers in `values`, or None if there are no numbers."""
    numbers = [seconds for value in values if (seconds := number(value)) is not None]
    return math.fsum(numbers) if numbers else None
