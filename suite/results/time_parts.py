"""The parts of a time to target: setup, training, waiting for data, evaluation, and other.

They add up to the whole.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from suite.results.logs.record import RunRecord

_TOLERANCE = 0.01
"""The parts of a contradictory log exceed the whole by more than this share of it."""
_CLOCK_SECONDS = 0.05
"""Time stamps are milliseconds, and each block rounds twice."""


class TimeParts(NamedTuple):
    """Seconds of a run from `run_start` to `run_stop`, separated by activity."""

    setup: float
    """Before the first block.

    Under clock v0.5 this includes building the model and loading the data.
    """
    training: float
    """In training steps, without waiting for data."""
    data_wait: float
    evaluation: float
    other: float
    """Checkpoints, interruptions, and the time between blocks."""

    @property
    def total(self) -> float:
        """The time to target."""
        return sum(self)

    @property
    def outside_epochs(self) -> float:
        """Setup and other: what more devices do not make faster."""
        return self.setup + self.other


def time_parts(record: RunRecord) -> TimeParts | None:
    """Return the parts of a run's time, if its log separates them consistently."""
    times, whole = record.block_times, record.seconds
    training = [block.train_seconds for block in record.throughput]
    measured = [seconds for seconds in training if seconds is not None]
    if times is None or whole is None or not measured or len(measured) < len(training):
        return None
    evaluation = sum(block.evaluation_seconds or 0.0 for block in record.throughput)
    data_wait = sum(block.data_wait_seconds or 0.0 for block in record.throughput)
    trained = sum(measured)
    remaining = whole - times.setup_seconds - trained - evaluation
    if remaining < -_TOLERANCE * whole - _CLOCK_SECONDS or data_wait > trained:
        return None
    setup = max(
        0.0, times.setup_seconds + min(remaining, 0.0)
    )  # a rounding error of the time stamps
    return TimeParts(setup, trained - data_wait, data_wait, evaluation, max(remaining, 0.0))


def mean_parts(records: Sequence[RunRecord | None]) -> TimeParts | None:
    """Return the mean parts of several runs, if the parts of all runs are known."""
    parts = [None if record is None else time_parts(record) for record in records]
    measured = [part for part in parts if part is not None]
    if not measured or len(measured) < len(parts):
        return None
    return TimeParts(*(statistics.fmean(values) for values in zip(*measured, strict=True)))
