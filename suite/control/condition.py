"""Write `suite_condition`, the log line about the run's share of the machine.

`suite_condition` is appended after the last line that the run itself writes.

The workers take the measurements (`suite.machine.contention`) between `run_start` and `run_stop`.
Measurements of GPUs are read from telemetry.jsonl. Only this module decides whether the machine was
busy.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from suite.control.telemetry import rows
from suite.worker.heartbeat import WorkerStatus
from suite.worker.runlog import RunLog
from workloads.api import Json

KEY = "suite_condition"
BUSY_SHARE = 0.1
"""Threshold above which a machine is considered busy. The threshold applies to each share that
`busy` checks.

A run that loses 10 % of the cores loses at least 10 % of its speed. On an idle machine, the
speed varies by less than 10 % between runs. `cpu_share` is reported but not checked, because
threads also wait for each other on an idle machine.
"""


def figures(
    heartbeats: Sequence[WorkerStatus | None],
    hosts: Sequence[str],
    device_rows: Sequence[Mapping[str, Json]],
    serving: Collection[str] = (),
) -> dict[str, Json]:
    """Return the measurements for the `suite_condition` line of a run.

    Args:
        heartbeats: Last heartbeat of each worker.
        hosts: Name of each worker's machine.
        device_rows: Telemetry samples of the run's devices.
        serving: Names of the machines with server processes for the workers. If the workers can
            measure these servers, the CPU time of the servers is attributed to the run.

    Returns:
        Measurements by name. The mapping is empty if a worker reported no measurements, because the
        worker's CPU time would be attributed to processes outside the run. Measurements that are
        not available are omitted:

        * `seconds`: Duration of the measurement.
        * `cpu_share`: CPU time that the threads of the run received, divided by the CPU time that
          they could have used.
        * `cores`: Number of cores.
        * `others_share`, `server_share`, `stolen_share`: Shares of the cores' time that were used
          by processes outside the run, by the run's servers, and by a hypervisor.
        * `servers`: 1 if `others_share` includes the servers of the run.
        * `threads_per_device`: Minimum number of threads per device, if the number was reduced
          because processes outside the run used cores (suite/worker/threads.py).
        * `quota_share`: Share of the scheduling periods in which the CPU quota stopped the run.
        * `memory_stall_share`: Share of the time in which a process of the machine waited for
          memory.
        * `hot_share`: Share of the time in which the hottest core was throttled.
        * `gpu_slow_share`: Share of the time in which the GPUs were throttled.
        * `load_average`: Maximum load average.
        * `gpu_clock_mhz`, `cpu_clock_mhz`: Mean clock frequencies.
        * `gpu_other_processes`: Maximum number of processes outside the run on a GPU.
    """
    reported = [
        (host, heartbeat.contention)
        for host, heartbeat in zip(hosts, heartbeats, strict=True)
        if heartbeat is not None and heartbeat.contention
    ]
    if len(reported) < len(heartbeats):
        return {}
    # Use the measured seconds of rank 0, because rank 0 also logs `run_start` and `run_stop`.
    # `suite check` can then compare the seconds with the time between `run_start` and `run_stop`.
    values_by_name: dict[str, Json] = {"seconds": reported[0][1]["seconds"]}
    run, wait = (
        _total(contention.get(name) for _, contention in reported)
        for name in ("run_seconds", "wait_seconds")
    )
    if run is not None and wait is not None and run + wait > 0:
        values_by_name["cpu_share"] = run / (run + wait)
    values_by_name |= _core_shares(reported)
    for name in ("quota_share", "memory_stall_share", "hot_share", "load_average"):
        values = [
            contention[name] for _, contention in reported if contention.get(name) is not None
        ]
        values_by_name |= {name: max(values)} if values else {}
    threads = [
        contention["threads_per_device"]
        for _, contention in reported
        if "threads_per_device" in contention
    ]
    values_by_name |= {"threads_per_device": min(threads)} if threads else {}
    if any(
        host in serving and "server_cpu_seconds" not in contention for host, contention in reported
    ):
        values_by_name["servers"] = 1
    return {
        name: _rounded(value)
        for name, value in {**values_by_name, **dict(_device_figures(device_rows))}.items()
    }


def _total(values: Iterator[Json]) -> float | None:
    """Return the sum of the values, or None if any value is None."""
    summands = list(values)
    return None if None in summands else math.fsum(summands)


def _core_shares(reported: Sequence[tuple[str, Mapping[str, Json]]]) -> dict[str, Json]:
    """Return the number of cores, and the shares of the cores' time.

    A core is counted only once if several workers share the core.
    """
    cores = {
        (host, core): seconds
        for host, contention in reported
        for core, seconds in contention["cores"].items()
    }
    total = math.fsum(seconds[2] for seconds in cores.values())
    if total <= 0:
        return {}
    stolen = math.fsum(seconds[1] for seconds in cores.values())
    worker_seconds = math.fsum(contention["cpu_seconds"] for _, contention in reported)
    servers: dict[str, float] = {}
    for host, contention in reported:
        if "server_cpu_seconds" in contention:  # all workers of a host measure the same servers
            servers[host] = max(servers.get(host, 0.0), contention["server_cpu_seconds"])
    server_seconds = math.fsum(servers.values())
    outside = (
        math.fsum(seconds[0] for seconds in cores.values())
        - stolen
        - worker_seconds
        - server_seconds
    )
    shares = {
        "cores": len(cores),
        "others_share": max(0.0, outside) / total,
        "stolen_share": stolen / total,
    }
    return {**shares, "server_share": server_seconds / total} if servers else shares


def _device_figures(device_rows: Sequence[Mapping[str, Json]]) -> Iterator[tuple[str, Json]]:
    """Yield measurements of a machine's devices.

    The measurements are the mean of each clock and throttling share, and the maximum number of
    processes outside the run on a GPU.
    """
    means = {
        "gpu_clock_mhz": "gpu_clock_mhz",
        "gpu_slow": "gpu_slow_share",
        "cpu_clock_mhz": "cpu_clock_mhz",
    }
    for sensor in (*means, "gpu_other_processes"):
        readings = [row.get(sensor) for row in device_rows]
        per_device = [
            value
            for reading in readings
            for value in (reading if isinstance(reading, list) else [reading])
        ]
        values = [value for value in per_device if value is not None]
        if values:
            yield (
                (means[sensor], math.fsum(values) / len(values))
                if sensor in means
                else (sensor, max(values))
            )


def _rounded(value: Json) -> Json:
    return round(value, 4) if isinstance(value, float) else value


def busy(condition: Mapping[str, Json]) -> list[str]:
    """Return the reasons why the machine is considered busy.

    The list is empty if no available measurement exceeds the threshold. If `servers` is 1, the CPU
    time of the run's servers was not measured separately and is included in `others_share`.
    """
    processes = "its servers and other processes" if condition.get("servers") else "other processes"
    texts = {
        "others_share": f"{processes} took {{}} of its cores",
        "stolen_share": "the hypervisor took {} of its cores",
        "quota_share": "its CPU quota stopped it in {} of the periods",
        "memory_stall_share": "processes waited for memory {} of the time",
        "hot_share": "its cores were slowed down by heat {} of the time",
        "gpu_slow_share": "its GPUs were slowed down {} of the time",
    }
    reasons = [
        text.format(f"{100 * condition[name]:.0f} %")
        for name, text in texts.items()
        if condition.get(name, 0.0) > BUSY_SHARE
    ]
    if "threads_per_device" in condition:
        reasons.append(
            f"its threads were limited to {condition['threads_per_device']} per device, because"
            " cores were in use"
        )
    return reasons + (
        ["other processes were on its GPUs"] if condition.get("gpu_other_processes") else []
    )


def device_rows(path: Path, devices: Sequence[int]) -> list[dict[str, Json]]:
    """Return the samples of a telemetry.jsonl, reduced to the given devices.

    The list is empty if the file cannot be read.
    """
    samples = []
    with contextlib.suppress(OSError, ValueError):
        for row in rows(path):
            device_values = {
                name: [value[number] for number in devices]
                for name, value in row.items()
                if isinstance(value, list) and len(value) > max(devices)
            }
            machine_values = {
                name: value for name, value in row.items() if not isinstance(value, list)
            }
            samples.append({**machine_values, **device_values})
    return samples


def append(log: Path, condition: Mapping[str, Json]) -> None:
    """Append the `suite_condition` line to the log.

    If the disk is full, the log remains unchanged, and the run does not fail.
    """
    with contextlib.suppress(OSError):
        size = log.stat().st_size
        try:
            with RunLog(log, append=True) as stream:
                stream.event(KEY, {"busy": busy(condition), **condition})
        except OSError:
            os.truncate(log, size)
