"""Components of a time to target.

The components are setup, training, waiting for data, evaluation, and other. The time to target is
the sum of all components.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from suite.results.logs.record import RunRecord

_TOLERANCE = 0.01
"""Maximum relative excess of the sum of the components over the time to target. A log with a larger
excess is treated as contradictory.
"""
_CLOCK_SECONDS = 0.05
"""Tolerance in seconds for rounding errors. Time stamps are whole milliseconds, and each block
has two time stamps.
"""


class TimeParts(NamedTuple):
    """Seconds from `run_start` to `run_stop`, separated by activity."""

    setup: float
    """Seconds before the first block.

    Under the v0.5 clock rule, the setup time includes building the model and loading the data.
    """
    training: float
    """Seconds in training steps, without the time spent waiting for data."""
    data_wait: float
    evaluation: float
    other: float
    """Seconds for checkpoints, interruptions, and gaps between blocks."""

    @property
    def total(self) -> float:
        """Return the time to target."""
        return sum(self)

    @property
    def outside_epochs(self) -> float:
        """Return the sum of `setup` and `other`, which additional devices do not reduce."""
        return self.setup + self.other


def time_parts(record: RunRecord) -> TimeParts | None:
    """Return the components of a run's time, or None.

    Returns None if the log does not contain the components, or contradicts itself.
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
    )  # the difference is caused by rounded time stamps
    return TimeParts(setup, trained - data_wait, data_wait, evaluation, max(remaining, 0.0))


def mean_parts(records: Sequence[RunRecord | None]) -> TimeParts | None:
    """Return the mean of each component over several runs.

    Returns None if the components of any run are unknown.
    """
    parts = [None if record is None else time_parts(record) for record in records]
    measured = [part for part in parts if part is not None]
    if not measured or len(measured) < len(parts):
        return None
    return TimeParts(*(statistics.fmean(values) for values in zip(*measured, strict=True)))
