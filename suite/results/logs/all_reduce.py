"""All-reduce times in a log by message size, and the all-reduce traffic per step.

Bandwidths are defined as in nccl-tests (doc/PERFORMANCE.md). The algorithm bandwidth is bytes
divided by time. The bus bandwidth is the algorithm bandwidth times 2 (n - 1) / n, where n is the
number of devices. In an optimal all-reduce, each device sends and receives 2 (n - 1) / n times the
message size. The bus bandwidth therefore does not depend on the number of devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from suite.results.logs.events import number, numbers
from suite.results.logs.recorded_telemetry import json_object, machine_folders
from workloads.api import GradientAllReduceInfo, Json


@dataclass(frozen=True)
class SizeTimes:
    """Times of all-reduces of one message size."""

    size_bytes: float
    count: int
    median_seconds: float
    mean_seconds: float


@dataclass(frozen=True)
class AllReduceTime:
    """Content of a log's `suite_all_reduce` record. The sizes are in ascending order."""

    devices: int
    sizes: tuple[SizeTimes, ...]
    how: str = ""
    """Method with which the times were measured."""


def bus_bandwidth(size_bytes: float, seconds: float, devices: int) -> float:
    """Return the bus bandwidth (`busbw` of nccl-tests) in bytes/s."""
    return size_bytes / seconds * 2 * (devices - 1) / devices


def all_reduce(value: Json) -> AllReduceTime | None:
    """Parse the value of `suite_all_reduce`.

    Invalid sizes are skipped. The function returns None if the whole value is invalid.
    """
    if not isinstance(value, dict) or not isinstance(value.get("sizes"), list):
        return None
    devices, how = number(value.get("devices")), value.get("how")
    items = [numbers(item) for item in value["sizes"][:64] if isinstance(item, dict)]
    rows = [
        [item.get(name, 0.0) for name in ("bytes", "count", "median_us", "mean_us")]
        for item in items
    ]
    rows.sort(key=lambda row: row[0])
    sizes = [
        SizeTimes(row[0], int(row[1]), row[2] * 1e-6, row[3] * 1e-6)
        for row in rows
        if min(row) > 0.0
    ]
    if devices is None or not 2 <= devices <= 1_000_000 or not sizes:
        return None
    return AllReduceTime(int(devices), tuple(sizes), how if isinstance(how, str) else "")


def gradient_all_reduce_info(value: Json) -> GradientAllReduceInfo | None:
    """Parse the value of `suite_gradients`.

    Returns None for an invalid value.
    """
    figures = numbers(value) if isinstance(value, dict) else {}
    size, tensors, buckets = (figures.get(name, -1.0) for name in ("bytes", "tensors", "buckets"))
    return (
        GradientAllReduceInfo(size, int(tensors), int(buckets))
        if size > 0 and tensors >= 0 and buckets >= 1
        else None
    )


def shown_link(folder: Path, device: str, devices: int) -> str:
    """Return the links between the devices in a run's topology.json.

    The string is `NVLink` or `PIX, SYS`, for example. The string is empty if the links are unknown.

    For several machines, the string begins with the number of machines: `2 machines, each NVLink`.
    """
    machines = machine_folders(folder)
    shown = [
        _shown_by(json_object(machine / "topology.json"), device, devices // len(machines))
        for machine in machines
    ]
    if len(machines) == 1:
        return f"one machine, {shown[0]}" if shown[0] and device == "cpu" else shown[0]
    return (
        f"{len(machines)} machines, each"
        f" {' or '.join(dict.fromkeys(text or 'unknown' for text in shown))}"
    )


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
