"""Check that runs belong to the same result.

The runs must be from the same experiment and submission, and no log may be a copy of another run's
log.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path

import numpy as np
import numpy.typing as npt

from suite.results.columns import run_of_log
from suite.results.experiment_key import HYPERPARAMETERS, differences, value_text
from suite.results.logs.lines import read_file
from suite.results.logs.record import RunRecord
from suite.results.text import clean

SHIFTED_TOLERANCE_MS, SCALED_TOLERANCE_MS = 1.0, 2.0
"""Maximum differences in milliseconds between the timestamps of a log and those of its copy.

Timestamps are whole milliseconds. A copy whose times were shifted by a constant therefore differs
from its original by at most 1 ms. A copy whose times were scaled by a factor differs by at most 2
ms. Among 19,657 pairs of published runs (rounds v1.0 to v5.1), the two most similar runs differ by
3.4 ms after scaling.
"""
MAX_EDITED_STAMPS = 2
"""Maximum number of edited timestamps in a shifted copy, such as the timestamp of `run_start`."""
SEPARATE_STAMPS_MS = 20.0
"""Minimum distance of distinct timestamps in milliseconds. Timestamps that are closer than this
distance count as a single timestamp.
"""
MIN_SHIFTED_STAMPS, MIN_SCALED_STAMPS = 4, 6
"""Minimum number of distinct timestamps in a log for detecting shifted and scaled copies. With
fewer timestamps, copies cannot be distinguished from unrelated runs.
"""
MAX_PAUSES = 2
"""Maximum number of pauses that may have been added to a shifted copy.

The timestamps before and after an added pause are shifted by different constants.
"""
MIN_COPIED_SHARE = 0.75
"""Minimum share of timestamps that a copy with added, removed, or edited lines must have in common
with its original.

The share is relative to the log with fewer distinct timestamps.
"""
MIN_COPIED_SHARE_WITH_PAUSES = 0.9
"""Minimum share of common timestamps for copies with added pauses, relative to the log with more
distinct timestamps.

This minimum is higher than MIN_COPIED_SHARE, because the shift may differ between pauses, so more
timestamps of unrelated runs agree by chance.
"""
MIN_COPIED_STAMPS = 10
"""Minimum number of common timestamps for copies with added, removed, or edited lines.

Fewer than this number of timestamps may agree by chance.
"""
MIN_SCALED_COPIED_STAMPS = 12
"""Minimum number of common timestamps for scaled copies. The minimum is higher than
MIN_COPIED_STAMPS, because a scaling factor is also fitted.
"""
MAX_STAMPS = 500
"""Maximum number of compared timestamps per log."""
_STAMPED_KEYS = frozenset(
    {
        *("run_start", "run_stop", "block_start", "block_stop", "epoch_start", "epoch_stop"),
        *("eval_start", "eval_stop", "eval_accuracy"),
    }
)


@dataclass(frozen=True)
class RunTrace:
    """Timestamps and machines of a run, as recorded in its log."""

    name: str
    """Last components of the log's path."""
    start_ms: float
    stop_ms: float
    spans_ms: tuple[tuple[float, float], ...]
    """Start and end times of the intervals in which the run's processes trained.

    The time between an interruption and the resumption is excluded.
    """
    stamps_ms: tuple[float, ...]
    """Timestamps of `run_start`, `run_stop`, and the start and end of blocks, epochs, and
    evaluations, in log order.
    """
    moments_ms: tuple[float, ...]
    """Distinct timestamps in ascending order, without timestamps that are close to their
    predecessor.
    """
    machines: frozenset[str]
    """Digests of the machines' names in `suite_run` (docs/reference/log_format.md).

    The set is empty if the log does not contain the digests.
    """
    system: str
    """`system` in `suite_run`. The string is empty if another program wrote the log."""
    code_digest: str
    """`code_digest` in `suite_run`. The string is empty for logs of other programs or of older
    versions.
    """


def difference(records: Sequence[RunRecord]) -> str:
    """Describe the first setting that must be equal in all runs but differs.

    The description contains both values of the setting and the logs with these values. The string
    is empty if all settings are equal.
    """
    earlier = records[0]
    # `write_code` checks whether the different commits contain the same code.
    for later in records[1:]:
        names = ("org", "submission_status", "platform")
        pairs = {name: (getattr(earlier, name), getattr(later, name)) for name in names}
        pairs |= differences(run_of_log(earlier), run_of_log(later))
        for name, (first, second) in pairs.items():
            if first != second:
                values = (
                    f"{value_text(name, first)} in {_short_path(earlier)},"
                    f" {value_text(name, second)} in {_short_path(later)}"
                )
                return f"{clean(name.removeprefix(f'{HYPERPARAMETERS}.'))}: {values}"
    return ""


