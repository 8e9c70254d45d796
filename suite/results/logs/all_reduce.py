"""What a log says about the sum of gradients: times of all-reduces of many sizes, and the traffic of a workload's steps.

Bandwidths are those of nccl-tests (doc/PERFORMANCE.md): the algorithm's is bytes over time; the bus's is that times
2 (n - 1) / n, what each of n devices sends and receives in an all-reduce that moves no byte in vain, so n does not show in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from suite.results.logs.events import number, numbers
from suite.results.logs.recorded_telemetry import json_object, machine_folders
from workloads.api import GradientTraffic, Json


@dataclass(frozen=True)
class SizeTimes:
    """All-reduces of one size."""

    size_bytes: float
    count: int
    median_seconds: float
    mean_seconds: float


@dataclass(frozen=True)
class AllReduceTime:
    """`suite_all_reduce` of one log, sizes rising."""

    devices: int
    sizes: tuple[SizeTimes, ...]
    how: str = ""
    """What took the times."""


def bus_bandwidth(size_bytes: float, seconds: float, devices: int) -> float:
    """nccl-tests' busbw of an all-reduce, bytes/s."""
    return size_bytes / seconds * 2 * (devices - 1) / devices


def all_reduce(value: Json) -> AllReduceTime | None:
    """The value of `suite_all_reduce`; None where it is not of the form. Sizes that are not are left out."""
    if not isinstance(value, dict) or not isinstance(value.get("sizes"), list):
        return None
    devices, how = number(value.get("devices")), value.get("how")
    items = [numbers(item) for item in value["sizes"][:64] if isinstance(item, dict)]
    rows = [[item.get(name, 0.0) for name in ("bytes", "count", "median_us", "mean_us")] for item in items]
    rows.sort(key=lambda row: row[0])
    sizes = [SizeTimes(row[0], int(row[1]), row[2] * 1e-6, row[3] * 1e-6) for row in rows if min(row) > 0.0]
    if devices is None or not 2 <= devices <= 1_000_000 or not sizes:
        return None
    return AllReduceTime(int(devices), tuple(sizes), how if isinstance(how, str) else "")


def gradient_traffic(value: Json) -> GradientTraffic | None:
    """The value of `suite_gradients`; None where it is not of the form."""
    figures = numbers(value) if isinstance(value, dict) else {}
    size, tensors, buckets = (figures.get(name, -1.0) for name in ("bytes", "tensors", "buckets"))
    return GradientTraffic(size, int(tensors), int(buckets)) if size > 0 and tensors >= 0 and buckets >= 1 else None


def shown_link(folder: Path, device: str, devices: int) -> str:
    """What topology.json in a run's folder shows between its devices: `NVLink`, `PIX, SYS`; empty where it does not tell.

    Of several machines what each shows, and their number: `2 machines, each NVLink`.
    """
    machines = machine_folders(folder)
    shown = [_shown_by(json_object(one / "topology.json"), device, devices // len(machines)) for one in machines]
    if len(machines) == 1:
        return f"one machine, {shown[0]}" if shown[0] and device == "cpu" else shown[0]
    return f"{len(machines)} machines, each {' or '.join(dict.fromkeys(text or 'unknown' for text in shown))}"


def _shown_by(topology: Mapping[str, Json], device: str, devices: int) -> str:
    if device == "cpu":
        cpu = topology.get("cpu")
        sockets = number(cpu.get("sockets")) if isinstance(cpu, dict) else None
        return "" if sockets is None else f"{int(sockets)} socket{'' if sockets == 1 else 's'}"
    if devices == 1:
        return "one device"
    pairs = [(row, column) for row in range(devices) for column in range(row)]
    linked = [_entry(topology.get("gpu_nvlink"), *pair) is True for pair in pairs]
    if linked and all(linked):
        return "NVLink"
    ways = {str(_entry(topology.get("gpu_pcie"), *pair) or "") for pair in pairs} - {""}
    return ", ".join([*(["NVLink"] if any(linked) else []), *sorted(ways)])


def _entry(matrix: Json, row: int, column: int) -> Json:
    line = matrix[row] if isinstance(matrix, list) and row < len(matrix) else None
    return line[column] if isinstance(line, list) and column < len(line) else None
