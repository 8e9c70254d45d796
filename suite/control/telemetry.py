"""`telemetry.jsonl`: what the machine was doing during a run, once a second.

A thread of the controller samples; the supervisor's own loop never waits for it. Whatever goes wrong here costs samples,
never the run. On another machine its agent starts `python -m suite.control.telemetry FOLDER DEVICE` beside the workers.
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
"""How long the end of a run waits for a sample that is being taken: a driver can hang."""
SEARCH_SHARE = 0.001
"""Largest share of a core for looking for new processes: reading all of /proc takes long on a full machine."""
SLOW_REASONS = 0x08 | 0x20 | 0x40 | 0x80
"""nvml.h, nvmlClocksEventReasons: hardware slowdown, thermal slowdown by software and by hardware, power brake. A power limit
is not among them: GPUs at full load run into it as a rule."""
CLOCK_CORES = 16
"""So many cores' clocks are read at most: each may interrupt its core."""


class ProcessTree:
    """All descendants of a process that starts nothing but the processes of the run: of the controller, or of an agent."""

    def __init__(self, root: int | None = None) -> None:
        """`root`: its id; this process by default. This one itself is not counted."""
        self._root = root
        self._processes: dict[int, psutil.Process] = {}
        self._cpu_seconds: dict[int, float] = {}
        self._sampled = time.monotonic()
        self._search_at = 0.0

    def sample(self) -> dict[str, Json]:
        """CPU use since the last sample (100: all CPUs of the machine), resident memory, number of processes.

        Memory that processes share counts once for each of them.
        """
        now = time.monotonic()
        if now >= self._search_at:
            self._search(now)
        before, self._cpu_seconds = self._cpu_seconds, {}
        busy_seconds, memory_bytes = 0.0, 0
        for pid, process in self._processes.items():
            with contextlib.suppress(psutil.Error), process.oneshot():  # gone since the last search
                times = process.cpu_times()
                memory_bytes += process.memory_info().rss
                self._cpu_seconds[pid] = times.user + times.system
                busy_seconds += max(0.0, self._cpu_seconds[pid] - before.get(pid, self._cpu_seconds[pid]))
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
        self._processes = {**children, **{pid: old for pid, old in self._processes.items() if children.get(pid) == old}}
        self._search_at = now + (time.thread_time() - begin) / SEARCH_SHARE


class Sensors:
    """Reads everything once; a sensor that fails gives null, and its first reason is kept."""

    def __init__(self, nvml: Any = None, with_gpus: bool = False, root: int | None = None) -> None:
        """`nvml`: the initialised NVML module, None where there is none; `with_gpus`: whether GPUs are asked for; `root`: whose
        descendants are the run's, this process by default.
        """
        self._root = os.getpid() if root is None else root
        self.reasons: dict[str, str | None] = {}
        """Name of every sensor to None, or to why it failed first."""
        self._tree = ProcessTree(root)
        self._nvml = nvml
        self._with_gpus = with_gpus
        self._handles: Sequence[Any] = ()
        base = Path("/sys/devices/system/cpu")
        files = (base / f"cpu{core}/cpufreq/scaling_cur_freq" for core in devices.cpu_cores()[:CLOCK_CORES])
        self._clock_files = [file for file in files if file.exists()]
        """None in most virtual machines."""
        if nvml is not None:
            self._handles = self._try("gpus", lambda: devices.visible_handles(nvml)) or ()

    def read(self) -> dict[str, Json]:
        """One value per sensor; of GPUs a list with one value per visible device. The first CPU shares mean nothing."""
        row: dict[str, Json] = {
            "cpu_percent": self._try("cpu_percent", psutil.cpu_percent),
            "memory_available_bytes": self._try("memory_available_bytes", lambda: psutil.virtual_memory().available),
        }
        if self._clock_files:
            row["cpu_clock_mhz"] = self._try("cpu_clock_mhz", self._cpu_clock_mhz)
        nothing = {"run_cpu_percent": None, "run_memory_bytes": None, "run_processes": None}
        row |= self._try("run", self._tree.sample) or nothing
        if self._with_gpus:
            if self._nvml is None:
                self.reasons.setdefault("gpus", "NVML does not answer: no driver, or no nvidia-ml-py")
            for name, read in GPU_SENSORS.items():
                row[name] = [self._try(name, read, self._nvml, handle, self._root) for handle in self._handles]
        return row

    def _cpu_clock_mhz(self) -> float | None:
        clocks_khz = [clock for file in self._clock_files if (clock := number(file)) is not None]
        return round(sum(clocks_khz) / len(clocks_khz) / 1000, 1) if clocks_khz else None

    def _try(self, name: str, read: Callable[..., Any], *arguments: Any) -> Any:
        try:
            value = read(*arguments)
        except Exception as error:  # NVML's and psutil's errors share no base, and none may end a run
            self.reasons[name] = self.reasons.get(name) or f"{type(error).__name__}: {error}"
            return None
        self.reasons.setdefault(name, None)
        return value


def _others(on_device: Sequence[Any], root: int) -> int | None:
    """How many of these processes the run did not start; None if one is not to be seen: it may be in our container."""
    count = 0
    for process in on_device:
        try:
            ours = root in (parent.pid for parent in psutil.Process(process.pid).parents())
        except psutil.Error:
            return None
        count += not ours
    return count


