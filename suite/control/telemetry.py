"""Write `telemetry.jsonl`, which contains one sample per second of a machine's load.

The samples contain load and clock frequencies during a run. A thread of the controller takes the
samples, and the supervisor never waits for this thread. An error in this module may lose samples,
but never makes the run fail. On a remote machine, the agent starts `python -m
suite.control.telemetry FOLDER DEVICE` together with the workers.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from suite.common.runspec import write_atomically
from suite.machine import devices, topology
from suite.machine.sysfiles import number
from workloads import files
from workloads.api import Json

LOG = logging.getLogger(__name__)

INTERVAL_SECONDS = 1.0
_LINE_BYTES = 1 << 20
JOIN_SECONDS = 2.0
"""Maximum time in seconds that the end of a run waits until the sampling thread has taken its
current sample. A driver may hang.
"""
SEARCH_SHARE = 0.001
"""Maximum share of a core's time that the search for new processes may use.

The search reads all of /proc, which takes long on a machine with many processes.
"""
SLOW_REASONS = 0x08 | 0x20 | 0x40 | 0x80
"""NVML clock event reasons that count as throttling (nvml.h, nvmlClocksEventReasons): hardware
slowdown, software and hardware thermal slowdown, and power brake. The power cap is not included,
because GPUs at full load normally reach it.
"""
CLOCK_CORES = 16
"""Maximum number of cores whose clock frequencies are read. The number is limited because each
reading may interrupt the core.
"""


class ProcessTree:
    """All processes of a run on a machine: descendants of the controller or an agent."""

    def __init__(self, root: int | None = None) -> None:
        """Prepare the sampling. This process itself is never sampled.

        Args:
            root: Process id of the controller or agent. By default, it is the id of this process.
        """
        self._root = root
        self._processes: dict[int, psutil.Process] = {}
        self._cpu_seconds: dict[int, float] = {}
        self._sampled = time.monotonic()
        self._search_at = 0.0

    def sample(self) -> dict[str, Json]:
        """Return the run's CPU use, resident memory, and number of processes.

        The CPU use is the mean since the previous sample, and 100 means all CPUs of the machine.
        Memory that several processes share is counted once per process.
        """
        now = time.monotonic()
        if now >= self._search_at:
            self._search(now)
        before, self._cpu_seconds = self._cpu_seconds, {}
        busy_seconds, memory_bytes = 0.0, 0
        for pid, process in self._processes.items():
            # Ignore processes that have ended since the last search.
            with (
                contextlib.suppress(psutil.Error),
                process.oneshot(),
            ):
                times = process.cpu_times()
                memory_bytes += process.memory_info().rss
                self._cpu_seconds[pid] = times.user + times.system
                busy_seconds += max(
                    0.0, self._cpu_seconds[pid] - before.get(pid, self._cpu_seconds[pid])
                )
        self._processes = {pid: self._processes[pid] for pid in self._cpu_seconds}
        elapsed, self._sampled = now - self._sampled, now
        percent = 100 * busy_seconds / max(elapsed, 1e-3) / (psutil.cpu_count() or 1)
        return {
            "run_cpu_percent": round(percent, 2),
            "run_memory_bytes": memory_bytes,
            "run_processes": len(self._processes),
        }

    def _search(self, now: float) -> None:
        begin = time.thread_time()
        descendants = psutil.Process(self._root).children(recursive=True)
        children = {process.pid: process for process in descendants if process.pid != os.getpid()}
        self._processes = {
            **children,
            **{pid: old for pid, old in self._processes.items() if children.get(pid) == old},
        }
        self._search_at = now + (time.thread_time() - begin) / SEARCH_SHARE


class Sensors:
    """Reads all sensors of a machine.

    The value of a failed sensor is null. Only the first error of each sensor is kept.
    """

    def __init__(self, nvml: Any = None, with_gpus: bool = False, root: int | None = None) -> None:
        """Find the sensors of this machine.

        Args:
            nvml: The initialized NVML module, or None if NVML is not available.
            with_gpus: True to read the sensors of GPUs.
            root: Id of the process whose descendants belong to the run. By default, it is the id of
                this process.
        """
        self._root = os.getpid() if root is None else root
        self.reasons: dict[str, str | None] = {}
        """Maps the name of each sensor to its first error, or to None if the sensor has not
        failed.
        """
        self._tree = ProcessTree(root)
        self._nvml = nvml
        self._with_gpus = with_gpus
        self._handles: Sequence[Any] = ()
        base = Path("/sys/devices/system/cpu")
        files = (
            base / f"cpu{core}/cpufreq/scaling_cur_freq"
            for core in devices.cpu_cores()[:CLOCK_CORES]
        )
        self._clock_files = [file for file in files if file.exists()]
        """Files with the clock frequencies of cores. Most virtual machines have no such files."""
        if nvml is not None:
            self._handles = self._try("gpus", lambda: devices.visible_handles(nvml)) or ()

    def read(self) -> dict[str, Json]:
        """Return the current value of each sensor.

        The value of a GPU sensor is a list with an element per visible device.

        CPU shares are measured since the previous call, so the CPU shares from the first call are
        meaningless.
        """
        row: dict[str, Json] = {
            "cpu_percent": self._try("cpu_percent", psutil.cpu_percent),
            "memory_available_bytes": self._try(
                "memory_available_bytes", lambda: psutil.virtual_memory().available
            ),
        }
        if self._clock_files:
            row["cpu_clock_mhz"] = self._try("cpu_clock_mhz", self._cpu_clock_mhz)
        failed = {"run_cpu_percent": None, "run_memory_bytes": None, "run_processes": None}
        row |= self._try("run", self._tree.sample) or failed
        if self._with_gpus:
            if self._nvml is None:
                self.reasons.setdefault(
                    "gpus",
                    "NVML does not respond: the driver or the package nvidia-ml-py is missing",
                )
            for name, read in GPU_SENSORS.items():
                row[name] = [
                    self._try(name, read, self._nvml, handle, self._root)
                    for handle in self._handles
                ]
        return row

    def _cpu_clock_mhz(self) -> float | None:
        """Return the mean clock frequency of the cores in MHz, or None if it cannot be read."""
        clocks_khz = [clock for file in self._clock_files if (clock := number(file)) is not None]
        return round(sum(clocks_khz) / len(clocks_khz) / 1000, 1) if clocks_khz else None

    def _try(self, name: str, read: Callable[..., Any], *arguments: Any) -> Any:
        try:
            value = read(*arguments)
        except Exception as error:
            # Catch any exception, because NVML and psutil have no common base class for errors.
            self.reasons[name] = self.reasons.get(name) or f"{type(error).__name__}: {error}"
            return None
        self.reasons.setdefault(name, None)
        return value


def _count_outside(on_device: Sequence[Any], root: int) -> int | None:
    """Return the number of processes on a device that are not descendants of `root`.

    Returns None if a process on the device is not visible to this process. An invisible process may
    belong to the run, inside a container.
    """
    count = 0
    for process in on_device:
        try:
            is_of_run = root in (parent.pid for parent in psutil.Process(process.pid).parents())
        except psutil.Error:
            return None
        count += not is_of_run
    return count


GPU_SENSORS: Mapping[str, Callable[[Any, Any, int], Json]] = {
    "gpu_percent": lambda nvml, device, root: nvml.nvmlDeviceGetUtilizationRates(device).gpu,
    "gpu_memory_bytes": lambda nvml, device, root: int(nvml.nvmlDeviceGetMemoryInfo(device).used),
    "gpu_power_watts": lambda nvml, device, root: nvml.nvmlDeviceGetPowerUsage(device) / 1000,
    "gpu_clock_mhz": lambda nvml, device, root: nvml.nvmlDeviceGetClockInfo(
        device, nvml.NVML_CLOCK_SM
    ),
    "gpu_temperature_celsius": lambda nvml, device, root: nvml.nvmlDeviceGetTemperature(
        device, nvml.NVML_TEMPERATURE_GPU
    ),
    "gpu_slow": lambda nvml, device, root: int(
        bool(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device) & SLOW_REASONS)
    ),
    "gpu_other_processes": lambda nvml, device, root: _count_outside(
        nvml.nvmlDeviceGetComputeRunningProcesses(device), root
    ),
}
"""Maps the name of each GPU sensor to the function that reads the sensor.

