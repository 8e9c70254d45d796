"""The doctor's findings on synthetic machines, its errors, and its costs."""

import json
import os
import platform
import subprocess
import sys
import time
from collections import namedtuple
from dataclasses import replace
from types import SimpleNamespace

import psutil
import pytest

from suite import __version__
from suite.common import registry
from suite.control import sweep
from suite.control.run_status import RunStatus
from suite.control.sweep import EndedRun
from suite.environments.builds import Build
from suite.environments.environment import Environment
from suite.machine import cpu_load, devices, topology
from suite.machine.cgroups import Limits
from suite.plan.device_choice import auto_environment
from suite.preflight import check_machine
from suite.preflight import gpus as gpucheck
from suite.preflight.check_machine import Resources, preflight
from suite.preflight.gpus import BuildInfo, check_build
from tests.helpers import (
    BURN,
    TOY_RUN,
    only,
    python,
    refusal,
    run_suite_here,
    suite_here,
    wait_until,
)

Usage = namedtuple("Usage", "total used free")
GIB = 1 << 30


def need(folder, device="cpu", environment=None):
    cores = tuple(sorted(os.sched_getaffinity(0)))
    return Resources(device, 1, 1, cores, folder, "pytorch", environment)


@pytest.fixture
def quiet(monkeypatch):
    monkeypatch.setattr(cpu_load, "busy_percent", lambda cores: 1.0)
    monkeypatch.setattr(topology, "governors", lambda: {"performance"})
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=64 * GIB))
    monkeypatch.setattr(check_machine, "limits", Limits)
    monkeypatch.setattr(check_machine.shutil, "disk_usage", lambda place: Usage(10**12, 0, 10**12))


def test_a_gpu_that_does_not_answer_is_a_finding(tmp_path, nvml):
    nvml(broken=("nvmlDeviceGetMemoryInfo",))
    (found,) = gpucheck.examine(1, "pytorch", None)
    remedy = "export CUDA_VISIBLE_DEVICES=1 to leave it out, or set device=cpu to run without GPUs"
    assert (found.level, found.text, found.do) == (
        "impossible",
        "GPU 0 does not answer (Not Supported)",
        remedy,
    )
    assert (
        found.line
        == f"devices: GPU 0 does not answer (Not Supported). {remedy[0].upper()}{remedy[1:]}"
    )
    done = suite_here(tmp_path, "doctor", exits=1)
    assert f"impossible  {found.line}" in done.stdout.splitlines()


def test_every_topic_has_a_finding_and_a_good_machine_has_no_warnings(tmp_path, quiet):
    assert preflight(need(tmp_path)) == []
    findings = check_machine.examine(need(tmp_path))
    assert [finding.topic for finding in findings] == [
        "devices",
        "disk",
        "memory",
        "load",
        "governor",
        "container",
    ]


@pytest.mark.parametrize(
    ("free_mb", "level"), [(199, "impossible"), (201, "warning"), (1001, "ok")]
)
def test_little_disk_space_is_a_warning_or_refused(tmp_path, quiet, monkeypatch, free_mb, level):
    monkeypatch.setattr(
        check_machine.shutil, "disk_usage", lambda place: Usage(10**12, 0, free_mb * 10**6)
    )
    assert check_machine.disk(tmp_path).level == level
    if level == "impossible":
        with pytest.raises(
            ValueError, match=r"^disk: 199 MB free at .*, but a run needs 200 MB\. Free some[^\n]*$"
        ):
            preflight(need(tmp_path))
    monkeypatch.setenv("SUITE_MINIMUM_DISK_MB", "50")
    assert check_machine.disk(tmp_path).level != "impossible"
    monkeypatch.setenv("SUITE_MINIMUM_DISK_MB", "much")
    with pytest.raises(ValueError, match="SUITE_MINIMUM_DISK_MB=much: expected a number"):
        check_machine.disk(tmp_path)


def test_a_log_folder_that_cannot_be_written_is_refused(tmp_path, quiet, monkeypatch):
    def refuse(dir):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(check_machine.tempfile, "TemporaryFile", refuse)
    with pytest.raises(
        ValueError, match=r"cannot be written \(Read-only file system\)\. Set output=FOLDER"
    ):
        preflight(need(tmp_path / "not" / "there" / "yet"))


@pytest.mark.parametrize(
    ("workers", "limits", "level"),
    [
        (3, Limits(), "ok"), (4, Limits(), "warning"),
        (2, Limits(2, None, 4 * GIB, 2 * GIB), "ok"),
        (2, Limits(2, None, 4 * GIB, 2 * GIB - 1), "warning"),
    ],
)  # fmt: skip
def test_memory_is_counted_per_worker_and_within_the_control_group(
    monkeypatch, workers, limits, level
):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=3 * GIB))
    assert check_machine.memory(workers, limits).level == level


