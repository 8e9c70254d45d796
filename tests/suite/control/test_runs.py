"""Whole runs of the toy plugin in worker processes: their status, files, and resumption."""

import contextlib
import csv
import itertools
import json
import os
import platform
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from suite.common import registry
from suite.common.paths import data_root
from suite.control.targets import here
from suite.launch import processes
from suite.worker.heartbeat import read_heartbeat
from tests import helpers
from tests.helpers import (
    PROJECT,
    TOY_RUN,
    events,
    only,
    refusal,
    run_events,
    run_suite,
    run_suite_here,
    status,
)


def run_folder(tmp_path):
    return only((tmp_path / "logs").glob("*/*/run_0"))


def test_a_run_writes_the_files_that_docs_logs_lists(tmp_path):
    # A faster run ends before the telemetry has sampled the machine.
    slow = ("workload.misbehave=sleep", "stop=steps:8")
    done = run_suite(tmp_path, *TOY_RUN, *slow, toy=True, exits=0)
    folder = run_folder(tmp_path)
    assert {path.name for path in folder.iterdir()} == {
        "run.json", "result_0.txt", "metrics.jsonl", "status.json", "worker-0.log",
        "telemetry.jsonl", "topology.json",
    }  # fmt: skip
    assert status(folder)["status"] == "success"
    header = json.loads((folder / "telemetry.jsonl").read_text().splitlines()[0])
    assert header["window"] == "run_start to run_stop"
    *_, (key, condition, _) = events(folder / "result_0.txt")
    assert (key, 0 < condition["cpu_share"] <= 1) == ("suite_condition", True)
    (host,) = json.loads((folder / "run.json").read_text())["hosts"]
    assert (host["name"], host["address"], host["first_replica"]) == (
        platform.node(),
        "127.0.0.1",
        0,
    )
    assert (host["devices"], host["cores"]) == ([0], sorted(os.sched_getaffinity(0)))
    assert "demo" in done.stdout
    assert "Not an MLPerf result" in done.stdout
    assert f"logs in {folder.parents[1].relative_to(tmp_path)}" in done.stdout


ENDINGS = {
    "no": ("success", ""),
    "raise": ("failed", "process 0: RuntimeError: something broke"),
    "die": ("rank_died", "process 0 died (killed by SIGKILL)"),
    "crash": ("rank_died", ": Fatal Python error: Segmentation fault (see worker-0.log)"),
    "oom": (
        "oom",
        (
            "process 0: MemoryError: no more; see worker-0.log; a batch that should fit:"
            " batch=global:32"
        ),
    ),
    "diverge": ("failed", "the loss is nan"),
    "setup": ("failed", "setup went wrong | `badly`"),
}


@pytest.fixture(scope="module")
def endings(tmp_path_factory):
    """Return the output of a sweep whose runs end in all these ways, and the folder of each run."""
    tmp_path = tmp_path_factory.mktemp("endings")
    done = run_suite_here(
        tmp_path, "-m", *TOY_RUN, "gpus=1", f"workload.misbehave={','.join(ENDINGS)}", toy=True
    )
    folders = {
        kind: only((tmp_path / "logs").glob(f"*/*misbehave={kind}/run_0")) for kind in ENDINGS
    }
    return done, folders


@pytest.mark.parametrize("kind", ENDINGS)
def test_failures_are_recorded_with_their_reason_and_the_sweep_continues(endings, kind):
    done, folders = endings
    expected, reason = ENDINGS[kind]
    assert done.returncode == 1
    ended = status(folders[kind])
    assert ended["status"] == expected
    assert reason in ended["reason"]
    assert "Traceback" not in done.stdout + done.stderr
    assert (expected if reason else "target reached") in done.stdout
    assert reason in done.stdout
    if kind == "diverge":
        key, _, metadata = run_events(folders[kind] / "result_0.txt")[-1]
        assert (key, metadata["status"]) == ("run_stop", "aborted")
        assert "nan" in metadata["reason"]
        assert (metadata["code"], ended["code"]) == ("diverged", "diverged")
    if kind == "oom":
        assert (folders[kind] / "worker-0.log").stat().st_size


def test_a_run_that_misses_its_target_is_target_missed(tmp_path):
    run_suite_here(tmp_path, *TOY_RUN, "workload.learning_rate=0.0001", toy=True, exits=1)
    filed = status(run_folder(tmp_path))
    assert filed["status"] == "target_missed"
    assert "target 0.99" in filed["reason"]


