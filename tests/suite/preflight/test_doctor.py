"""What the doctor finds on synthetic machines, what it refuses, and what it costs."""

import os
import subprocess
import sys
import time
from collections import namedtuple
from types import SimpleNamespace

import psutil
import pytest

from suite.environments.environment import Environment
from suite.machine import cpu_load, devices, topology
from suite.machine.cgroups import Limits
from suite.preflight import doctor
from suite.preflight import gpus as gpucheck
from suite.preflight.doctor import Need, preflight
from suite.preflight.gpus import Build, carries, judge
from tests.helpers import TOY_RUN, only, run_suite_here, suite, suite_here, wait_until
from tests.suite import fake_nvml

Usage = namedtuple("Usage", "total used free")
GIB = 1 << 30


def need(folder, device="cpu", environment=None):
    cores = tuple(sorted(os.sched_getaffinity(0)))
    return Need(device, 1, 1, cores, folder, "pytorch", environment)


@pytest.fixture
def quiet(monkeypatch):
    """A machine on which nothing is wrong."""
    monkeypatch.setattr(cpu_load, "busy_percent", lambda cores: 1.0)
    monkeypatch.setattr(topology, "governors", lambda: {"performance"})
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=64 * GIB))
    monkeypatch.setattr(doctor, "limits", Limits)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda place: Usage(10**12, 0, 10**12))


@pytest.fixture
def nvml(monkeypatch):
    def put(**changes):
        monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.make(**changes))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    return put


def test_a_good_machine_says_nothing_before_a_run(tmp_path, quiet):
    assert preflight(need(tmp_path)) == []


def test_a_gpu_that_does_not_answer_is_a_finding(tmp_path, nvml):
    nvml(broken=("nvmlDeviceGetMemoryInfo",))
    (found,) = gpucheck.examine(1, "pytorch", None)
    line = "devices: GPU 0 does not answer (Not Supported); to leave it out: export CUDA_VISIBLE_DEVICES=1; "
    assert (found.level, found.line) == ("impossible", f"{line}without GPUs: type device=cpu")
    for words in ([], ["--device", "cuda", "--gpus", "1"]):
        done = suite_here(tmp_path, "doctor", *words)
        assert done.returncode == 1
        assert [text for text in done.stdout.splitlines() if text.startswith("impossible")] == [
            f"impossible  {line}without GPUs: type device=cpu"
        ]


def test_every_topic_has_its_line(tmp_path, quiet):
    findings = doctor.examine(need(tmp_path))
    assert [finding.topic for finding in findings] == ["devices", "disk", "memory", "load", "governor", "container"]


@pytest.mark.parametrize(("free_mb", "level"), [(199, "impossible"), (201, "warning"), (1001, "ok")])
def test_disk_space(tmp_path, quiet, monkeypatch, free_mb, level):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda place: Usage(10**12, 0, free_mb * 10**6))
    assert doctor.disk(tmp_path).level == level
    if level == "impossible":
        with pytest.raises(ValueError, match=r"^disk: 199 MB free at .*, a run needs 200 MB; free some[^\n]*$"):
            preflight(need(tmp_path))
    monkeypatch.setenv("SUITE_MINIMUM_DISK_MB", "50")
    assert doctor.disk(tmp_path).level != "impossible"
    monkeypatch.setenv("SUITE_MINIMUM_DISK_MB", "much")
    with pytest.raises(ValueError, match="SUITE_MINIMUM_DISK_MB=much: a number"):
        doctor.disk(tmp_path)


def test_a_log_folder_that_cannot_be_written(tmp_path, quiet, monkeypatch):
    def refuse(dir):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refuse)
    with pytest.raises(ValueError, match=r"cannot be written \(Read-only file system\); type output=FOLDER"):
        preflight(need(tmp_path / "not" / "there" / "yet"))


