"""Telemetry: sampled values, the samples that are kept, and failures that must not harm a run."""

import json
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import subprocess
import sys
import threading
import time

import psutil
import pytest

from suite.control import telemetry
from suite.control.telemetry import GPU_SENSORS, ProcessTree, Sensors, TelemetryRecorder, cut
from suite.machine import devices
from testing.fake_logs import START_MS, line, write
from tests import frameworks_probe
from tests.helpers import BURN, python

HOLD = (
    "import time; block = bytearray(200 << 20); block[::4096] = b'x' * len(block[::4096]);"
    " print(flush=True); time.sleep(60)"
)


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def sampled(tmp_path, with_gpus=False):
    """Return the lines of at least three samples, a tenth of a second apart."""
    watch = TelemetryRecorder(
        tmp_path / "telemetry.jsonl", tmp_path / "result_0.txt", with_gpus, 0.1
    )
    watch.start()
    deadline = time.monotonic() + 120
    while watch.samples < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    watch.stop()
    return rows(tmp_path / "telemetry.jsonl")


@pytest.fixture(autouse=True, scope="module")
def stop_earlier_processes():
    """Stop the processes that earlier tests started, because a tree contains all of them.

    They start again when needed.
    """
    frameworks_probe.stop()
    multiprocessing.forkserver._forkserver._stop()
    multiprocessing.resource_tracker._resource_tracker._stop()


@pytest.fixture
def child(request):
    with python(request.param, stdout=subprocess.PIPE) as process:
        yield process


@pytest.mark.parametrize("child", [BURN], indirect=True)
def test_cpu_time_of_the_tree_is_that_of_its_processes(child):
    """Check the CPU time against bounds that are valid however busy the machine is.

    The test reads psutil before and after each sample, which gives the least and the most CPU time.
    """

    def look():
        return time.monotonic(), sum(psutil.Process(child.pid).cpu_times()[:2])

    tree = ProcessTree()
    (first_time, first_cpu), _, (second_time, second_cpu) = look(), tree.sample(), look()
    while look()[1] - second_cpu < 0.5:
        time.sleep(0.1)
    (third_time, third_cpu), row, (last_time, last_cpu) = look(), tree.sample(), look()
    assert row["run_processes"] == 1
    least = 100 * (third_cpu - second_cpu) / (last_time - first_time) / psutil.cpu_count()
    most = 100 * (last_cpu - first_cpu) / (third_time - second_time) / psutil.cpu_count()
    assert least - 0.01 <= row["run_cpu_percent"] <= most + 0.01
    assert row["run_cpu_percent"] > 0


@pytest.mark.parametrize("child", [HOLD], indirect=True)
def test_memory_of_the_tree_is_that_of_its_processes(child):
    child.stdout.readline()
    row = ProcessTree().sample()
    assert row["run_memory_bytes"] == pytest.approx(
        psutil.Process(child.pid).memory_info().rss, rel=0.02
    )
    assert row["run_memory_bytes"] > 200 << 20


@pytest.mark.parametrize("child", [HOLD], indirect=True)
def test_a_process_that_is_gone_is_left_out(child):
    tree = ProcessTree()
    assert tree.sample()["run_processes"] == 1
    child.kill()
    child.wait()
    assert tree.sample() == {"run_cpu_percent": 0.0, "run_memory_bytes": 0, "run_processes": 0}


def test_the_search_for_new_processes_is_rarer_the_more_it_costs(monkeypatch):
    clock = iter([0.0, 0.02])
    monkeypatch.setattr(time, "thread_time", lambda: next(clock))
    tree = ProcessTree()
    begin = time.monotonic()
    tree.sample()
    end = time.monotonic()
    tree.sample()  # must not search again: the fake clock has no third value
    assert begin + 20 <= tree._search_at <= end + 20


def test_a_run_without_gpus(tmp_path):
    head, *samples = sampled(tmp_path)
    assert head["sensors"] == dict.fromkeys(["cpu_percent", "memory_available_bytes", "run"])
    assert head["window"] == "start to end"
    assert len(samples) >= 3
    for before, row in zip([{"seconds": 0.0}, *samples], samples, strict=False):
        assert row["seconds"] - before["seconds"] >= 0.05 - 1e-3
        assert abs(row["time_ms"] / 1e3 - time.time()) < 120
        assert 0 <= row["cpu_percent"] <= 100
        assert 0 < row["memory_available_bytes"] <= psutil.virtual_memory().total
        assert not set(GPU_SENSORS) & set(row)


READ = {"gpu_percent": [90, 91], "gpu_memory_bytes": [3 << 30] * 2, "gpu_power_watts": [312.5] * 2}
READ |= {"gpu_clock_mhz": [1980] * 2, "gpu_temperature_celsius": [45] * 2}
READ |= {"gpu_slow": [0, 0], "gpu_other_processes": [0, 0]}
NOT_OURS, NOT_SEEN = (1,), (1, 1 << 30)
"""Process ids on each device. Process 1 is never a child of the run."""


