"""A hundred runs, clocks that jump, folders that nobody may read: each ends as it should."""

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
    filed = status(run_folder(tmp_path))
    assert filed["status"] == "hung"
    assert all(where in filed["reason"] for where in ("in phase 'evaluate'", "in predict"))


def test_a_clock_that_jumps_moves_no_time(tmp_path):
    assert run_suite_here(tmp_path, *TOY_RUN, "workload.misbehave=clock", toy=True).returncode == 0
    log = (run_folder(tmp_path) / "result_0.txt").read_text()
    times = [int(time) for time in re.findall(r'"time_ms": (\d+)', log)]
    assert times == sorted(times)
    assert times[-1] - times[0] < 3_600_000


@pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("setpriv"),
    reason="root and setpriv take their rights away",
)
@pytest.mark.parametrize(
    "name", ["logs", "logs/job", "logs/job/run_0", "logs/job/run_0/result_0.txt"]
)
def test_what_nobody_may_read_is_named(tmp_path, name):
    shutil.copytree(PROJECT / "tests/data/logs/0.7.0", tmp_path / "logs/job/run_0")
    shutil.copy(tmp_path / "logs/job/run_0/ssd.txt", tmp_path / "logs/job/run_0/result_0.txt")
    (tmp_path / name).chmod(0)
    for words in (("report",), ("check",), ("tables",), ("package", "--submitter", "me")):
        places = [tmp_path / "logs", *([tmp_path / "out"] if words[0] == "package" else [])]
        command = [
            "setpriv",
            *NO_OVERRIDE,
            sys.executable,
            "-m",
            "suite.cli",
            *words,
            *map(str, places),
        ]
        own = {"env": suite_env(tmp_path), "cwd": PROJECT, "timeout": 120}
        done = subprocess.run(command, capture_output=True, text=True, **own)
        assert done.returncode in (0, 1, 2), done.stderr
        assert "Traceback" not in done.stderr
        if words != ("tables",):  # which names the command that names it
            assert name in done.stdout + done.stderr, (words, done.stdout, done.stderr)
    (tmp_path / name).chmod(0o755)


@pytest.mark.full
def test_a_hundred_runs(tmp_path):
    run_suite(tmp_path, *TOY_RUN, "runs=100", toy=True, timeout=1800, exits=0)
    job = only((tmp_path / "logs").glob("*/toy-*"))
    assert {status(job / f"run_{number}")["status"] for number in range(100)} == {"success"}
    assert re.search(r"\|\s*100 \|", suite_here(tmp_path, "report", job).stdout)


@pytest.mark.full
@pytest.mark.framework
@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "jax", "mxnet"])
def test_a_loss_that_is_no_number_ends_the_run(tmp_path, framework):
    words = (
        "workload=ncf",
        f"framework={framework}",
        "profile=demo",
        "gpus=2",
        "device=cpu",
        "oversubscribe=true",
    )
    words = (*words, *where_grpc_is_open())
    run_suite(tmp_path, *words, "workload.learning_rate=1e30", timeout=600, exits=1)
    filed = status(run_folder(tmp_path))
    assert (filed["status"], "loss" in filed["reason"]) == ("failed", True), filed


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
        while (tmp_path / "out").exists():  # a worker may write into it meanwhile
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