GPU_SENSORS: Mapping[str, Callable[[Any, Any, int], Json]] = {
    "gpu_percent": lambda nvml, device, root: nvml.nvmlDeviceGetUtilizationRates(device).gpu,
    "gpu_memory_bytes": lambda nvml, device, root: int(nvml.nvmlDeviceGetMemoryInfo(device).used),
    "gpu_power_watts": lambda nvml, device, root: nvml.nvmlDeviceGetPowerUsage(device) / 1000,
    "gpu_clock_mhz": lambda nvml, device, root: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM),
    "gpu_temperature_celsius": lambda nvml, device, root: nvml.nvmlDeviceGetTemperature(
        device, nvml.NVML_TEMPERATURE_GPU
    ),
    "gpu_slow": lambda nvml, device, root: int(
        bool(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device) & SLOW_REASONS)
    ),
    "gpu_other_processes": lambda nvml, device, root: _others(nvml.nvmlDeviceGetComputeRunningProcesses(device), root),
}
"""Name to what NVML says of a device; `root`: whose descendants are the run's."""


class TelemetryRecorder:
    """Samples between `start` and `stop` into one file."""

    def __init__(
        self,
        path: Path,
        log: Path,
        with_gpus: bool,
        interval_seconds: float = INTERVAL_SECONDS,
        root: int | None = None,
    ) -> None:
        """`path`: the file to write; `log`: the run's log, whose clock says what to keep of it; `root`: as of `Sensors`."""
        self._root = root
        self.path = path
        self.log = log
        self.interval_seconds = interval_seconds
        self.samples = 0
        self.cpu_seconds = 0.0
        """CPU time of the sampling thread so far."""
        self._with_gpus = with_gpus
        self._reasons: Mapping[str, str | None] = {}
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start sampling. Call it when the run's processes are started: forking and threads do not go together."""
        thread = threading.Thread(target=self._work, name="telemetry", daemon=True)
        with contextlib.suppress(RuntimeError):  # no more threads allowed
            thread.start()
            self._thread = thread

    def stop(self) -> None:
        """End sampling and cut the file to the run."""
        self._ended.set()
        if self._thread is None:
            return
        self._thread.join(JOIN_SECONDS)
        self._thread = None
        try:
            cut(self.path, self.log, self._header())
        except (OSError, ValueError) as error:
            LOG.warning("%s is not cut to the run: %s", self.path, error)

    def _header(self) -> dict[str, Json]:
        return {"sensors": dict(self._reasons), "interval_seconds": self.interval_seconds}

    def _work(self) -> None:
        try:
            with devices.nvml() if self._with_gpus else contextlib.nullcontext() as nvml:
                self._sample(Sensors(nvml, self._with_gpus, self._root))
        except Exception as error:  # a full disk, a driver that goes away: the run goes on without telemetry
            self._reasons = {**self._reasons, "telemetry": f"{type(error).__name__}: {error}"}

    def _sample(self, sensors: Sensors) -> None:
        begin, begin_ms = time.monotonic(), time.time() * 1e3
        self._reasons = sensors.reasons
        sensors.read()  # says which sensors fail, and what later samples compare with
        with open(self.path, "x", encoding="utf-8", buffering=1) as stream:
            stream.write(json.dumps(self._header(), ensure_ascii=False) + "\n")
            while True:
                # A late sample costs samples, it does not shift the later ones. The next is half an interval away or more:
                # shares of a moment mean nothing.
                tick = int((time.monotonic() - begin) / self.interval_seconds + 0.5) + 1
                if self._ended.wait(max(0.0, begin + tick * self.interval_seconds - time.monotonic())):
                    return
                seconds = time.monotonic() - begin
                row = {"time_ms": round(begin_ms + seconds * 1e3), "seconds": round(seconds, 3)}
                stream.write(json.dumps({**row, **sensors.read()}) + "\n")
                self.samples += 1
                self.cpu_seconds = time.thread_time()


def cut(path: Path, log: Path, header: Mapping[str, Json] | None = None) -> None:
    """Keep the samples from `run_start` to `run_stop`, and count their seconds from `run_start`; `header`: None as it is.

    What the log does not hold does not cut: a run that never started its clock keeps everything. Raises OSError, and ValueError
    for a header that is none.
    """
    if header is None:
        with files.open_stream(path) as stream:
            header = json.loads(stream.readline(_LINE_BYTES))
    start_ms, stop_ms = _clock(log)
    window = f"{'start' if start_ms is None else 'run_start'} to {'end' if stop_ms is None else 'run_stop'}"
    lines = [json.dumps({**header, "window": window}, ensure_ascii=False)]
    for row in rows(path):
        if (start_ms is None or row["time_ms"] >= start_ms) and (stop_ms is None or row["time_ms"] <= stop_ms):
            if start_ms is not None:
                row["seconds"] = round((row["time_ms"] - start_ms) / 1e3, 3)
            lines.append(json.dumps(row))
    write_atomically(path, "\n".join(lines) + "\n")


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The samples; a line that a full disk broke off is left out."""
    with files.open_stream(path) as stream:
        while line := stream.readline(_LINE_BYTES):
            with contextlib.suppress(ValueError):
                row = json.loads(line)
                if "time_ms" in row:
                    yield row


def _clock(log: Path) -> tuple[float | None, float | None]:
    """Times of `run_start` and `run_stop` in a log; None for what it does not hold."""
    from suite.results.logs.lines import read_file

    if not log.exists():
        return None, None
    times: dict[str, float] = {}
    for event in read_file(log).events:
        times.setdefault(event.key, event.time_ms)
    return times.get("run_start"), times.get("run_stop")


def main() -> int:
    """Write what the machine is made of and sample it until it is ended; both files travel as all others do."""
    folder, device = Path(sys.argv[1]), sys.argv[2]
    topology.write(folder)
    TelemetryRecorder(folder / "telemetry.jsonl", folder / "none", device == "cuda", root=os.getppid()).start()
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
