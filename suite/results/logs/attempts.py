"""Finds the attempts in a log to which a relaunched program appended, and chooses the attempt that counts.

Several processes of one run may write to the same file. They repeat records within seconds, and each may log a seed. A
relaunch repeats records later, or after the first attempt has trained.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from suite.results.logs.events import Event
from suite.results.logs.keys import STRUCTURAL

_RELAUNCH_MS = 1000.0
"""A program takes longer than this to start."""
SIMULTANEOUS_MS = 20_000.0
"""Processes of one run write the same record within this time. In 13,000 published logs, 11 s pass at most between the
seeds of two processes."""
_TRAINED = frozenset({"epoch_stop", "block_stop", "eval_start", "eval_stop", "eval_accuracy", "tracked_stats", "run_stop"})
"""Keys of records that a run writes only after it has trained."""
_IN_ORDER = frozenset({"init_stop", "run_start", "train_loop", "epoch_start", "block_start", "eval_result"}) | _TRAINED
"""Keys of records that do not belong to the header of an attempt."""
_IDENTITY = tuple(sorted(key for key in STRUCTURAL if key.startswith("submission_")))
_HEADER = frozenset({*_IDENTITY, "cache_clear", "init_start", "seed", "run_set_random_seed", "global_batch_size"})
"""Keys that a program logs only before it trains."""
_OPENS = ("init_start", "run_start", "submission_benchmark")
"""Keys of which a file with several attempts has several records."""


@dataclass(frozen=True)
class Attempt:
    """One attempt of a run: its records in the order of the file."""

    events: Sequence[Event]

    @property
    def complete(self) -> bool:
        """True if the attempt has a start and an end."""
        keys = {event.key for event in self.events}
        return "run_start" in keys and "run_stop" in keys

    @property
    def lines(self) -> tuple[int, int]:
        """First and last line in the file."""
        return min(event.line for event in self.events), max(event.line for event in self.events)


def without_repeats(events: Iterable[Event]) -> list[Event]:
    """Return the records in the order of the file, without further records of the same text."""
    unique: dict[int, Event] = {}
    for event in events:
        unique.setdefault(event.mark, event)
    return list(unique.values())


def find_attempts(events: Sequence[Event]) -> list[Attempt]:
    """Return the attempts in a log, in order of time.

    The list has one attempt for a log of one run, also if several processes wrote it, or if it was continued from a
    checkpoint.

    Args:
        events: Records in the order of the file, without repeats.
    """
    counts = dict.fromkeys(_OPENS, 0)
    for event in events:
        if event.key in counts:
            counts[event.key] += 1
        if event.key == "suite_continued":
            return [Attempt(events)]
    if max(counts.values()) < 2:
        return [Attempt(events)]
    by_time = sorted(range(len(events)), key=lambda index: events[index].time_ms)
    starts = _start_positions([events[index] for index in by_time])
    ends = [*starts[1:], len(by_time)]
    parts = [sorted(by_time[start:end]) for start, end in zip(starts, ends, strict=True)]
    return [Attempt([events[index] for index in part]) for part in parts]


def choose_attempt(attempts: Sequence[Attempt]) -> int:
    """Return the number (from 0) of the last complete attempt, or of the last attempt if none is complete."""
    complete = [index for index, attempt in enumerate(attempts) if attempt.complete]
    return complete[-1] if complete else len(attempts) - 1


def events_with_identity(attempts: Sequence[Attempt], chosen: int) -> Sequence[Event]:
    """Return the records of an attempt, and those of the submission's identity that only other attempts have.

    A wrapper script may write the identity once, before the first attempt.
    """
    events = attempts[chosen].events
    logged = {event.key for event in events}
    every = (event for attempt in attempts for event in attempt.events)
    identity = [event for event in every if event.key in _IDENTITY and event.key not in logged]
    return [*identity, *events]


def attempts_text(attempts: Sequence[Attempt], chosen: int) -> str:
    """Return the remark on a log with several attempts: `2 attempts in one file: attempt 2 (lines 40 to 90) is used, …`."""
    first, last = attempts[chosen].lines
    which = "the last complete attempt" if attempts[chosen].complete else "the last attempt; no attempt is complete"
    return f"{len(attempts)} attempts in one file: attempt {chosen + 1} (lines {first} to {last}) is used, {which}"


def _start_positions(events: Sequence[Event]) -> list[int]:
    """Return where attempts begin among records in order of time."""
    return _with_runs(events, [0, *_restarts(events)])


def _restarts(events: Sequence[Event]) -> Iterator[int]:
    """Yield the position of the first record of every attempt after the first."""
    start = 0
    first_ms: dict[str, float] = {}
    trained = False
    for position, event in enumerate(events):
        begins = None
        if event.key in ("init_start", "run_start"):
            begun_ms = [first_ms[key] for key in ("init_stop", "run_start") if key in first_ms]
            if event.key == "run_start":
                begun_ms = [first_ms["run_start"]] if "run_start" in first_ms else []
            least_ms = _RELAUNCH_MS if trained else SIMULTANEOUS_MS
            if begun_ms and event.time_ms - min(begun_ms) >= least_ms:
                begins = _first_of_header(events, start, position)
        elif event.key in ("global_batch_size", "seed") and not first_ms.keys() & {"init_stop", "run_start"}:
            begins = _after_dead_start(events, start, position)
        if begins is not None:
            yield begins
            start, trained = begins, False
            first_ms = {}
            for earlier in events[begins:position]:
                first_ms.setdefault(earlier.key, earlier.time_ms)
        trained = trained or (event.key in _TRAINED and "run_start" in first_ms)
        first_ms.setdefault(event.key, event.time_ms)


def _first_of_header(events: Sequence[Event], start: int, position: int) -> int:
    """Return where the header of a new attempt begins, one record of which stands at `position`.

    The header repeats records of the attempt from `start` on. If that attempt came as far as `init_stop`, its header ended
    before its last record in `_IN_ORDER`.
    """
    keys = [event.key for event in events[start:position]]
    ended = next((index for index in range(len(keys), 0, -1) if keys[index - 1] in _IN_ORDER), 0)
    if ended:
        logged = set(keys[:ended])
        openings = (index for index in range(ended, len(keys)) if keys[index] in _HEADER and keys[index] in logged)
        return start + next(openings, len(keys))
    first = len(keys)
    while first and keys[first - 1] in keys[: first - 1]:
        first -= 1
    return start + first


def _after_dead_start(events: Sequence[Event], start: int, position: int) -> int | None:
    """Return where a new attempt begins if the attempt from `start` on died before `init_stop`, else None.

    `position`: a `global_batch_size` or `seed`. A run has one batch, and its processes log their seeds within seconds.
    """
    event = events[position]
    earlier = next((other for other in events[start:position] if other.key == event.key), None)
    if earlier is None:
        return None
    begins = _first_of_header(events, start, position)
    if not any(other.key in ("init_start", "submission_benchmark") for other in events[begins:position]):
        return None
    paused = events[begins].time_ms - events[begins - 1].time_ms >= SIMULTANEOUS_MS
    other_batch = event.key == "global_batch_size" and event.value != earlier.value
    return begins if paused or other_batch else None


def _with_runs(events: Sequence[Event], starts: Sequence[int]) -> list[int]:
    """Return the starts without those of parts that hold a `run_stop` but no `run_start`: they continue an attempt."""
    kept = [starts[0]]
    for start, end in itertools.pairwise([*starts[1:], len(events)]):
        keys = {event.key for event in events[start:end]}
        if "run_start" in keys or "run_stop" not in keys:
            kept.append(start)
    return kept