def find_copy(records: Sequence[RunRecord], earlier: Sequence[RunRecord] = ()) -> str:
    """Describe two logs that are copies of the same run, or return an empty string.

    Two logs are copies if their start times are equal, or if the differences between their
    timestamps are equal or proportional. Seeds are not compared, because a user could edit the seed
    in a copy.

    Args:
        records: Runs that are compared with each other.
        earlier: Runs that are compared only with `records`.
    """
    traces = _traces(records)
    for first, second in (*combinations(traces, 2), *product(_traces(earlier), traces)):
        names = f"{first.name} and {second.name}"
        if first.start_ms == second.start_ms:
            return f"{names} have the same run_start"
        if _are_shifted(first, second):
            return f"{names} have the same time stamps, shifted by a constant"
        if _are_scaled(first, second):
            return f"{names} have the same time stamps, multiplied by a constant"
        if _have_shifted_parts(first, second):
            return f"{names} have most time stamps in common, shifted by a constant"
        if _have_scaled_parts(first, second):
            return f"{names} have most time stamps in common, multiplied by a constant"
    return ""


def find_overlap(records: Sequence[RunRecord]) -> str:
    """Return the names of two logs of this suite whose runs overlapped on a machine.

    The string is empty if no runs overlapped in time. Logs of older suite versions do not name
    their machines, so these logs are compared by `system`.
    """
    for first, second in _overlapping(records):
        if first.system and second.system and _may_share_machine(first, second):
            return f"{first.name} and {second.name}"
    return ""


def find_foreign_overlap(records: Sequence[RunRecord]) -> str:
    """Return the names of two logs of other programs whose runs overlapped in time.

    The string is empty if no runs overlapped. The runs may have used different machines, because
    logs of other programs do not name their machines. In rounds v1.0 to v5.1, 215 of the 1,326
    published result sets contain overlapping runs, because large clusters train several runs in
    parallel.
    """
    pairs = _overlapping(records)
    return next(
        (f"{first.name} and {second.name}" for first, second in pairs if not first.system), ""
    )


def find_different_code(records: Sequence[RunRecord]) -> str:
    """Return the names of two logs whose workers imported different code.

    The string is empty if all workers imported the same code.
    """
    traces = [trace for trace in _traces(records) if trace.code_digest]
    second = next((trace for trace in traces if trace.code_digest != traces[0].code_digest), None)
    return "" if second is None else f"{traces[0].name} and {second.name}"


def _overlapping(records: Sequence[RunRecord]) -> Iterator[tuple[RunTrace, RunTrace]]:
    """Yield the pairs of runs that trained at the same time."""
    ordered = sorted(_traces(records), key=lambda trace: trace.start_ms)
    for position, first in enumerate(ordered):
        for second in ordered[position + 1 :]:
            if second.start_ms >= first.stop_ms:
                break
            if any(a < d and c < b for a, b in first.spans_ms for c, d in second.spans_ms):
                yield first, second


def _may_share_machine(first: RunTrace, second: RunTrace) -> bool:
    if first.machines and second.machines:
        return not first.machines.isdisjoint(second.machines)
    return first.system == second.system


def _are_shifted(first: RunTrace, second: RunTrace) -> bool:
    """Check whether the timestamps of two logs differ by a constant.

    Up to MAX_EDITED_STAMPS timestamps may differ by another amount.
    """
    ours, theirs = _moments(first, second)
    if len(ours) < MIN_SHIFTED_STAMPS:
        return False
    offsets = ours - theirs
    edited = int(np.count_nonzero(np.abs(offsets - np.median(offsets)) > SHIFTED_TOLERANCE_MS))
    return edited <= min(MAX_EDITED_STAMPS, len(ours) - MIN_SHIFTED_STAMPS)


def _are_scaled(first: RunTrace, second: RunTrace) -> bool:
    """Check whether the times since the start differ by the same factor in two logs."""
    ours, theirs = _moments(first, second)
    if len(ours) < MIN_SCALED_STAMPS:
        return False
    ours, theirs = ours - ours[0], theirs - theirs[0]
    # scale the longer run down, so that rounding errors are not magnified
    if ours[-1] > theirs[-1]:
        ours, theirs = theirs, ours
    return bool(np.all(np.abs(ours - theirs * (ours[-1] / theirs[-1])) <= SCALED_TOLERANCE_MS))


def _have_shifted_parts(first: RunTrace, second: RunTrace) -> bool:
    """Check whether most timestamps differ by a constant, which may change at pauses.

    The copy may contain added, removed, edited, or reordered lines.
    """
    ours, theirs = np.array(first.moments_ms), np.array(second.moments_ms)
    needed = max(MIN_COPIED_STAMPS, MIN_COPIED_SHARE * min(len(ours), len(theirs)))
    needed_with_pauses = max(
        MIN_COPIED_STAMPS, MIN_COPIED_SHARE_WITH_PAUSES * max(len(ours), len(theirs))
    )
    copied = 0
    for part in range(MAX_PAUSES + 1):
        if min(len(ours), len(theirs)) < MIN_SHIFTED_STAMPS:
            break
        offsets = theirs[np.newaxis, :] - ours[:, np.newaxis]
        ordered = np.sort(offsets, axis=None)
        ends = np.searchsorted(ordered, ordered + 2 * SHIFTED_TOLERANCE_MS, side="right")
        begin = int(np.argmax(ends - np.arange(len(ordered))))
        least, most = ordered[begin], ordered[begin] + 2 * SHIFTED_TOLERANCE_MS
        is_equal = (offsets >= least) & (offsets <= most)
        count = int(np.count_nonzero(is_equal.any(axis=1)))
        if count < MIN_SHIFTED_STAMPS:
            break
        copied += count
        if copied >= (needed_with_pauses if part else needed):
            return True
        ours, theirs = ours[~is_equal.any(axis=1)], theirs[~is_equal.any(axis=0)]
    return False


