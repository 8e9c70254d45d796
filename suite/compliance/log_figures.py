"""Check that the measurements in `tracked_stats` are consistent.

The checks do not depend on the run's settings or schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from suite.compliance.complaints import MISSING, Complaint
from suite.compliance.log_origin import NEVER_EDIT
from suite.results.logs.events import Event, number
from suite.results.logs.record import RunRecord

RATE_TOLERANCE = 1e-6
"""Relative tolerance of a throughput. A logged throughput is computed before its seconds are
rounded.
"""
SECONDS_ROUNDING = 1e-9


def find_figure_complaints(record: RunRecord, events: Sequence[Event]) -> Iterator[Complaint]:
    """Yield a complaint for a block with missing or contradictory values, or a NaN loss."""
    step = record.settings.timing_warmup_steps
    blocks = [event for event in events if event.key == "tracked_stats"]
    if not blocks:
        yield Complaint("tracked_stats", 0, MISSING, "once for each block", NEVER_EDIT)
    for event in blocks:
        stats = event.value if isinstance(event.value, dict) else {}
        steps_done = number(event.metadata.get("step"))
        if steps_done is None or steps_done <= step:
            found = MISSING if steps_done is None else f"step {steps_done:.0f}"
            yield Complaint(
                "tracked_stats", event.line, found, f"step above {step:.0f}", NEVER_EDIT
            )
            return
        step = int(steps_done)
        samples, seconds, rate = (
            number(stats.get(name)) for name in ("samples", "train_seconds", "throughput")
        )
        if samples is None or samples <= 0 or seconds is None or seconds < 0 or rate is None:
            yield Complaint(
                "tracked_stats",
                event.line,
                MISSING,
                "samples, train_seconds and throughput",
                NEVER_EDIT,
            )
            return
        tolerance = samples * RATE_TOLERANCE + rate * SECONDS_ROUNDING
        if abs(rate * seconds - samples) > tolerance:
            found = f"throughput {rate:.6g}"
            needed = f"samples / train_seconds, {samples / seconds if seconds else 0.0:.6g}"
            yield Complaint("tracked_stats", event.line, found, needed, NEVER_EDIT)
            return
        if record.settings.mode == "train" and number(stats.get("loss")) is None:
            needed = "a finite loss: a run whose loss is NaN or infinite has diverged"
            yield Complaint(
                "tracked_stats",
                event.line,
                f"loss {stats.get('loss')}",
                needed,
                "see the text log of the workers",
            )
            return
