"""Extreme conditions: a hundred runs, jumping clocks, unreadable folders, and a full disk."""

import errno
import os
import re
import shutil
import subprocess
import sys
import threading

import pytest

from suite.common import output_lock
from tests.helpers import (
    PROJECT,
    TOY_RUN,
    only,
    run_suite,
    run_suite_here,
    status,
    suite_env,
    suite_here,
    wait_until,
    where_grpc_is_open,
)

NO_OVERRIDE = (
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
)


def run_folder(tmp_path):
    return only((tmp_path / "logs").glob("*/*/run_0"))


def test_a_hanging_evaluation_is_named(tmp_path):
    run_suite_here(
        tmp_path, *TOY_RUN, "workload.misbehave=evaluation", "watchdog_seconds=5", toy=True, exits=1
    )
    content = status(run_folder(tmp_path))
    assert content["status"] == "hung"
    assert all(part in content["reason"] for part in ("in phase 'evaluate'", "in predict"))


def test_a_jumping_clock_does_not_change_logged_times(tmp_path):
    assert run_suite_here(tmp_path, *TOY_RUN, "workload.misbehave=clock", toy=True).returncode == 0
    log = (run_folder(tmp_path) / "result_0.txt").read_text()
    times = [int(time) for time in re.findall(r'"time_ms": (\d+)', log)]
    assert times == sorted(times)
    assert times[-1] - times[0] < 3_600_000


@pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("setpriv"),
    reason="the test needs root and setpriv to drop capabilities",
)
@pytest.mark.parametrize(
    "name", ["logs", "logs/job", "logs/job/run_0", "logs/job/run_0/result_0.txt"]
)
def test_an_unreadable_path_is_named(tmp_path, name):
    shutil.copytree(PROJECT / "tests/data/logs/0.7.0", tmp_path / "logs/job/run_0")
    shutil.copy(tmp_path / "logs/job/run_0/ssd.txt", tmp_path / "logs/job/run_0/result_0.txt")
    (tmp_path / name).chmod(0)
    for arguments in (("report",), ("check",), ("tables",), ("package", "--submitter", "me")):
        folders = [tmp_path / "logs", *([tmp_path / "out"] if arguments[0] == "package" else [])]
        command = [
            "setpriv",
            *NO_OVERRIDE,
            sys.executable,
            "-m",
            "suite.cli",
            *arguments,
            *map(str, folders),
        ]
        options = {"env": suite_env(tmp_path), "cwd": PROJECT, "timeout": 120}
        done = subprocess.run(command, capture_output=True, text=True, **options)
        assert done.returncode in (0, 1, 2), done.stderr
        assert "Traceback" not in done.stderr
        if arguments != ("tables",):  # Its message refers to a command that names the path.
            assert name in done.stdout + done.stderr, (arguments, done.stdout, done.stderr)
    (tmp_path / name).chmod(0o755)


@pytest.mark.full
def test_a_job_of_a_hundred_runs_completes(tmp_path):
    run_suite(tmp_path, *TOY_RUN, "runs=100", toy=True, timeout=1800, exits=0)
    job = only((tmp_path / "logs").glob("*/toy-*"))
    assert {status(job / f"run_{number}")["status"] for number in range(100)} == {"success"}
    assert re.search(r"\|\s*100 \|", suite_here(tmp_path, "report", job).stdout)


@pytest.mark.full
@pytest.mark.framework
@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "jax", "mxnet"])
def test_a_loss_that_is_not_finite_ends_the_run(tmp_path, framework):
    overrides = (
        "workload=ncf",
        f"framework={framework}",
        "profile=demo",
        "gpus=2",
        "device=cpu",
        "oversubscribe=true",
    )
    overrides = (*overrides, *where_grpc_is_open())
    run_suite(tmp_path, *overrides, "workload.learning_rate=1e30", timeout=600, exits=1)
    content = status(run_folder(tmp_path))
    assert (content["status"], "loss" in content["reason"]) == ("failed", True), content


def test_a_disk_that_is_full_at_the_start_is_named(tmp_path, monkeypatch):
    def full(descriptor, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(output_lock.os, "write", full)
    done = run_suite_here(tmp_path, *TOY_RUN, f"output={tmp_path / 'out'}", toy=True)
    monkeypatch.undo()
    assert (done.returncode, done.stderr) == (
        2,
        f"run_suite.py: {tmp_path / 'out'}: No space left on device\n",
    )
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_deleted_during_a_run_is_named(tmp_path):
    def delete():
        wait_until("a worker", lambda: list(tmp_path.glob("out/*/run_0/.worker-0.json")))
        while (tmp_path / "out").exists():  # A worker may still write into the folder.
            shutil.rmtree(tmp_path / "out", ignore_errors=True)

    thread = threading.Thread(target=delete)
    thread.start()
    done = run_suite_here(
        tmp_path, *TOY_RUN, "workload.misbehave=sleep", f"output={tmp_path / 'out'}", toy=True
    )
    thread.join()
    assert done.returncode == 2
    assert str(tmp_path / "out") in done.stderr
    assert "Traceback" not in done.stderr