@pytest.mark.parametrize("governors", [{"performance"}, {"powersave", "performance"}, set()])
def test_a_powersave_governor_is_a_warning(monkeypatch, governors):
    monkeypatch.setattr(topology, "governors", lambda: governors)
    assert check_machine.governor().level == ("warning" if "powersave" in governors else "ok")


@pytest.mark.parametrize(
    ("limits", "level"), [(Limits(2, 1.5), "warning"), (Limits(2, 2.0), "ok"), (Limits(), "ok")]
)
def test_a_quota_below_the_cores_of_the_run_is_a_warning(tmp_path, limits, level):
    assert (
        check_machine.confinement(Resources("cpu", 2, 2, (0, 1), tmp_path, "pytorch"), limits).level
        == level
    )


def test_the_processes_that_use_the_cores_are_named():
    core = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, [{core}])\nprint(flush=True)\n{BURN}"
    with python(code, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        # If tests run in parallel, the process may get only a share of that core, or it may not be
        # among the three busiest processes at once.
        wait_until("a busy core", lambda: cpu_load.busy_percent((core,)) > 80)
        wait_until(
            "its name",
            lambda: any(f"(pid {process.pid})" in name for name in cpu_load.busiest((core,))),
        )


@pytest.mark.parametrize(
    ("free", "words"),
    [
        ([], "End these processes or wait. Otherwise times"),
        ([3], "End these processes or wait. Otherwise times"),
        ([3, 5, 6], "or use free cores (taskset -c 3,5 COMMAND). Otherwise times"),
    ],
)
def test_free_cores_are_named_if_there_are_enough(monkeypatch, free, words):
    monkeypatch.setattr(check_machine.devices, "cpu_cores", lambda: tuple(range(7)))
    monkeypatch.setattr(cpu_load, "busy_percent", lambda cores: 90.0)
    monkeypatch.setattr(cpu_load, "busiest", lambda cores: ["other (pid 1) 90 %"])
    monkeypatch.setattr(
        cpu_load, "free", lambda cores, most: [core for core in cores if core in free]
    )
    assert words in check_machine.load((0, 1)).line


def test_free_gpus_are_ok(tmp_path, quiet, nvml):
    nvml()
    findings = check_machine.examine(need(tmp_path, "cuda"))
    assert (
        findings[0].line
        == "devices: 2 visible GPU(s): Fake GPU (80 GiB, 9.0), driver for CUDA 13.0"
    )
    assert {finding.level for finding in findings} == {"ok"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"running": (1,)}, "device 0: in use by"),
        (
            {"used": 9 * GIB},
            "device 0: 9.0 of 80 GiB in use, by a process that is not visible from here",
        ),
        (
            {"broken": ("nvmlDeviceGetComputeRunningProcesses",)},
            "device 0: its use cannot be queried (Not Supported)",
        ),
    ],
)
def test_gpus_in_use_are_a_warning(tmp_path, quiet, nvml, changes, expected):
    nvml(**changes)
    assert only(preflight(need(tmp_path, "cuda"))).startswith(expected)