def test_memory_is_counted_per_worker_and_within_the_control_group(monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=3 * GIB))
    assert doctor.memory(3, Limits()).level == "ok"
    assert doctor.memory(4, Limits()).level == "warning"
    assert doctor.memory(2, Limits(2, None, 4 * GIB, 2 * GIB)).level == "ok"
    finding = doctor.memory(2, Limits(2, None, 4 * GIB, 2 * GIB - 1))
    assert finding.level == "warning"
    assert "2.0 GiB available for 2 worker process(es)" in finding.text


@pytest.mark.parametrize(
    ("governors", "level"), [({"performance"}, "ok"), ({"powersave", "performance"}, "warning"), (set(), "ok")]
)
def test_governor(monkeypatch, governors, level):
    monkeypatch.setattr(topology, "governors", lambda: governors)
    assert doctor.governor().level == level


def test_a_quota_below_the_cores_of_the_run(tmp_path):
    two_cores = Need("cpu", 2, 2, (0, 1), tmp_path, "pytorch")
    assert doctor.confinement(two_cores, Limits(2, 1.5)).level == "warning"
    assert doctor.confinement(two_cores, Limits(2, 2.0)).level == "ok"
    assert doctor.confinement(two_cores, Limits()).level == "ok"


def test_who_uses_the_cores_is_named():
    core = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, [{core}])\nprint(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        try:  # beside other tests it may get a share of that core only, or not be among the first three at once
            wait_until("a busy core", lambda: cpu_load.busy_percent((core,)) > 80)
            wait_until("its name", lambda: any(f"(pid {process.pid})" in name for name in cpu_load.busiest((core,))))
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("free", "words"),
    [
        ([], "end that or wait, or times"),
        ([3], "end that or wait, or times"),
        ([3, 5, 6], "or take free ones (taskset -c 3,5 COMMAND), or times"),
    ],
)
def test_free_cores_are_named_where_there_are_enough(monkeypatch, free, words):
    monkeypatch.setattr(doctor.devices, "cpu_cores", lambda: tuple(range(7)))
    monkeypatch.setattr(cpu_load, "busy_percent", lambda cores: 90.0)
    monkeypatch.setattr(cpu_load, "busiest", lambda cores: ["other (pid 1) 90 %"])
    monkeypatch.setattr(cpu_load, "free", lambda cores, most: [core for core in cores if core in free])
    assert words in doctor.load((0, 1)).line


def test_gpus_that_are_free(tmp_path, quiet, nvml):
    nvml()
    findings = doctor.examine(need(tmp_path, "cuda"))
    assert findings[0].line == "devices: 2 visible GPU(s): Fake GPU (80 GiB, 9.0); driver for CUDA 13.0"
    assert {finding.level for finding in findings} == {"ok"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"running": (1,)}, "device 0: in use by"),
        ({"used": 9 * GIB}, "device 0: 9.0 of 80 GiB in use, by a process that is not to be seen from here"),
        ({"broken": ("nvmlDeviceGetComputeRunningProcesses",)}, "device 0: its use cannot be asked (Not Supported)"),
    ],
)
def test_gpus_that_are_not(tmp_path, quiet, nvml, changes, expected):
    nvml(**changes)
    assert only(preflight(need(tmp_path, "cuda"))).startswith(expected)


