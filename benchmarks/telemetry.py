"""Measure the cost of telemetry: CPU time per sample, and share of a core.

    python -m benchmarks.telemetry [--seconds 20] [--processes 8]

Telemetry takes a sample once per second, as in a run. Idle processes represent the processes of a
run. The target is at most 0.5 % of a core. `bare_cpu_seconds_per_sample` is the CPU time of a
thread that wakes up equally often and only reads the time. The output is JSON.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import psutil

from benchmarks.measuring import parser_with, show
from suite.control.telemetry import INTERVAL_SECONDS, TelemetryRecorder
from suite.machine import devices

TARGET_CORE_SHARE = 0.005


def sampled(seconds: float) -> tuple[int, float]:
    """Return the number of samples, and the CPU seconds of the sampling thread."""
    with tempfile.TemporaryDirectory() as folder:
        telemetry = TelemetryRecorder(
            Path(folder) / "telemetry.jsonl", Path(folder) / "result_0.txt", bool(devices.gpus())
        )
        telemetry.start()
        time.sleep(seconds)
        telemetry.stop()
        return telemetry.samples, telemetry.cpu_seconds


def bare(seconds: float) -> tuple[int, float]:
    """Return the number of wake-ups and CPU seconds of a thread that only reads the time."""
    found = [0.0]
    count = int(seconds / INTERVAL_SECONDS)

    def work() -> None:
        for _ in range(count):
            time.sleep(INTERVAL_SECONDS)
            found[0] = time.thread_time()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return count, found[0]


def measure(seconds: float, processes: int) -> dict[str, object]:
    """Return the measurements of telemetry and of the bare thread."""
    children = [subprocess.Popen(["sleep", str(3 * seconds + 60)]) for _ in range(processes)]
    try:
        samples, cpu_seconds = sampled(seconds)
        bare_samples, bare_seconds = bare(min(seconds, 5))
    finally:
        for child in children:
            child.kill()
            child.wait()
    share = cpu_seconds / (samples * INTERVAL_SECONDS)
    return {
        "cores": os.cpu_count(),
        "gpus": len(devices.gpus()),
        "processes_of_the_machine": len(psutil.pids()),
        "processes_of_the_run": processes,
        "samples": samples,
        "cpu_seconds_per_sample": round(cpu_seconds / samples, 6),
        "bare_cpu_seconds_per_sample": round(bare_seconds / bare_samples, 6),
        "core_share": round(share, 5),
        "target_core_share": TARGET_CORE_SHARE,
        "met": share < TARGET_CORE_SHARE,
    }


def main() -> None:
    """Run the benchmark and print its results."""
    parser = parser_with(__doc__, seconds=20.0, processes=8)
    arguments = parser.parse_args()
    show("telemetry", **measure(arguments.seconds, arguments.processes))


if __name__ == "__main__":
    main()
