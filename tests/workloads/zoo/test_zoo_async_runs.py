"""Complete runs with `update=async`: pace and staleness in the log, and a killed server."""

import contextlib
import os
import signal
import subprocess
import sys

import psutil
import pytest

from suite.results.logs.reader import read
from suite.worker.heartbeat import read_heartbeat
from tests.helpers import (
    PROJECT,
    events,
    full_but,
    only,
    run_suite,
    status,
    suite_env,
    wait_until,
    where_grpc_is_open,
)

FRAMEWORKS = ("pytorch", "tensorflow", "mxnet")
RUN = (
    "workload=zoo", "profile=synthetic", "workload.image_size=32", "batch=global:4", "device=cpu",
    "gpus=2", "oversubscribe=true", "update=async", "seed=1", *where_grpc_is_open(),
)  # fmt: skip


def left_of(folder):
    """Return the processes whose command line contains a run's folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = " ".join(process.info["cmdline"] or [])
        if (
            str(folder) in words
            and process.info["status"] != psutil.STATUS_ZOMBIE
            and process.pid != os.getpid()
        ):
            found.append(process)
    return found


@pytest.mark.parametrize("framework", full_but(FRAMEWORKS, "mxnet"))
def test_a_straggler_makes_fewer_updates_and_delays_no_worker(tmp_path, framework):
    output = tmp_path / "runs"
    done = run_suite(
        tmp_path,
        *RUN,
        f"framework={framework}",
        "update.straggler_ms=1500",
        "stop=steps:6",
        f"output={output}",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    folder = only(output.glob("*/run_0"))
    logged = {key: value for key, value, _ in events(folder / "result_0.txt")}
    found = logged["suite_staleness"]
    assert 12 <= found["updates"] <= 13
    assert sum(found["histogram"].values()) == sum(found["updates_of_workers"]) == found["updates"]
    fast, slow = found["updates_of_workers"]
    assert fast > slow
    assert found["most"] >= 1
    assert logged["tracked_stats"]["samples"] == 2 * found["updates"]
    assert "async" in logged["suite_run"]["labels"]
    assert "servers" not in logged["suite_condition"]
    assert 0 < logged["suite_condition"]["server_share"] < 1
    assert "straggler 1500 ms" in logged["suite_run"]["labels"]
    assert logged["submission_division"] == "open"
    assert "async" in done.stdout
    assert read(folder / "result_0.txt").problems == ()
    wait_until("no process is left", lambda: not left_of(folder), 60)


@pytest.mark.parametrize("framework", full_but(FRAMEWORKS, "pytorch"))
def test_a_killed_server_is_reported(tmp_path, framework):
    output = tmp_path / "runs"
    words = (*RUN, f"framework={framework}", "stop=steps:1000000", f"output={output}")
    run = subprocess.Popen(
        [sys.executable, str(PROJECT / "run_suite.py"), *words],
        cwd=tmp_path, env=suite_env(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        (server,) = wait_until("there is a server", lambda: serving(output), 120)
        wait_until(
            "workers train",
            lambda: list(output.glob("*/run_0/.worker-1.json")) and training(output),
            120,
        )
        os.kill(server.pid, signal.SIGKILL)
        assert run.wait(120) == 1
    finally:
        run.kill()
    folder = only(output.glob("*/run_0"))
    ended = status(folder)
    assert (ended["status"], ended["process"]) == ("rank_died", None)
    assert ended["reason"].startswith("the server died (killed by SIGKILL)")
    wait_until("no process is left", lambda: not left_of(folder), 60)


def serving(output):
    """Return the run's servers. MXNet's scheduler is not a server."""
    found = []
    for process in left_of(output):
        with contextlib.suppress(psutil.Error):
            roles = (
                process.environ()
                if "suite.worker.server" in process.cmdline()
                else {"SUITE_STORE_ROLE": "none"}
            )
            if roles.get("SUITE_STORE_ROLE", "server") == "server":
                found.append(process)
    return found


def training(output):
    """Check whether both workers have completed a step."""
    folder = only(output.glob("*/run_0"))
    beats = [read_heartbeat(folder, process) for process in range(2)]
    return all(beat is not None and beat.phase == "train" and beat.step > 0 for beat in beats)
