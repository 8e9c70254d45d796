"""Reads `telemetry.jsonl` beside a log. Such files are not trusted: sizes are bounded, and no content raises."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from suite.results.logs.events import number
from workloads.api import Json

MAX_BYTES = 64 << 20
"""A file longer than this is not read: 64 MiB are three days of telemetry of eight devices."""


@dataclass(frozen=True)
class Telemetry:
    """`telemetry.jsonl` of one run, cut to its run window; one number per sample, None where a sensor had no value."""

    seconds: tuple[float, ...]
    """Since `run_start`."""
    series: Mapping[str, tuple[float | None, ...]]
    """Sensor name (docs/telemetry.md) to values; of GPUs the mean over devices, for memory and power the sum."""

    @property
    def energy_joules(self) -> float | None:
        """Power of all devices integrated over time (trapezoids); None where it was not measured throughout."""
        power = self.series.get("gpu_power_watts")
        if power is None or len(self.seconds) < 2 or any(value is None for value in power):
            return None
        watts = [value or 0.0 for value in power]
        pairs = zip(self.seconds, self.seconds[1:], watts, watts[1:], strict=False)
        return math.fsum((end - start) * (first + second) / 2 for start, end, first, second in pairs)


_SUMMED_OVER_DEVICES = ("gpu_power_watts", "gpu_memory_bytes")


def telemetry(folder: Path) -> Telemetry | None:
    """The telemetry in a run's folder; None if there is none, or nothing in it can be read."""
    rows = [row for row in json_lines(folder / "telemetry.jsonl") if number(row.get("seconds")) is not None]
    rows.sort(key=lambda row: number(row["seconds"]) or 0.0)
    if not rows:
        return None
    names = sorted({name for row in rows for name in row} - {"seconds", "time_ms"})
    series = {name: tuple(_sample_value(name, row.get(name)) for row in rows) for name in names}
    measured = {name: values for name, values in series.items() if any(value is not None for value in values)}
    return Telemetry(tuple(number(row["seconds"]) or 0.0 for row in rows), measured)


def _sample_value(name: str, value: Json) -> float | None:
    """A sample as one number: of a list with a value per device the sum or the mean, None if one is missing."""
    if not isinstance(value, list):
        return number(value)
    numbers = [number(item) for item in value]
    known = [item for item in numbers if item is not None]
    if not known or len(known) < len(numbers):
        return None
    return math.fsum(known) if name in _SUMMED_OVER_DEVICES else math.fsum(known) / len(known)


def json_object(path: Path, limit_bytes: int = 1 << 20) -> Mapping[str, Json]:
    """The object in a JSON file of at most `limit_bytes`; empty if it cannot be read or is no object."""
    try:
        if path.stat().st_size > limit_bytes:
            return {}
        value = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def json_lines(path: Path) -> Iterator[Mapping[str, Json]]:
    """The objects of a JSON-lines file; other lines are skipped."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value
