"""Find the attempts in a log, and choose the attempt to evaluate.

A log contains several attempts if a program was started again and appended to the file.

The processes of a run may all write to the same file. Records of several processes repeat within
seconds, and each process may log a seed. In contrast, a restarted program repeats records later, or
after the first attempt has trained.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from suite.results.logs.events import Event
from suite.results.logs.keys import STRUCTURAL
from workloads.api import Json

_RELAUNCH_MS = 1000.0
"""Minimum time in ms that a program needs to start."""
SIMULTANEOUS_MS = 20_000.0
"""Maximum time in ms between equal records that two processes of the same run write.

In 13,000 published logs, the seeds of two processes are logged at most 11 s apart.
"""
_MAX_ATTEMPTS = 100
"""Maximum number of attempts in a file."""
_TRAINED = frozenset(
    {
        "epoch_stop",
        "block_stop",
        "eval_start",
        "eval_stop",
        "eval_accuracy",
        "tracked_stats",
        "run_stop",
    }
)
"""Keys of records that a program writes only after training has begun."""
_IN_ORDER = (
    frozenset({"init_stop", "run_start", "train_loop", "epoch_start", "block_start", "eval_result"})
    | _TRAINED
)
"""Keys of records that a program writes only after the header of an attempt."""
_IDENTITY = tuple(sorted(key for key in STRUCTURAL if key.startswith("submission_")))
_HEADER = frozenset(
    {*_IDENTITY, "cache_clear", "init_start", "seed", "run_set_random_seed", "global_batch_size"}
)
"""Keys of records in the header of an attempt, which a program writes before training."""
_OPENS = ("init_start", "run_start", "submission_benchmark")
"""Keys of which at least one occurs repeatedly if a file contains several attempts."""


@dataclass(frozen=True)
class Attempt:
    """Records of an attempt in file order."""

    events: Sequence[Event]

    @property
    def complete(self) -> bool:
        """Return True if the attempt contains `run_start` and `run_stop`."""
        keys = {event.key for event in self.events}
        return "run_start" in keys and "run_stop" in keys

    @property
    def lines(self) -> tuple[int, int]:
        """Return the first and last line numbers of the attempt in the file."""
        return min(event.line for event in self.events), max(event.line for event in self.events)


def find_attempts(events: Sequence[Event]) -> list[Attempt]:
    """Return the attempts in a log, in order of time.

    A log of a single run contains a single attempt, even if several processes wrote to the log.

    Args:
        events: Records in file order, without repeated records.
    """
    counts = dict.fromkeys(_OPENS, 0)
    for event in events:
        if event.key in counts:
            counts[event.key] += 1
    if max(counts.values()) < 2:
        return [Attempt(events)]
    by_time = sorted(range(len(events)), key=lambda index: events[index].time_ms)
    starts = _start_positions([events[index] for index in by_time])
    ends = [*starts[1:], len(by_time)]
    parts = [sorted(by_time[start:end]) for start, end in zip(starts, ends, strict=True)]
    return [Attempt([events[index] for index in part]) for part in parts]


def choose_attempt(attempts: Sequence[Attempt]) -> int:
    """Return the index of the last complete attempt.

    If no attempt is complete, the function returns the index of the last attempt.
    """
    complete = [index for index, attempt in enumerate(attempts) if attempt.complete]
    return complete[-1] if complete else len(attempts) - 1


def events_with_identity(attempts: Sequence[Attempt], chosen: int) -> Sequence[Event]:
    """Return the records of an attempt, preceded by those that identify the submission.

    A wrapper script may write the identifying records only once, before the first attempt. The
    function therefore searches all attempts for these records.
    """
    events = attempts[chosen].events
    logged = {event.key for event in events}
    every = (event for attempt in attempts for event in attempt.events)
    identity = [event for event in every if event.key in _IDENTITY and event.key not in logged]
    return [*identity, *events]


def attempts_text(attempts: Sequence[Attempt], chosen: int) -> str:
    """Return the remark on a log with several attempts.

    Example: `2 attempts in one file: attempt 2 (lines 40 to 90) is used, …`.
    """
    first, last = attempts[chosen].lines
    which = (
        "the last complete attempt"
        if attempts[chosen].complete
        else "the last attempt, because no attempt is complete"
    )
    return (
        f"{len(attempts)} attempts in one file: attempt {chosen + 1} (lines {first} to {last}) is"
        f" used, {which}"
    )


def _start_positions(events: Sequence[Event]) -> list[int]:
    """Return the index of the first record of each attempt.

    `events` must be sorted by time.
    """
    starts = [0]
    header = _Header()
    for position, event in enumerate(events):
        begins = header.new_attempt(event)
        if begins is not None and len(starts) < _MAX_ATTEMPTS:
            starts.append(begins)
            header = _Header(begins)
            for earlier in events[begins:position]:
                header.add(earlier)
        header.add(event)
    return _with_runs(events, starts)


class _Header:
    """Collects the records of an attempt and detects the header of the next attempt."""

    def __init__(self, start: int = 0) -> None:
        self._position = start
        """Index of the next record."""
        self._first_ms: dict[str, float] = {}
        """Time of the first record of each key."""
        self._last_ms = math.inf
        self._batch: Json = None
        self._trained = False
        self._repeats_from = start
        """Index from which all records repeat keys that the attempt already contains."""
        self._paused_at: int | None = None
        """Index of the first repeated record after a pause of at least SIMULTANEOUS_MS."""
        self._opened_at = -1
        """Index of the last record that is the first record of a header."""
        self._reopened_at: int | None = None
        """Index of the first repeated header record since the last record that cannot be in a
        header.
        """

    def add(self, event: Event) -> None:
        """Add the next record of the attempt, in order of time."""
        repeats = event.key in self._first_ms
        if not repeats or event.key in _IN_ORDER:
            self._repeats_from, self._paused_at = self._position + 1, None
        elif self._paused_at is None and event.time_ms - self._last_ms >= SIMULTANEOUS_MS:
            self._paused_at = self._position
        if event.key in _IN_ORDER:
            self._reopened_at = None
        elif self._reopened_at is None and repeats and event.key in _HEADER:
            self._reopened_at = self._position
        if event.key in ("init_start", "submission_benchmark"):
            self._opened_at = self._position
        self._trained = self._trained or (event.key in _TRAINED and "run_start" in self._first_ms)
        self._first_ms.setdefault(event.key, event.time_ms)
        if event.key == "global_batch_size":
            self._batch = event.value
        self._last_ms = event.time_ms
        self._position += 1

    def new_attempt(self, event: Event) -> int | None:
        """Return the start index of a new attempt, or None if no new attempt begins.

        The function is called with the next record, before the record is added.
        """
        has_started = "init_stop" in self._first_ms or "run_start" in self._first_ms
        if event.key == "run_start" or (event.key == "init_start" and has_started):
            begun_keys = ("run_start",) if event.key == "run_start" else ("init_stop", "run_start")
            begun_ms = min(
                (self._first_ms[key] for key in begun_keys if key in self._first_ms),
                default=math.inf,
            )
            if event.time_ms - begun_ms < (_RELAUNCH_MS if self._trained else SIMULTANEOUS_MS):
                return None
            return self._position if self._reopened_at is None else self._reopened_at
        if (
            has_started
            or event.key not in ("global_batch_size", "seed")
            or event.key not in self._first_ms
        ):
            return None
        # A repeated batch size or seed before init_stop has two possible causes: the attempt died,
        # or a second process of the run is writing.
        other_batch = event.key == "global_batch_size" and event.value != self._batch
        begins = self._repeats_from if other_batch and self._paused_at is None else self._paused_at
        return begins if begins is not None and begins <= self._opened_at else None


def _with_runs(events: Sequence[Event], starts: Sequence[int]) -> list[int]:
    """Return the start indices without those of sections that continue an attempt.

    A section with a `run_stop` but without a `run_start` continues the previous attempt.
    """
    kept = [starts[0]]
    for start, end in itertools.pairwise([*starts[1:], len(events)]):
        keys = {event.key for event in events[start:end]}
        if "run_start" in keys or "run_stop" not in keys:
            kept.append(start)
    return kept