def test_no_driver(tmp_path, quiet, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "NVML does not answer" in only(preflight(need(tmp_path, "cuda")))


ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_90a", "sm_100", "compute_120")


@pytest.mark.parametrize(
    ("capability", "fits"),
    [
        *(("7.0", False), ("7.5", True), ("8.0", True), ("8.9", True), ("9.0", True), ("10.3", True)),
        *(("11.0", False), ("12.0", True), ("12.1", True), ("13.0", True)),
    ],
)
def test_which_devices_a_build_carries(capability, fits):
    assert carries(ARCHITECTURES, capability) is fits


@pytest.mark.parametrize(
    ("build", "driver", "expected"),
    [
        (Build("2.11", "13.0", True, ("sm_90",)), "13.0", "ok"),
        (Build("2.11", "12.8", True, ("sm_90",)), "12.2", "ok"),
        (Build("2.11", "12.6", True, ("sm_90",)), "13.0", "ok"),
        (Build("2.11", "13.0", True, ("sm_90",)), "12.8", "is built for CUDA 13.0, the driver ends at 12.8"),
        (Build("2.11", None, False, ()), "13.0", "is a build for CPUs"),
        (Build("2.11", "13.0", False, ()), "13.0", "sees no GPU"),
        (Build("2.11", "13.0", True, ("sm_75",)), "13.0", "has no code for compute capability 9.0 (it has sm_75)"),
    ],
)
def test_a_build_against_devices_and_driver(build, driver, expected):
    finding = only(judge("pytorch 2.11", build, ["9.0"], driver))
    assert finding.level == "ok" if expected == "ok" else expected in finding.text


def test_the_environment_is_asked_in_a_process_of_its_own(tmp_path, quiet, nvml):
    nvml()
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho noise\necho \'["2.11", "13.0", true, ["sm_75"]]\'\n')
    python.chmod(0o755)
    line = only(preflight(need(tmp_path, "cuda", Environment("fake", (), str(python)))))
    assert line.startswith("build: pytorch 2.11 has no code for compute capability 9.0")


@pytest.mark.parametrize("script", ["echo broken >&2; exit 3", "echo nothing", "true"])
def test_an_environment_that_does_not_answer(tmp_path, quiet, nvml, script):
    nvml()
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    line = only(preflight(need(tmp_path, "cuda", Environment("fake", (), str(python)))))
    assert line.startswith("build: environment fake does not say what it was built for")
    assert "\n" not in line


def test_a_cpu_run_starts_nothing_and_is_quick(tmp_path, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    monkeypatch.setattr(gpucheck, "examine", None)
    cpu_seconds = []
    for _ in range(3):
        begin = time.process_time()
        preflight(need(tmp_path, environment=Environment("torch", (), "/nowhere")))
        cpu_seconds.append(time.process_time() - begin)
    assert min(cpu_seconds) + 2 * cpu_load.LOOK_SECONDS < 0.3


def test_warnings_are_printed_once_and_the_sweep_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "preflight", lambda need: ["x: [y]; z"])
    done = run_suite_here(tmp_path, "-m", *TOY_RUN, "gpus=1", "seed=1,2", toy=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("warning: x: [y]; z") == 1


def test_too_little_disk_space_refuses_the_run(tmp_path):
    done = run_suite_here(tmp_path, *TOY_RUN, toy=True, SUITE_MINIMUM_DISK_MB="1e12")
    assert done.returncode == 2
    assert done.stderr.startswith("run_suite.py: disk: ")
    assert len(done.stderr.splitlines()) == 1
    assert not list((tmp_path / "logs").glob("*/*/run_0"))


def test_suite_doctor(tmp_path):
    done = suite(tmp_path, "doctor", "--device", "cpu", "--output", tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split()[:2] for line in done.stdout.splitlines()]
    assert [topic for _, topic in lines][:6] == ["devices:", "disk:", "memory:", "load:", "governor:", "container:"]
    assert {level for level, _ in lines} <= {"ok", "warning"}
    done = suite_here(tmp_path, "doctor", "--device", "cpu", SUITE_MINIMUM_DISK_MB="1e12")
    assert done.returncode == 1
    assert "impossible  disk: " in done.stdout
    assert suite_here(tmp_path, "doctor", "--gpus", "0").returncode == 2


def test_suite_doctor_refuses_more_devices_than_there_are(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "cpu_cores", lambda: (0, 1))
    done = suite_here(tmp_path, "doctor", "--device", "cpu", "--gpus", "8")
    assert done.returncode == 1
    first = done.stdout.splitlines()[0]
    assert first.startswith("impossible  devices: gpus=8: 8 CPU device(s) of 1 core(s) need 8 cores")
    assert "this machine has 2; type gpus=2" in first
    assert suite_here(tmp_path, "doctor", "--device", "cpu", "--gpus", "2").returncode == 0