The function's arguments are NVML, the handle of a device, and the id of the process whose
descendants belong to the run.
"""


class TelemetryRecorder:
    """Writes samples to a file between the calls of `start` and `stop`."""

    def __init__(
        self,
        path: Path,
        log: Path,
        with_gpus: bool,
        interval_seconds: float = INTERVAL_SECONDS,
        root: int | None = None,
    ) -> None:
        """Prepare the recording.

        Args:
            path: File to which the samples are written.
            log: Log of the run. Only samples between the log's `run_start` and `run_stop` are kept.
            with_gpus: True to read the sensors of GPUs.
            interval_seconds: Time between two samples.
            root: Id of the process whose descendants belong to the run. By default, it is the id of
                this process.
        """
        self._root = root
        self.path = path
        self.log = log
        self.interval_seconds = interval_seconds
        self.samples = 0
        self.cpu_seconds = 0.0
        """Total CPU time in seconds that the sampling thread has used."""
        self._with_gpus = with_gpus
        self._reasons: Mapping[str, str | None] = {}
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the sampling.

        Call this method after the processes of the run have started, because a process with several
        threads must not fork.
        """
        thread = threading.Thread(target=self._work, name="telemetry", daemon=True)
        with contextlib.suppress(RuntimeError):  # the limit on the number of threads is reached
            thread.start()
            self._thread = thread

    def stop(self) -> None:
        """Stop the sampling, and remove the samples before `run_start` and after `run_stop`."""
        self._ended.set()
        if self._thread is None:
            return
        self._thread.join(JOIN_SECONDS)
        self._thread = None
        try:
            cut(self.path, self.log, self._header())
        except (OSError, ValueError) as error:
            LOG.warning("%s: cannot remove the samples outside the run: %s", self.path, error)

    def _header(self) -> dict[str, Json]:
        return {"sensors": dict(self._reasons), "interval_seconds": self.interval_seconds}

    def _work(self) -> None:
        try:
            with devices.nvml() if self._with_gpus else contextlib.nullcontext() as nvml:
                self._sample(Sensors(nvml, self._with_gpus, self._root))
        except Exception as error:
            # If the disk is full or the driver fails, the run continues without telemetry.
            self._reasons = {**self._reasons, "telemetry": f"{type(error).__name__}: {error}"}

    def _sample(self, sensors: Sensors) -> None:
        begin, begin_ms = time.monotonic(), time.time() * 1e3
        self._reasons = sensors.reasons
        # the first call detects sensors that fail, and starts the first measurement interval
        sensors.read()
        with open(self.path, "x", encoding="utf-8", buffering=1) as stream:
            stream.write(json.dumps(self._header(), ensure_ascii=False) + "\n")
            while True:
                # After a late sample, skip samples instead of shifting all later samples. The next
                # sample is at least half an interval away, because CPU shares over a shorter time
                # are meaningless.
                tick = int((time.monotonic() - begin) / self.interval_seconds + 0.5) + 1
                if self._ended.wait(
                    max(0.0, begin + tick * self.interval_seconds - time.monotonic())
                ):
                    return
                seconds = time.monotonic() - begin
                row = {"time_ms": round(begin_ms + seconds * 1e3), "seconds": round(seconds, 3)}
                stream.write(json.dumps({**row, **sensors.read()}) + "\n")
                self.samples += 1
                self.cpu_seconds = time.thread_time()


