"""Compare the clock of a run with the kernel's uptime.

The comparison detects clocks that are manipulated with libfaketime.
"""

from __future__ import annotations

import time
from pathlib import Path

from suite.machine import sysfiles

UPTIME = Path("/proc/uptime")
TOLERANCE_SECONDS = 0.5
"""Constant part of the allowed difference between the two clocks, in seconds. `TOLERANCE_SHARE` is
added.
"""
TOLERANCE_SHARE = 1e-3
"""Allowed difference between the two clocks, as a fraction of the elapsed time.

A small fraction is sufficient, because NTP adjusts both clocks equally.
"""


class ClockCheck:
    """Compares the monotonic clock, which times a run, with the kernel's uptime.

    The uptime is read from /proc/uptime.
    """

    def __init__(self) -> None:
        self._start: tuple[float, float] | None = None

    def begin(self) -> None:
        """Start the comparison of the clocks.

        If /proc/uptime is missing, `check` never raises an error.
        """
        uptime = _uptime_seconds()
        self._start = None if uptime is None else (time.monotonic(), uptime)

    def check(self) -> None:
        """Raise RuntimeError if the clocks have advanced differently since `begin`."""
        uptime = _uptime_seconds()
        if self._start is None or uptime is None:
            return
        clock_seconds, uptime_seconds = time.monotonic() - self._start[0], uptime - self._start[1]
        tolerance = TOLERANCE_SECONDS + TOLERANCE_SHARE * max(clock_seconds, uptime_seconds)
        if abs(clock_seconds - uptime_seconds) > tolerance:
            raise RuntimeError(
                f"the run took {clock_seconds:.1f} s by its clock and {uptime_seconds:.1f} s by the"
                " machine's uptime: the machine was suspended, or the processes use a fake clock"
                " (libfaketime)"
            )


def _uptime_seconds() -> float | None:
    """Return the machine's uptime, or None if the kernel does not report it."""
    try:
        return float((sysfiles.text(UPTIME) or "").split()[0])
    except (ValueError, IndexError):
        return None
