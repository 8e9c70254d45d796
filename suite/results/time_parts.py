"""Components of a time to target.

The components are setup, training, waiting for data, evaluation, and other. Their sum is the time
to target.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from suite.results.logs.record import RunRecord

_TOLERANCE = 0.01
"""Maximum relative excess of the sum of components over the total. The log is contradictory
above this limit.
"""
_CLOCK_SECONDS = 0.05
"""Tolerance in seconds, because time stamps are in milliseconds and each block has two rounded time
stamps.
"""


class TimeParts(NamedTuple):
    """Seconds of a run from `run_start` to `run_stop`, separated by activity."""

    setup: float
    """Seconds before the first block.

    Under clock v0.5, setup includes building the model and loading the data.
    """
    training: float
    """Seconds in training steps, without waiting for data."""
    data_wait: float
    evaluation: float
    other: float
    """Seconds of checkpoints, interruptions, and gaps between blocks."""

    @property
    def total(self) -> float:
        """Return the time to target."""
        return sum(self)

    @property
    def outside_epochs(self) -> float:
        """Return the seconds of setup and other, which additional devices do not reduce."""
        return self.setup + self.other


def time_parts(record: RunRecord) -> TimeParts | None:
    """Return the components of a run's time, or None.

    The function returns None if the log does not separate the components consistently.
    """
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
    )  # The difference is a rounding error of the time stamps.
    return TimeParts(setup, trained - data_wait, data_wait, evaluation, max(remaining, 0.0))


def mean_parts(records: Sequence[RunRecord | None]) -> TimeParts | None:
    """Return the mean components of several runs.

    The function returns None if the components of any run are unknown.
    """
    parts = [None if record is None else time_parts(record) for record in records]
    measured = [part for part in parts if part is not None]
    if not measured or len(measured) < len(parts):
        return None
    return TimeParts(*(statistics.fmean(values) for values in zip(*measured, strict=True)))
