"""`suite_condition`: how much of the machine a run got, written once, after the last line that the run itself wrote.

The figures are those of the workers (`suite.machine.contention`), from `run_start` to `run_stop`, and of GPUs those that
telemetry.jsonl keeps. What makes the machine a busy one is decided here, and nowhere else.
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
"""Of anything below. Who loses a tenth of the cores loses a tenth of the speed at least, which is more than runs on a machine
of their own differ by. What is judged is not the share of CPU that the run got, which is told beside it: a run's own threads
wait for each other too, on a machine that is otherwise idle."""


def figures(
    heartbeats: Sequence[WorkerStatus | None],
    hosts: Sequence[str],
    device_rows: Sequence[Mapping[str, Json]],
    serving: Collection[str] = (),
) -> dict[str, Json]:
    """The figures of a run from the last beats of its processes, with the host of each, and its devices' samples.

    `serving`: hosts on which processes serve the workers. What they used is the run's own where its workers could see them.

    `cpu_share`: of the CPU time that its threads asked for; `others_share`, `server_share`, `stolen_share`: of its cores, taken
    by other processes, by its servers and by a hypervisor; `servers`: 1 where its servers are among the others;
    `threads_per_device`: where they were fewer than its cores, since others used some of them (suite/worker/threads.py);
    `quota_share`: of the periods, in which its CPU quota stopped it; `memory_stall_share`, `hot_share`, `gpu_slow_share`: of
    the time. Empty if a process told nothing: what it used would count as used by others.
    """
    reported = [
        (host, heartbeat.contention)
        for host, heartbeat in zip(hosts, heartbeats, strict=True)
        if heartbeat is not None and heartbeat.contention
    ]
    if len(reported) < len(heartbeats):
        return {}
    # process 0 logs run_start and run_stop, so its count is the one that `suite check` can compare with them
    values_by_name: dict[str, Json] = {"seconds": reported[0][1]["seconds"]}
    run, wait = (_total(one.get(name) for _, one in reported) for name in ("run_seconds", "wait_seconds"))
    if run is not None and wait is not None and run + wait > 0:
        values_by_name["cpu_share"] = run / (run + wait)
    values_by_name |= _core_shares(reported)
    for name in ("quota_share", "memory_stall_share", "hot_share", "load_average"):
        values = [one[name] for _, one in reported if one.get(name) is not None]
        values_by_name |= {name: max(values)} if values else {}
    threads = [one["threads_per_device"] for _, one in reported if "threads_per_device" in one]
    values_by_name |= {"threads_per_device": min(threads)} if threads else {}
    if any(host in serving and "server_cpu_seconds" not in one for host, one in reported):
        values_by_name["servers"] = 1
    return {name: _rounded(value) for name, value in {**values_by_name, **dict(_device_figures(device_rows))}.items()}


def _total(values: Iterator[Json]) -> float | None:
    known = list(values)
    return None if None in known else math.fsum(known)


def _core_shares(reported: Sequence[tuple[str, Mapping[str, Json]]]) -> dict[str, Json]:
    cores = {(host, core): spent for host, one in reported for core, spent in one["cores"].items()}
    every = math.fsum(spent[2] for spent in cores.values())
    if every <= 0:
        return {}
    stolen = math.fsum(spent[1] for spent in cores.values())
    worker_seconds = math.fsum(one["cpu_seconds"] for _, one in reported)
    servers: dict[str, float] = {}
    for host, one in reported:
        if "server_cpu_seconds" in one:  # each worker of a host sees the same servers
            servers[host] = max(servers.get(host, 0.0), one["server_cpu_seconds"])
    served = math.fsum(servers.values())
    others = math.fsum(spent[0] for spent in cores.values()) - stolen - worker_seconds - served
    shares = {"cores": len(cores), "others_share": max(0.0, others) / every, "stolen_share": stolen / every}
    return {**shares, "server_share": served / every} if servers else shares


def _device_figures(device_rows: Sequence[Mapping[str, Json]]) -> Iterator[tuple[str, Json]]:
    means = {"gpu_clock_mhz": "gpu_clock_mhz", "gpu_slow": "gpu_slow_share", "cpu_clock_mhz": "cpu_clock_mhz"}
    for sensor in (*means, "gpu_other_processes"):
        readings = [row.get(sensor) for row in device_rows]
        each = [one for reading in readings for one in (reading if isinstance(reading, list) else [reading])]
        known = [one for one in each if one is not None]
        if known:
            yield (means[sensor], math.fsum(known) / len(known)) if sensor in means else (sensor, max(known))


def _rounded(value: Json) -> Json:
    return round(value, 4) if isinstance(value, float) else value


def busy(condition: Mapping[str, Json]) -> list[str]:
    """Why the machine was a busy one, a few words each; empty if it was not, as far as is known.

    With `servers` 1 what a server of the run's own used is not known, so it is among what others did.
    """
    texts = {
        "others_share": f"{'its server and others' if condition.get('servers') else 'others'} took {{}} of its cores",
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
        reasons.append(f"others left it {condition['threads_per_device']} thread(s) per device")
    return reasons + (["other processes were on its GPUs"] if condition.get("gpu_other_processes") else [])


def device_rows(path: Path, devices: Sequence[int]) -> list[dict[str, Json]]:
    """Samples of a telemetry.jsonl with the values of these devices alone; empty if it cannot be read."""
    kept = []
    with contextlib.suppress(OSError, ValueError):
        for row in rows(path):
            of_devices = {
                name: [value[number] for number in devices]
                for name, value in row.items()
                if isinstance(value, list) and len(value) > max(devices)
            }
            kept.append({**{name: value for name, value in row.items() if not isinstance(value, list)}, **of_devices})
    return kept


def append(log: Path, condition: Mapping[str, Json]) -> None:
    """Write the line. A disk that is full costs the line, never the run, and leaves no part of it."""
    with contextlib.suppress(OSError):
        size = log.stat().st_size
        try:
            with RunLog(log, append=True) as stream:
                stream.event(KEY, {"busy": busy(condition), **condition})
        except OSError:
            os.truncate(log, size)