def _have_scaled_parts(first: RunTrace, second: RunTrace) -> bool:
    """Check whether a log is a scaled and shifted copy, except for MAX_EDITED_STAMPS.

    The copy may contain added or removed lines. The scaling factor is computed from a timestamp
    near the start and a timestamp near the end of each log.
    """
    ours, theirs = np.array(first.moments_ms), np.array(second.moments_ms)
    # Search for each timestamp of the shorter log in the longer log.
    if len(ours) > len(theirs):
        ours, theirs = theirs, ours
    if len(ours) < MIN_SCALED_COPIED_STAMPS:
        return False
    needed = max(MIN_SCALED_COPIED_STAMPS - MAX_EDITED_STAMPS, len(ours) - MAX_EDITED_STAMPS)
    for begin, end, their_begin, their_end in product((0, 1), (-1, -2), (0, 1), (-1, -2)):
        factor = (theirs[their_end] - theirs[their_begin]) / (ours[end] - ours[begin])
        expected = theirs[their_begin] + (ours - ours[begin]) * factor
        after = np.clip(np.searchsorted(theirs, expected), 1, len(theirs) - 1)
        distances = np.minimum(
            np.abs(expected - theirs[after]), np.abs(expected - theirs[after - 1])
        )
        if np.count_nonzero(distances <= SCALED_TOLERANCE_MS * max(1.0, factor)) >= needed:
            return True
    return False


def _moments(
    first: RunTrace, second: RunTrace
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the distinct timestamps of both logs.

    The arrays are empty if the logs have different numbers of timestamps.
    """
    if len(first.stamps_ms) != len(second.stamps_ms) or len(first.stamps_ms) < MIN_SHIFTED_STAMPS:
        return np.empty(0), np.empty(0)
    ours, theirs = np.array(first.stamps_ms), np.array(second.stamps_ms)
    separate = np.minimum(np.diff(ours), np.diff(theirs)) > SEPARATE_STAMPS_MS
    kept = np.concatenate([[True], separate])
    return ours[kept], theirs[kept]


def _traces(records: Sequence[RunRecord]) -> list[RunTrace]:
    """Return the traces of the runs that logged `run_start` and a later `run_stop`."""
    timed = [record for record in records if record.start_ms is not None]
    found = [_read_trace(record.path, _stamp_of_file(record.path)) for record in timed]
    return [trace for trace in found if trace is not None]


def _stamp_of_file(path: Path) -> tuple[int, int, int]:
    """Return the inode, size, and modification time of a file, to detect changes."""
    facts = os.stat(path)
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


@functools.lru_cache(maxsize=4096)
def _read_trace(path: Path, stamp_of_file: tuple[int, int, int]) -> RunTrace | None:
    """Return the trace of a log, or None if it has no `run_start` or no later `run_stop`.

    `stamp_of_file` is used only as a cache key, so that a modified file is read again.
    """
    del stamp_of_file
    events = read_file(path).events
    start = next((event.time_ms for event in events if event.key == "run_start"), None)
    stops = [event.time_ms for event in events if event.key == "run_stop"]
    if start is None or not stops or stops[-1] < start:
        return None
    stamps = [event.time_ms for event in events if event.key in _STAMPED_KEYS]
    run = next((event.value for event in events if event.key == "suite_run"), None)
    settings = run if isinstance(run, dict) else {}
    machines = settings.get("machines")
    spans, begin, previous = list[tuple[float, float]](), start, start
    for event in events:
        if start <= event.time_ms <= stops[-1]:
            if event.key == "suite_continued":
                spans.append((begin, previous))
                begin = event.time_ms
            previous = event.time_ms
    return RunTrace(
        spans_ms=(*spans, (begin, stops[-1])),
        name=clean("/".join(path.parts[-3:]), 200),
        start_ms=start,
        stop_ms=stops[-1],
        stamps_ms=tuple(stamps[:MAX_STAMPS]),
        moments_ms=_separate_moments(stamps[:MAX_STAMPS]),
        machines=(
            frozenset(str(name) for name in machines) if isinstance(machines, list) else frozenset()
        ),
        system=str(settings.get("system") or ""),
        code_digest=str(settings.get("code_digest") or ""),
    )


def _separate_moments(stamps: Sequence[float]) -> tuple[float, ...]:
    """Return the distinct timestamps in ascending order."""
    moments: list[float] = []
    for stamp in sorted(stamps):
        if not moments or stamp - moments[-1] > SEPARATE_STAMPS_MS:
            moments.append(stamp)
    return tuple(moments)


def _short_path(record: RunRecord) -> str:
    return clean("/".join(record.path.parts[-3:]), 200)
