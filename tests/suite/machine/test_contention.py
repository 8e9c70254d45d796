"""A process's share of the machine: from /proc and /sys trees that change, and on this machine."""

import json
import os
import subprocess
import sys
import time

import psutil
import pytest

from suite.machine import contention
from suite.machine.contention import Contention
from tests.helpers import BURN, python
from tests.suite.machine.test_cpu_load import TICKS_PER_SECOND, stat
from tests.suite.machine.tree import tree

ALWAYS_REPORTED = {"seconds", "cpu_seconds", "cores", "load_average"}
SHARES_WORK = """
import json, os, sys, time
from suite.machine.contention import Contention
os.sched_setaffinity(0, {int(sys.argv[1])})
watch = Contention([int(sys.argv[1])])
watch.begin()
end = time.monotonic() + 1
while time.monotonic() < end:
    pass
print(json.dumps(watch.end()))
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a function that writes a /proc and /sys tree and sets the clock."""
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path / "proc"))
    clock = [100.0]
    monkeypatch.setattr(contention.time, "monotonic", lambda: clock[0])
    # The test process itself is not in the synthetic tree.
    monkeypatch.setattr(contention, "_cpu_seconds", lambda: 1.0)

    def put(seconds, **files):
        clock[0] = 100.0 + seconds
        return tree(tmp_path, {"proc/stat": "", **files})

    return put


def ticks(user, idle, steal):
    return tuple(
        round(seconds * TICKS_PER_SECOND) for seconds in (user, 0, 0, idle, 0, 0, 0, steal, 0, 0)
    )


def files(seconds, user, waited, stopped, stalled, hot):
    """Return all sources after this many seconds on two cores, the second of which is idle."""
    return {
        "proc/stat": stat((0, ticks(user, seconds - user - 0.5, 0.5)), (1, ticks(0, seconds, 0))),
        "proc/self/task/7/schedstat": f"{int(user * 1e9)} {int(waited * 1e9)} 12",
        "proc/pressure/memory": (
            f"some avg10=0.00 avg60=0.00 avg300=0.00 total={int(stalled * 1e6)}\nfull total=0"
        ),
        "proc/self/cgroup": "0::/job",
        "sys/fs/cgroup/cgroup.controllers": "cpu",
        "sys/fs/cgroup/job/cpu.stat": (
            f"usage_usec 1\nnr_periods {int(seconds * 10)}\nnr_throttled {stopped}"
        ),
        "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_total_time_ms": str(
            int(hot * 1e3)
        ),
    }


def test_every_figure_is_the_difference_of_two_measurements(machine):
    watch = Contention(
        [0, 1], machine(0, **files(10, user=4, waited=1, stopped=3, stalled=2, hot=1))
    )
    watch.begin()
    machine(10, **files(20, user=10, waited=4, stopped=28, stalled=3, hot=3))
    found = watch.end()
    assert found["cores"] == {
        "0": pytest.approx([6.0, 0.0, 10.0]),
        "1": pytest.approx([0.0, 0.0, 10.0]),
    }
    seconds = [found[name] for name in ("run_seconds", "wait_seconds", "seconds", "cpu_seconds")]
    assert seconds == pytest.approx([6.0, 3.0, 10.0, 0.0])
    shares = [found[name] for name in ("quota_share", "memory_stall_share", "hot_share")]
    assert shares == pytest.approx([25 / 100, 0.1, 0.2])


def test_stolen_time_is_reported_separately_from_busy_time(machine):
    watch = Contention([0], machine(0, **{"proc/stat": stat((0, ticks(1, 2, 3)))}))
    watch.begin()
    machine(6, **{"proc/stat": stat((0, ticks(2, 4, 6)))})
    assert watch.end()["cores"] == {"0": pytest.approx([4.0, 3.0, 6.0])}


def test_new_threads_count_from_zero_and_ended_threads_do_not_count(machine):
    root = machine(
        0, **{"proc/self/task/1/schedstat": "5000000000 0 1", "proc/self/task/2/schedstat": "0 0 1"}
    )
    watch = Contention([0], root)
    watch.begin()
    (root / "proc/self/task/1/schedstat").unlink()
    later = {
        "proc/self/task/2/schedstat": "2000000000 1000000000 1",
        "proc/self/task/3/schedstat": "0 500000000 1",
    }
    machine(5, **later)
    found = watch.end()
    assert (found["run_seconds"], found["wait_seconds"]) == (pytest.approx(2.0), pytest.approx(1.5))


def test_figures_that_the_kernel_does_not_report_are_left_out(machine):
    watch = Contention([0], machine(0))
    assert watch.end() == {}, "without a begin"
    watch.begin()
    machine(0.4)
    assert watch.end() == {}, "after a moment"
    watch.begin()
    machine(5)
    found = watch.end()
    assert set(found) <= ALWAYS_REPORTED
    assert found["cores"] == {}


def test_unexpected_kernel_data_do_not_fail_a_run(machine, monkeypatch):
    watch = Contention([0], machine(0))
    monkeypatch.setattr(contention, "_cpu_seconds", lambda: {}["nothing"])
    watch.begin()
    machine(5)
    assert watch.end() == {}


@pytest.mark.slow
def test_two_processes_on_one_core_wait_for_each_other():
    core = min(os.sched_getaffinity(0))
    with python(f"import os; os.sched_setaffinity(0, {{{core}}})\n{BURN}"):
        time.sleep(0.3)
        command = [sys.executable, "-c", SHARES_WORK, str(core)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    busy, _, every = found["cores"][str(core)]
    assert found["wait_seconds"] / (found["run_seconds"] + found["wait_seconds"]) > 0.25
    assert (busy - found["cpu_seconds"]) / every > 0.25
    assert found["seconds"] >= 1.0


def test_the_cpu_time_of_servers_is_reported_separately(monkeypatch):
    """Check that the CPU time of a server is reported until the server has ended.

    A server is not a child of the process.
    """
    monkeypatch.setattr(contention, "LEAST_SECONDS", 0.0)
    with python(BURN) as server:
        running = psutil.Process(server.pid)
        watch = Contention([0], servers=lambda: [running])
        watch.begin()
        first = running.cpu_times()
        time.sleep(0.5)
        server_seconds = watch.end()["server_cpu_seconds"]
        last = running.cpu_times()
        assert 0 < server_seconds <= sum(last[:2]) - sum(first[:2]) + 0.1
    assert "server_cpu_seconds" not in watch.end()
    assert "server_cpu_seconds" not in Contention([0]).end()