@pytest.mark.parametrize(
    ("driver", "changed"),
    [
        ({}, {}),
        *(({"slow": reasons}, {"gpu_slow": [0, 0]}) for reasons in (0x04, 0x02)),
        *(({"slow": reasons}, {"gpu_slow": [1, 1]}) for reasons in (0x08, 0x20 | 0x04, 0x40, 0x80)),
        ({"running": NOT_OURS}, {"gpu_other_processes": [1, 1]}),
        ({"running": NOT_SEEN}, {"gpu_other_processes": [None, None]}),
        ({"broken": ("nvmlDeviceGetPowerUsage",)}, {"gpu_power_watts": [None, None]}),
    ],
)  # fmt: skip
def test_gpus_are_read_device_by_device(nvml, driver, changed):
    """Check the values of each device.

    Heat and brakes slow a GPU down, a power limit does not. A process that is not visible may
    belong to the run.
    """
    nvml(used=3 << 30, **driver)
    with devices.nvml() as library:
        sensors = Sensors(library, with_gpus=True)
        row = sensors.read()
    assert {name: row[name] for name in GPU_SENSORS} == {**READ, **changed}
    failed = {name: reason for name, reason in sensors.reasons.items() if reason}
    assert failed == ({"gpu_power_watts": "NVMLError: Not Supported"} if "broken" in driver else {})


@pytest.mark.parametrize("child", [HOLD], indirect=True)
def test_processes_of_the_run_on_its_gpus_are_not_counted_as_other_processes(nvml, child):
    nvml(running=(child.pid,))
    with devices.nvml() as library:
        assert Sensors(library, with_gpus=True).read()["gpu_other_processes"] == [0, 0]


def test_only_visible_devices_are_read(tmp_path, nvml, monkeypatch):
    """Check the whole path from the driver to the file."""
    nvml()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    head, row, *_ = sampled(tmp_path, with_gpus=True)
    assert not any(head["sensors"].values())
    assert row["gpu_percent"] == [91]


def test_no_nvml_at_all(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert devices.gpus() == []
    head, row, *_ = sampled(tmp_path, with_gpus=True)
    assert "NVML does not respond" in head["sensors"]["gpus"]
    assert row["gpu_percent"] == []
    assert row["memory_available_bytes"] > 0


def test_a_failure_of_psutil_is_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(psutil, "cpu_percent", lambda: 1 / 0)
    monkeypatch.setattr(ProcessTree, "sample", lambda tree: 1 / 0)
    head, row, *_ = sampled(tmp_path)
    assert (
        head["sensors"]["cpu_percent"]
        == head["sensors"]["run"]
        == "ZeroDivisionError: division by zero"
    )
    assert row["cpu_percent"] is row["run_cpu_percent"] is row["run_memory_bytes"] is None


def test_samples_have_the_time_at_which_they_were_taken(tmp_path, monkeypatch):
    """Check the time stamps although the sensors take half a second to start."""
    slow, now_ms = Sensors.__init__, []

    def start(*arguments):
        time.sleep(0.5)
        slow(*arguments)

    def read(sensors):
        now_ms.append(time.time() * 1e3)
        return {}

    monkeypatch.setattr(Sensors, "__init__", start)
    monkeypatch.setattr(Sensors, "read", read)
    _, *samples = sampled(tmp_path)
    # The first read happens before all samples.
    for row, taken_ms in zip(samples, now_ms[1:], strict=False):
        assert row["time_ms"] == pytest.approx(taken_ms, abs=300)


def test_a_folder_that_cannot_be_written_does_not_fail_the_run(tmp_path):
    watch = TelemetryRecorder(
        tmp_path / "no folder" / "telemetry.jsonl", tmp_path / "result_0.txt", False, 0.1
    )
    watch.start()
    time.sleep(0.1)
    watch.stop()
    assert watch.samples == 0


def test_a_driver_that_hangs_delays_the_end_by_at_most_the_join_timeout(tmp_path, monkeypatch):
    monkeypatch.setattr(telemetry, "JOIN_SECONDS", 0.2)
    answer, answered = threading.Event(), []
    monkeypatch.setattr(Sensors, "read", lambda sensors: answered.append(answer.wait(600)))
    watch = TelemetryRecorder(tmp_path / "telemetry.jsonl", tmp_path / "result_0.txt", False, 0.1)
    watch.start()
    begin = time.monotonic()
    watch.stop()
    assert time.monotonic() - begin >= 0.2
    assert not answered  # stop() did not wait for the driver
    answer.set()


@pytest.mark.parametrize(
    ("logged", "kept", "window"),
    [
        (
            {"run_start": 3000, "run_stop": 6000},
            {3000: 0.0, 4000: 1.0, 5000: 2.0, 6000: 3.0},
            "run_start to run_stop",
        ),
        ({"run_start": 7500}, {8000: 0.5, 9000: 1.5}, "run_start to end"),
        (
            {"init_start": 2000},
            {time: time / 1e3 for time in range(0, 10000, 1000)},
            "start to end",
        ),
        ({}, {time: time / 1e3 for time in range(0, 10000, 1000)}, "start to end"),
        ({"run_start": 3100, "run_stop": 3200}, {}, "run_start to run_stop"),
    ],
)
def test_samples_are_cut_to_the_run(tmp_path, logged, kept, window):
    path, log = tmp_path / "telemetry.jsonl", tmp_path / "result_0.txt"
    lines = [json.dumps({"time_ms": time, "seconds": time / 1e3}) for time in range(0, 10000, 1000)]
    path.write_text("\n".join(['{"sensors": {}}', *lines, '{"time_ms": 10']))
    if logged:
        write(log, [line(time - START_MS, key) for key, time in logged.items()])
    cut(path, log, {"sensors": {"cpu_percent": None}})
    head, *samples = rows(path)
    assert head == {"sensors": {"cpu_percent": None}, "window": window}
    assert {row["time_ms"]: row["seconds"] for row in samples} == kept