def cut(path: Path, log: Path, header: Mapping[str, Json] | None = None) -> None:
    """Remove the samples outside the time from `run_start` to `run_stop`.

    Times of the samples are converted to seconds since `run_start`. If the log lacks `run_start`,
    no early samples are removed. If the log lacks `run_stop`, no late samples are removed.

    Args:
        path: File with the samples. The file is replaced.
        log: Log of the run.
        header: First line of the new file. If None, the first line of the existing file is kept.

    Raises:
        OSError: The file cannot be read or written.
        ValueError: The first line of the file is not JSON.
    """
    if header is None:
        with files.open_stream(path) as stream:
            header = json.loads(stream.readline(_LINE_BYTES))
    start_ms, stop_ms = _clock(log)
    window = (
        f"{'start' if start_ms is None else 'run_start'} to"
        f" {'end' if stop_ms is None else 'run_stop'}"
    )
    lines = [json.dumps({**header, "window": window}, ensure_ascii=False)]
    for row in rows(path):
        if (start_ms is None or row["time_ms"] >= start_ms) and (
            stop_ms is None or row["time_ms"] <= stop_ms
        ):
            if start_ms is not None:
                row["seconds"] = round((row["time_ms"] - start_ms) / 1e3, 3)
            lines.append(json.dumps(row))
    write_atomically(path, "\n".join(lines) + "\n")


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the samples in a file, and skip incomplete lines.

    Incomplete lines are possible if the disk was full.
    """
    with files.open_stream(path) as stream:
        while line := stream.readline(_LINE_BYTES):
            with contextlib.suppress(ValueError):
                row = json.loads(line)
                if "time_ms" in row:
                    yield row


def _clock(log: Path) -> tuple[float | None, float | None]:
    """Return the times of `run_start` and `run_stop` in a log, in milliseconds.

    A time is None if the log does not contain the corresponding record.
    """
    from suite.results.logs.lines import read_file

    if not log.exists():
        return None, None
    times: dict[str, float] = {}
    for event in read_file(log).events:
        times.setdefault(event.key, event.time_ms)
    return times.get("run_start"), times.get("run_stop")


def main() -> int:
    """Record the topology and telemetry of this machine until a signal ends this process.

    The agent sends the topology file and the telemetry file to the controller.
    """
    folder, device = Path(sys.argv[1]), sys.argv[2]
    topology.write(folder)
    TelemetryRecorder(
        folder / "telemetry.jsonl", folder / "none", device == "cuda", root=os.getppid()
    ).start()
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
