"""Read the `telemetry.jsonl` files of all machines of a run.

The files are not trusted: their size is limited, and invalid content never raises an exception.
"""

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
"""Maximum size of a telemetry file. Telemetry of eight devices over three days has a size of 64
MiB.
"""
APART_SECONDS = 1.5
"""Maximum time difference in seconds at which samples of two machines are combined.

Each machine is sampled every second.
"""


@dataclass(frozen=True)
class RecordedTelemetry:
    """Telemetry samples from `run_start` to `run_stop`.

    A value is None if the sensor has no value on at least one machine.
    """

    seconds: tuple[float, ...]
    """Seconds since `run_start`."""
    series: Mapping[str, tuple[float | None, ...]]
    """Values of each sensor over time.

    Memory, power, and numbers of processes are summed over devices and machines. All other sensors
    are averaged over devices and machines.
    """

    @property
    def energy_joules(self) -> float | None:
        """Return the energy of all devices in joules.

        The energy is the integral of the power over time (trapezoidal rule). Returns None if power
        samples are missing.
        """
        power = self.series.get("gpu_power_watts")
        if power is None or len(self.seconds) < 2 or any(value is None for value in power):
            return None
        watts = [value or 0.0 for value in power]
        pairs = zip(self.seconds, self.seconds[1:], watts, watts[1:], strict=False)
        return math.fsum(
            (end - start) * (first + second) / 2 for start, end, first, second in pairs
        )


_SUMMED = (
    "gpu_power_watts", "gpu_memory_bytes", "gpu_other_processes",
    "run_memory_bytes", "run_processes", "memory_available_bytes",
)  # fmt: skip
"""Sensors whose values are summed over devices and machines."""


def telemetry(folder: Path) -> RecordedTelemetry | None:
    """Return the telemetry in a run's folder.

    Returns None if the telemetry file of any machine is missing or unreadable.

    With several machines, the sample times are those of the first machine. Each sample of the first
    machine is combined with the nearest sample in time of each other machine.
    """
    by_host = [_of_machine(machine / "telemetry.jsonl") for machine in machine_folders(folder)]
    machines = [machine for machine in by_host if machine is not None]
    if not machines or len(machines) < len(by_host):
        return None
    first, *further = machines
    series = {}
    for name, values in first.series.items():
        columns = [
            values,
            *(
                _at(first.seconds, machine.seconds, machine.series.get(name, ()))
                for machine in further
            ),
        ]
        series[name] = (
            tuple(_combined(name, list(sample)) for sample in zip(*columns, strict=True))
            if further
            else values
        )
    return RecordedTelemetry(
        first.seconds,
        {name: values for name, values in series.items() if values.count(None) < len(values)},
    )


def machine_folders(folder: Path) -> list[Path]:
    """Return the telemetry folder of each machine of a run.

    For a run on a single machine, the list contains only the run's folder.
    """
    file = folder / "run.json"
    names = _machine_names(file, file.stat().st_mtime_ns) if file.is_file() else ()
    return [machine_folder(folder, name, len(names)) for name in names] or [folder]


@functools.lru_cache(maxsize=64)
def _machine_names(file: Path, changed_ns: int) -> tuple[str, ...]:
    """Return the host names in `run.json`.

    The host names are cached, because each column of a study needs them.
    """
    hosts = json_object(file).get("hosts")
    listed = hosts[:10_000] if isinstance(hosts, list) else []
    return tuple(str(host.get("name")) for host in listed if isinstance(host, dict))


def _of_machine(file: Path) -> RecordedTelemetry | None:
    rows = [
        (second, row)
        for row in json_lines(file)
        if (second := number(row.get("seconds"))) is not None
    ]
    if not rows:
        return None
    rows.sort(key=itemgetter(0))
    names = sorted({name for _, row in rows for name in row} - {"seconds", "time_ms"})
    series = {name: tuple(_combined(name, row.get(name)) for _, row in rows) for name in names}
    return RecordedTelemetry(tuple(second for second, _ in rows), series)


def _at(
    times: Sequence[float], seconds: Sequence[float], values: Sequence[float | None]
) -> tuple[float | None, ...]:
    """Return the value that is nearest in time to each of `times`.

    `times` and `seconds` must be in ascending order. If no sample is within APART_SECONDS, the
    returned value is None.
    """
    sampled = []
    for time in times:
        after = bisect.bisect_left(seconds, time)
        nearest = min(
            range(max(0, after - 1), min(after + 1, len(seconds))),
            key=lambda index: abs(seconds[index] - time),
        )
        sampled.append(
            values[nearest] if values and abs(seconds[nearest] - time) <= APART_SECONDS else None
        )
    return tuple(sampled)


def _combined(name: str, value: Json) -> float | None:
    """Return the sum or mean of a sample over its devices or machines.

    Returns None if the value of a device or machine is missing.
    """
    values = value if isinstance(value, list) else [value]
    present = [figure for value in values if (figure := number(value)) is not None]
    if not present or len(present) < len(values):
        return None
    return math.fsum(present) if name in _SUMMED else math.fsum(present) / len(present)


def json_object(path: Path, limit_bytes: int = 1 << 20) -> Mapping[str, Json]:
    """Return the object in a JSON file of at most `limit_bytes`.

    The mapping is empty if the file is missing, too large, or invalid.
    """
    return _object(_text(path, limit_bytes))


def json_lines(path: Path) -> Iterator[Mapping[str, Json]]:
    """Yield the objects of a JSON-lines file. Invalid lines are skipped."""
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
