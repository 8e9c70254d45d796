"""Reads the `telemetry.jsonl` files of all machines of a run.

The files are untrusted: the size is limited, and invalid content never raises an exception.
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
"""Maximum size of a telemetry file. 64 MiB hold three days of telemetry of eight devices."""
APART_SECONDS = 1.5
"""Maximum time difference in seconds between combined samples of two machines.

Each machine is sampled every second.
"""


@dataclass(frozen=True)
class RecordedTelemetry:
    """Telemetry samples from `run_start` to `run_stop`.

    A value is None if a sensor of any machine had no value.
    """

    seconds: tuple[float, ...]
    """Seconds since `run_start`."""
    series: Mapping[str, tuple[float | None, ...]]
    """Values of each sensor.

    Values of several devices or machines are summed for memory, power, and processes, and averaged
    for all other sensors.
    """

    @property
    def energy_joules(self) -> float | None:
        """Return the energy of all devices, as the time integral of their power.

        The integral uses the trapezoidal rule. The result is None if the power measurement is
        incomplete.
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

    The function returns None if the file of a machine is missing or unreadable.

    For several machines, the sample times of the first machine are used. The nearest sample of each
    other machine is added to the first machine's sample.
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

    For a run on a single machine, the only folder is the run's folder.
    """
    file = folder / "run.json"
    names = _machine_names(file, file.stat().st_mtime_ns) if file.is_file() else ()
    return [machine_folder(folder, name, len(names)) for name in names] or [folder]


@functools.lru_cache(maxsize=64)
def _machine_names(file: Path, changed_ns: int) -> tuple[str, ...]:
    """Return the host names in `run.json`.

    The result is cached, because every column of a study needs the host names.
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

    `times` and `seconds` must be in ascending order. The value is None if no sample is close
    enough.
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
    """Return the sum or mean of a sample that has a value per device or machine.

    The function returns None if a value is missing.
    """
    values = value if isinstance(value, list) else [value]
    present = [figure for value in values if (figure := number(value)) is not None]
    if not present or len(present) < len(values):
        return None
    return math.fsum(present) if name in _SUMMED else math.fsum(present) / len(present)


def json_object(path: Path, limit_bytes: int = 1 << 20) -> Mapping[str, Json]:
    """Return the object in a JSON file of at most `limit_bytes`.

    The result is empty if the file is missing or invalid.
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
