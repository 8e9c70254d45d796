"""Find the start and end records of a run in a log of another program.

Such a log may contain several start and end records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from suite.results.logs.events import Event, Problem, ProblemCode, number
from suite.results.logs.quality import RunClock


@dataclass(frozen=True)
class _Stops:
    """The `run_stop` records after the `run_start` record."""

    stop: Event | None
    """The record that ends the run."""
    which: str
    """Description of the chosen record for a message about several `run_stop` records."""
    claims: Sequence[tuple[Event, str]]
    """Pairs of a `run_stop` record with a status, and the status."""

    @property
    def claimed(self) -> str | None:
        """Return the status of the first `run_stop` record that has a status."""
        return self.claims[0][1] if self.claims else None


def find_clock(
    events: Sequence[Event], benchmark: str, log_format: str, problems: list[Problem]
) -> RunClock:
    """Return the start and end records of the timed section of a run.

    The records are searched in order of their time stamps. Several starts or several stops with
    different times are a problem.
    """
    keys = ("run_start", "run_stop", "eval_result")
    by_time = sorted((event for event in events if event.key in keys), key=_time)
    starts, stops, results = ([event for event in by_time if event.key == key] for key in keys)
    start = starts[0] if starts else None
    found = _find_stop(events, start, stops)
    _report_repeats(starts, "the first", problems)
    _report_repeats(stops, found.which, problems)
    if events and start is None:
        problems.append(Problem(0, ProblemCode.NO_START, "no run_start"))
    contradicting = next((event for event, status in found.claims if status != found.claimed), None)
    if contradicting is not None:
        text = "run_stop contradicts another one about success; the first is used"
        problems.append(Problem(contradicting.line, ProblemCode.CONTRADICTING_STATUS, text))
    clock = RunClock(start, found.stop, None, found.claimed)
    if log_format == "MLL" and benchmark == "minigo":
        return _minigo_clock(results, clock, problems)
    if events and found.stop is None:
        late = " after run_start" if stops else ""
        text = f"the log ends here: no run_stop{late}, the run was cut off"
        problems.append(Problem(events[-1].line, ProblemCode.NO_STOP, text))
    if start is None or found.stop is None:
        return clock
    return replace(clock, seconds=(found.stop.time_ms - start.time_ms) / 1000.0)


def _time(event: Event) -> float:
    return event.time_ms


def _find_stop(events: Sequence[Event], start: Event | None, stops: Sequence[Event]) -> _Stops:
    """Return the `run_stop` record that ends the run.

    By default, the function returns the first `run_stop`. If an evaluation follows the first
    `run_stop` and precedes the first `run_stop` with a status, the function returns the `run_stop`
    with a status.
    """
    after = [event for event in stops if start is None or event.time_ms >= start.time_ms]
    first = after[0] if after else None
    claims = [(event, status) for event in after if (status := _status_of_stop(event)) is not None]
    with_status = claims[0][0] if claims else first
    if first is not None and with_status is not None:
        for event in events:
            if (
                event.key == "eval_accuracy"
                and first.time_ms < event.time_ms <= with_status.time_ms
            ):
                return _Stops(
                    with_status, "the first with a status, after the last evaluation,", claims
                )
    return _Stops(first, "the first", claims)


def _status_of_stop(event: Event) -> str | None:
    status, value = event.metadata.get("status"), event.value
    if isinstance(status, str):
        return status
    if isinstance(value, dict) and "success" in value:
        return "success" if str(value["success"]).lower() == "true" else "failed"
    return None


def _report_repeats(same_key: Sequence[Event], which: str, problems: list[Problem]) -> None:
    """Add a problem if a key is logged several times with different time stamps."""
    if len({event.time_ms for event in same_key}) > 1:
        text = f"{len(same_key)} different {same_key[0].key}; {which} is used"
        problems.append(Problem(same_key[1].line, ProblemCode.REPEATED_RECORD, text))


def _minigo_clock(results: Sequence[Event], clock: RunClock, problems: list[Problem]) -> RunClock:
    """Return the run clock of a log of MiniGo v0.6.

    MiniGo evaluates its models after training. `eval_result` contains the seconds from the start
    until the winning model was trained.
    """
    for event in results:
        seconds = number(event.metadata.get("timestamp"))
        if seconds is not None:
            text = "MiniGo of v0.6: the time is the one in eval_result, not that of run_stop"
            problems.append(Problem(event.line, ProblemCode.OTHER_CLOCK, text))
            return RunClock(clock.start, event, seconds)
    text = "MiniGo of v0.6 without an eval_result that holds a timestamp: the run has no time"
    problems.append(Problem(clock.end.line if clock.end else 0, ProblemCode.OTHER_CLOCK, text))
    return clock
