"""Reads `telemetry.jsonl` beside a log, of a run on several machines those of all machines. Such files are not trusted: sizes
are bounded, and no content raises."""

from __future__ import annotations

import bisect
import functools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from suite.common.run_folder import machine_folder
from suite.results.logs.events import number
from workloads import files
from workloads.api import Json

MAX_BYTES = 64 << 20
"""A file longer than this is not read: 64 MiB are three days of telemetry of eight devices."""
APART_SECONDS = 1.5
"""Samples of two machines that are further apart in time are not put together; each machine has one a second."""


@dataclass(frozen=True)
class RecordedTelemetry:
    """What was sampled in the run window; one number per sample, None where a sensor had no value on one of the machines."""

    seconds: tuple[float, ...]
    """Since `run_start`."""
    series: Mapping[str, tuple[float | None, ...]]
    """Sensor name (docs/telemetry.md) to values; of GPUs and of machines the mean, for memory, power and processes the sum."""

    @property
    def energy_joules(self) -> float | None:
        """Power of all devices integrated over time (trapezoids); None where it was not measured throughout."""
        power = self.series.get("gpu_power_watts")
        if power is None or len(self.seconds) < 2 or any(value is None for value in power):
            return None
        watts = [value or 0.0 for value in power]
        pairs = zip(self.seconds, self.seconds[1:], watts, watts[1:], strict=False)
        return math.fsum((end - start) * (first + second) / 2 for start, end, first, second in pairs)


_SUMMED = (
    "gpu_power_watts", "gpu_memory_bytes", "gpu_other_processes",
    "run_memory_bytes", "run_processes", "memory_available_bytes",
)  # fmt: skip
"""Sensors of which devices and machines are added up."""


def telemetry(folder: Path) -> RecordedTelemetry | None:
    """The telemetry of a run in its folder; None if a machine of the run has none, or nothing in it can be read.

    Of several machines: at the times of the first, with the sample of the others that is nearest.
    """
    by_host = [_of_machine(machine / "telemetry.jsonl") for machine in machine_folders(folder)]
    machines = [one for one in by_host if one is not None]
    if not machines or len(machines) < len(by_host):
        return None
    first, *others = machines
    series = {}
    for name, values in first.series.items():
        columns = [values, *(_at(first.seconds, other.seconds, other.series.get(name, ())) for other in others)]
        series[name] = (
            tuple(_combined(name, list(sample)) for sample in zip(*columns, strict=True)) if others else values
        )
    return RecordedTelemetry(
        first.seconds, {name: values for name, values in series.items() if values.count(None) < len(values)}
    )


def machine_folders(folder: Path) -> list[Path]:
    """Where a run's folder keeps what each of its machines says of itself; the folder itself for one machine."""
    file = folder / "run.json"
    names = _machine_names(file, file.stat().st_mtime_ns) if file.is_file() else ()
    return [machine_folder(folder, name, len(names)) for name in names] or [folder]


@functools.lru_cache(maxsize=64)
def _machine_names(file: Path, changed_ns: int) -> tuple[str, ...]:
    """Of the hosts in `run.json`, which every column of a study asks for."""
    hosts = json_object(file).get("hosts")
    listed = hosts[:10_000] if isinstance(hosts, list) else []
    return tuple(str(host.get("name")) for host in listed if isinstance(host, dict))


def _of_machine(file: Path) -> RecordedTelemetry | None:
    rows = [(second, row) for row in json_lines(file) if (second := number(row.get("seconds"))) is not None]
    if not rows:
        return None
    rows.sort(key=itemgetter(0))
    names = sorted({name for _, row in rows for name in row} - {"seconds", "time_ms"})
    series = {name: tuple(_combined(name, row.get(name)) for _, row in rows) for name in names}
    return RecordedTelemetry(tuple(second for second, _ in rows), series)


def _at(wanted: Sequence[float], seconds: Sequence[float], values: Sequence[float | None]) -> tuple[float | None, ...]:
    """The values nearest in time to each of `wanted`, both ascending; None where none is near, or there are no values."""
    sampled = []
    for second in wanted:
        after = bisect.bisect_left(seconds, second)
        near = min(range(max(0, after - 1), min(after + 1, len(seconds))), key=lambda at: abs(seconds[at] - second))
        sampled.append(values[near] if values and abs(seconds[near] - second) <= APART_SECONDS else None)
    return tuple(sampled)


def _combined(name: str, value: Json) -> float | None:
    """A sample as one number: of a list with a value per device or machine the sum or the mean; None if one is missing."""
    values = value if isinstance(value, list) else [value]
    known = [figure for value in values if (figure := number(value)) is not None]
    if not known or len(known) < len(values):
        return None
    return math.fsum(known) if name in _SUMMED else math.fsum(known) / len(known)


def json_object(path: Path, limit_bytes: int = 1 << 20) -> Mapping[str, Json]:
    """The object in a JSON file of at most `limit_bytes`; empty if it cannot be read or is no object."""
    return _object(_text(path, limit_bytes))


def json_lines(path: Path) -> Iterator[Mapping[str, Json]]:
    """The objects of a JSON-lines file; other lines are skipped."""
    return filter(None, map(_object, _text(path, MAX_BYTES).splitlines()))


def _text(path: Path, limit_bytes: int) -> str:
    try:
        return files.read_text(path, "replace", limit_bytes)
    except OSError:
        return ""


def _object(text: str) -> Mapping[str, Json]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