def test_a_hung_process_is_ended_and_its_stack_is_shown(tmp_path):
    run_suite_here(
        tmp_path, *TOY_RUN, "workload.misbehave=hang", "watchdog_seconds=5", toy=True, exits=1
    )
    filed = status(run_folder(tmp_path))
    assert filed["status"] == "hung"
    assert "in phase 'train'" in filed["reason"]
    # The worker sleeps for 600 s.
    assert 5 <= int(re.search(r"\((\d+) s, allowed 5 s\)", filed["reason"])[1]) < 600
    for text in ("no progress since", "in misbehave", "toy.py"):
        assert text in filed["reason"]
    assert "most recent call first" in (run_folder(tmp_path) / "worker-0.log").read_text()


def test_several_runs_have_separate_folders_seeds_and_logs(tmp_path):
    run_suite_here(
        tmp_path, *TOY_RUN, "runs=3", "seed=10", "workload.misbehave=flaky", toy=True, exits=1
    )
    job = only((tmp_path / "logs").glob("*/toy-*"))
    assert [status(job / f"run_{n}")["status"] for n in range(3)] == [
        "success",
        "failed",
        "success",
    ]
    seeds = [
        {k: v for k, v, _ in events(job / f"run_{n}" / f"result_{n}.txt")}["seed"] for n in range(3)
    ]
    assert seeds == [10, 11, 12]


def test_two_sweeps_into_one_folder_never_mix(tmp_path):
    command = [
        sys.executable,
        str(PROJECT / "run_suite.py"),
        *TOY_RUN,
        f"output={tmp_path / 'both'}",
    ]
    values = helpers.suite_env(tmp_path, toy=True)
    both = [
        subprocess.Popen(command, env=values, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=300)[0].decode() for process in both]
    assert sorted(process.returncode for process in both) == [0, 2], outputs
    assert "Traceback" not in "".join(outputs)
    folder = only((tmp_path / "both").glob("*/run_0"))
    assert [key for key, _, _ in events(folder / "result_0.txt")].count("run_stop") == 1


def test_data_that_another_command_creates_after_planning_are_used(tmp_path, monkeypatch):
    plan = here.plan_all

    def planned(*arguments):
        plans = plan(*arguments)
        registry.load_dataset("toy-demo").make_demo(data_root() / "toy-demo")
        return plans

    monkeypatch.setattr(here, "plan_all", planned)
    run_suite_here(tmp_path, *TOY_RUN, toy=True, exits=0)
    assert status(run_folder(tmp_path))["status"] == "success"


def cut_before_its_end(folder):
    """Cut a run's log as if the run had been killed: without `run_stop` and all later lines."""
    (log,) = folder.glob("result_*.txt")
    log.write_text("".join(itertools.takewhile(lambda line: '"run_stop"' not in line, log.open())))


def test_resume_runs_exactly_what_is_missing(tmp_path):
    output = tmp_path / "out"
    arguments = ("-m", *TOY_RUN, "gpus=1,2", "oversubscribe=true", "runs=2", f"output={output}")
    assert run_suite_here(tmp_path, *arguments, toy=True).returncode == 0
    folders = sorted(output.glob("*/run_*"))
    assert len(folders) == 4
    unfinished, gone = folders[0], folders[3]
    value = json.loads((unfinished / "status.json").read_text())
    (unfinished / "status.json").write_text(
        json.dumps({**value, "status": "running", "ended": None})
    )
    cut_before_its_end(unfinished)
    for path in gone.iterdir():
        path.unlink()
    gone.rmdir()
    kept = {path: path.stat().st_mtime_ns for folder in folders[1:3] for path in folder.iterdir()}
    done = run_suite_here(tmp_path, *arguments, "resume=true", toy=True, exits=0)
    assert done.stdout.count("finished earlier") == 2
    assert all(status(folder)["status"] == "success" for folder in folders)
    assert kept == {
        path: path.stat().st_mtime_ns for folder in folders[1:3] for path in folder.iterdir()
    }
    superseded = only(output.glob("*/superseded/*"))
    assert json.loads((superseded / "status.json").read_text())["status"] == "running"
    rows = helpers.suite_here(tmp_path, "report", output, "--format", "csv").stdout.splitlines()
    counts = [(row["devices"], row["runs_successful"]) for row in csv.DictReader(rows)]
    assert sorted(counts) == [("1", "2"), ("2", "2")], done.stdout


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True
    )
    if done.returncode:
        pytest.skip("mounting a small file system needs root with CAP_SYS_ADMIN")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_ends_the_run_with_that_reason(tmp_path, small_disk):
    arguments = (*TOY_RUN, f"output={small_disk / 'out'}", "stop=epochs:100000")
    done = run_suite_here(tmp_path, *arguments, toy=True, SUITE_MINIMUM_DISK_MB="0", exits=1)
    folder = only((small_disk / "out").glob("*/run_0"))
    assert status(folder)["status"] == "failed"
    assert "No space left on device" in status(folder)["reason"]
    assert f"no space left in {small_disk}" in status(folder)["reason"]
    lines = (folder / "result_0.txt").read_text().splitlines()
    assert len(lines) > 50
    assert all(json.loads(line.partition(":::MLLOG ")[2]) for line in lines[:-1])
    assert "Traceback" not in done.stdout + done.stderr


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    """Check a read-only file system, the only place to which root cannot write."""
    folder = tmp_path / "readonly"
    folder.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(folder)], capture_output=True
    ).returncode:
        pytest.skip("mounting a read-only file system needs root with CAP_SYS_ADMIN")
    try:
        done = run_suite_here(tmp_path, *TOY_RUN, f"output={folder / 'out'}", toy=True)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
    assert "Read-only file system" in refusal(done)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a device of two cores needs two")