def test_a_missing_driver_is_reported(tmp_path, quiet, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "NVML is not available" in only(preflight(need(tmp_path, "cuda")))


@pytest.mark.parametrize(
    ("answer", "driver", "expected"),
    [
        (BuildInfo("2.11", Build("13.0", ("sm_90",)), True), "13.0", "ok"),
        (
            BuildInfo("2.11", Build("13.0", ("sm_90",)), True),
            "12.8",
            "the driver supports CUDA up to 12.8. Set environment=other",
        ),
        (BuildInfo("2.11", None, False), "13.0", "is a build for CPUs. Set environment=other"),
        (
            BuildInfo("2.11", Build("13.0", ("sm_90",)), False),
            "13.0",
            "detects no GPU. Check CUDA_VISIBLE_DEVICES",
        ),
    ],
)
def test_the_build_of_a_framework_is_checked(answer, driver, expected):
    finding = check_build("pytorch 2.11", answer, ["9.0"], driver, "set environment=other")
    assert finding.level == ("ok" if expected == "ok" else "impossible")
    assert expected == "ok" or expected in finding.line


@pytest.mark.parametrize(
    ("cuda", "remedy"), [("13.0", "Update the driver"), ("12.6", "Set device=cpu")]
)
def test_the_remedy_is_a_driver_update_or_a_run_without_gpus(cuda, remedy):
    finding = check_build(
        "pytorch 2.11", BuildInfo("2.11", Build(cuda, ("sm_80",)), True), ["9.0"], "12.8"
    )
    assert finding.line.endswith(remedy)


def asked(folder, script):
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return Environment("fake", (), str(python))


@pytest.mark.parametrize(
    ("changes", "what", "do"),
    [
        ({"driver": 12080}, "is built for CUDA 13.0, but the driver supports CUDA up to 12.8",
         "Set environment=torch-cu126"),
        ({"capability": (7, 0)}, "has no code for compute capability 7.0 (it has sm_75)",
         "Set environment=torch-cu126"),
        ({"capability": (12, 0), "driver": 12080},
         "is built for CUDA 13.0, but the driver supports CUDA up to 12.8", "Update the driver"),
        ({"capability": (3, 0)}, "has no code for compute capability 3.0 (it has sm_75)",
         "Set device=cpu"),
    ],
)  # fmt: skip
def test_an_unsuitable_build_is_refused_before_a_run(tmp_path, quiet, nvml, changes, what, do):
    """Check the refusal. PyTorch itself would fail only minutes later.

    Its message would be "ProcessGroupNCCL is only supported with GPUs".
    """
    nvml(**changes)
    environment = asked(tmp_path, """echo noise; echo '["2.11", "13.0", false, ["sm_75"]]'""")
    with pytest.raises(ValueError, match=r"^build: ") as error:
        preflight(need(tmp_path, "cuda", environment))
    assert str(error.value) == f"build: pytorch 2.11 {what}. {do}"


def test_frameworks_that_are_not_queried_are_checked_by_their_lock(tmp_path, quiet, nvml):
    """Check MXNet: its build ends at sm_86, without code that a driver could compile for Hopper."""
    nvml()
    of_mxnet = replace(
        need(tmp_path, "cuda", Environment("mxnet-cuda", (), "python")), framework="mxnet"
    )
    with pytest.raises(
        ValueError, match=r"^build: mxnet 1\.9\.1 .* capability 9\.0 .*\. Set device=cpu"
    ):
        preflight(of_mxnet)
    nvml(capability=(8, 0))
    assert preflight(of_mxnet) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "torch"),
        ({"capability": (7, 0)}, "torch-cu126"),
        ({"driver": 12080}, "torch-cu126"),
        # No build is suitable. The preflight check prints the reason.
        ({"capability": (10, 0), "driver": 12080}, "torch"),
    ],
)
def test_the_environment_is_chosen_by_driver_and_capability(nvml, changes, expected):
    nvml(**changes)
    assert auto_environment(registry.load_framework("pytorch"), "cuda", (), 2) == expected


def test_a_gpu_cut_into_parts_is_refused(nvml):
    nvml(parts=1)
    with pytest.raises(
        ValueError, match=r"GPU 0 is partitioned with MIG.*set device=cpu to run without GPUs$"
    ):
        devices.gpus()
    nvml(parts=1, broken=("nvmlDeviceGetMigMode",))
    assert len(devices.gpus()) == 2


@pytest.mark.parametrize("script", ["echo broken >&2; exit 3", "echo nothing", "true"])
def test_an_environment_that_does_not_answer_is_a_warning(tmp_path, quiet, nvml, script):
    nvml()
    line = only(preflight(need(tmp_path, "cuda", asked(tmp_path, script))))
    assert line.startswith("build: the framework build of environment fake cannot be queried")
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


def test_warnings_are_printed_once_and_the_sweep_continues(tmp_path, monkeypatch):
    monkeypatch.setattr(check_machine, "preflight", lambda need: ["x: [y]; z"])
    ran = []

    def run(job, index, *_):
        ran.append(job.name)
        return EndedRun(job, index, RunStatus("failed")), []

    monkeypatch.setattr(sweep, "_run", run)
    done = run_suite_here(tmp_path, "-m", *TOY_RUN, "gpus=1", "seed=1,2", toy=True, exits=1)
    assert len(ran) == 2
    assert done.stdout.count("warning: x: [y]; z") == 1


def test_too_little_disk_space_refuses_the_run(tmp_path):
    done = run_suite_here(tmp_path, *TOY_RUN, toy=True, SUITE_MINIMUM_DISK_MB="1e12")
    assert refusal(done).startswith("run_suite.py: disk: ")
    assert not list((tmp_path / "logs").glob("*/*/run_0"))


def test_suite_doctor(tmp_path):
    done = suite_here(tmp_path, "doctor", "--device", "cpu", "--output", tmp_path / "out", exits=0)
    lines = [line.split()[:2] for line in done.stdout.splitlines()]
    # The environment of PyTorch may not exist yet.
    topics = [topic for _, topic in lines if topic != "environment:"]
    assert topics[:6] == ["devices:", "disk:", "memory:", "load:", "governor:", "container:"]
    assert {level for level, _ in lines} <= {"ok", "warning"}
    report = json.loads(suite_here(tmp_path, "doctor", "--device", "cpu", "--json", exits=0).stdout)
    assert (report["suite_version"], report["python_version"]) == (
        __version__,
        platform.python_version(),
    )
    assert {"devices", "disk", "memory", "load"} <= {
        finding["topic"] for finding in report["findings"]
    }
    done = suite_here(tmp_path, "doctor", "--device", "cpu", SUITE_MINIMUM_DISK_MB="1e12", exits=1)
    assert "impossible  disk: " in done.stdout
    assert suite_here(tmp_path, "doctor", "--gpus", "0").returncode == 2