def test_a_demo_uses_fewer_threads_if_other_processes_use_its_cores(tmp_path):
    """Check that the threads are limited even if the shell sets OMP_NUM_THREADS."""
    burn = f"import os, sys; os.sched_setaffinity(0, [int(sys.argv[1])])\n{helpers.BURN}"
    words = (*TOY_RUN, "workload.misbehave=threads", "cpu.cores_per_device=2")
    with contextlib.ExitStack() as busy_cores:
        for core in os.sched_getaffinity(0):
            busy_cores.enter_context(helpers.python(burn, core))
        done = run_suite_here(tmp_path, *words, toy=True, OMP_NUM_THREADS="17")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "OMP_NUM_THREADS=1 cores=2" in (run_folder(tmp_path) / "worker-0.log").read_text()


@pytest.fixture
def small_memory():
    """Return the file that moves a process into a control group with 400 MiB of memory."""
    v1, v2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    base, limit = (v1, "memory.limit_in_bytes") if v1.is_dir() else (v2, "memory.max")
    group = base / f"suite-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / limit).write_text(str(400 << 20))
    except OSError as error:
        pytest.skip(
            f"making a control group needs root with write access to /sys/fs/cgroup ({error})"
        )
    yield group / "cgroup.procs"
    group.rmdir()


def test_a_worker_killed_by_the_kernel_for_memory_is_recorded_as_oom(tmp_path, small_memory):
    enter = (
        "import os, sys; open(sys.argv[1], 'w').write(str(os.getpid())); os.execv(sys.argv[2],"
        " sys.argv[2:])"
    )
    command = [
        sys.executable,
        "-c",
        enter,
        str(small_memory),
        sys.executable,
        str(PROJECT / "run_suite.py"),
        *TOY_RUN,
    ]
    command += ["workload.misbehave=fill"]
    done = subprocess.run(
        command,
        env=helpers.suite_env(tmp_path, toy=True),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert status(run_folder(tmp_path))["status"] == "oom"
    assert "killed by the kernel" in status(run_folder(tmp_path))["reason"]


def training_worker(tmp_path):
    """Return the process id of a worker that trains, or None if no worker does."""
    for path in (tmp_path / "logs").glob("*/*/run_0"):
        heartbeat = read_heartbeat(path, 0)
        if heartbeat is not None and heartbeat.phase == "train":
            return heartbeat.pid
    return None


def test_a_worker_that_is_stopped_from_outside_is_named_with_its_id(tmp_path):
    command = [
        sys.executable,
        str(PROJECT / "run_suite.py"),
        *TOY_RUN,
        "workload.misbehave=hang",
        "watchdog_seconds=4",
    ]
    values = helpers.suite_env(tmp_path, toy=True)
    controller_process = subprocess.Popen(
        command, env=values, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    pid = helpers.wait_until("a worker trains", lambda: training_worker(tmp_path))
    os.kill(pid, signal.SIGSTOP)
    controller_process.communicate(timeout=300)
    filed = status(run_folder(tmp_path))
    assert (controller_process.returncode, filed["status"], filed["process"]) == (1, "hung", 0)
    assert (
        f"process 0 (process id {pid}) has been stopped from outside (state T)" in filed["reason"]
    )
    assert not processes.alive(pid)
