"""The use of CPU cores, from /proc and /sys trees that change between two measurements."""

import os

import psutil
import pytest

from suite.machine import cpu_load
from tests.suite.machine.tree import tree

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a function that writes files of /proc and /sys.

    It also writes the files of `second` between the two measurements.
    """
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path / "proc"))
    psutil.process_iter.cache_clear()

    def put(first, second=None):
        monkeypatch.setattr(cpu_load.time, "sleep", lambda seconds: tree(tmp_path, second or {}))
        return tree(tmp_path, {"proc/stat": "", **first})

    yield put
    psutil.process_iter.cache_clear()


def stat(*rows):
    """Return /proc/stat for these pairs of CPU and ticks.

    The ticks are user, nice, system, idle, iowait, irq, softirq, steal, guest, and guest_nice,
    proc(5).
    """
    lines = [f"cpu{number} {' '.join(str(count) for count in ticks)}" for number, ticks in rows]
    return "\n".join(["cpu " + "0 " * 10, *lines, "btime 1700000000"])


def process(pid, name, user, system, core):
    """Return /proc/PID/stat, proc(5): field 2 is the name, 14 and 15 the ticks, 39 the core."""
    fields = dict.fromkeys(range(4, 53), 0) | {14: user, 15: system, 39: core}
    return {
        f"proc/{pid}/stat": f"{pid} ({name}) R "
        + " ".join(str(fields[number]) for number in sorted(fields))
    }


ZERO = (0,) * 10


@pytest.mark.parametrize(
    ("spent", "percent"),
    [
        ((3, 1, 2, 4, 0, 0, 0, 0, 0, 0), 60),
        ((1, 0, 0, 4, 5, 0, 0, 0, 0, 0), 10),  # waiting for input and output is idle
        ((0, 0, 0, 5, 0, 1, 1, 3, 0, 0), 50),  # interrupts and stolen time are busy
        ((4, 2, 0, 4, 0, 0, 0, 0, 3, 2), 60),  # user and nice contain the guests' times already
        ((0, 0, 0, 10, 0, 0, 0, 0, 0, 0), 0),
        (ZERO, None),
    ],
)
def test_busy_time_is_all_time_except_idle_and_iowait(machine, spent, percent):
    root = machine({"proc/stat": stat((0, ZERO))}, {"proc/stat": stat((0, spent))})
    assert cpu_load.busy_percent((0,), root) == (
        None if percent is None else pytest.approx(percent)
    )


def test_only_the_requested_cores_count_and_offline_cores_do_not_shift_numbers(machine):
    """Check CPU numbers if CPU 1 is offline: the second line of /proc/stat belongs to CPU 2."""
    online = {f"sys/devices/system/cpu/cpu{number}/topology/core_id": "0" for number in (0, 2, 10)}
    busy, half, idle = (10, *ZERO[1:]), (5, 0, 0, 5, *ZERO[4:]), (0, 0, 0, 10, *ZERO[4:])
    first = {**online, "proc/stat": stat((0, ZERO), (2, ZERO), (10, ZERO))}
    second = {"proc/stat": stat((0, idle), (2, busy), (10, half))}
    use = {
        cores: cpu_load.busy_percent(cores, machine(first, second))
        for cores in [(0,), (2,), (10,), (0, 2), (0, 1)]
    }
    assert use == {(0,): 0, (2,): 100, (10,): 50, (0, 2): 50, (0, 1): 0}
    assert cpu_load.busy_percent((1,), machine(first, second)) is None
    assert cpu_load.free((0, 1, 2, 10), 10, machine(first, second)) == [0]
    assert cpu_load.free((10, 0), 50, machine(first, second)) == [10, 0]


@pytest.mark.parametrize(
    ("looks", "taken"),
    [
        ([(10, 10)] * 5, 2),
        ([(10, 0)] * 5, 1),
        ([(0, 9), (9, 0), (10, 0), (1, 9), (0, 10)], 1),  # it moves from core to core
        ([(10, 10), (10, 10), (0, 0), (10, 10), (10, 10)], 0),  # with a pause
        ([(4, 0)] * 5, 0),
        ([(4, 4)] * 5, 1),
    ],
)
def test_cores_that_other_processes_use_without_pause_are_counted(
    machine, monkeypatch, looks, taken
):
    """Check the number of cores in use, from ten ticks per measurement."""
    root = machine({"proc/stat": stat((0, ZERO), (1, ZERO), (2, ZERO))})
    spent = [[0] * 10, [0] * 10]
    waiting = iter(looks)

    def pass_time(seconds):
        for ticks, busy in zip(spent, next(waiting), strict=True):
            ticks[0] += busy
            ticks[3] += 10 - busy
        rows = stat(*enumerate(spent), (2, (10, *ZERO[1:])))
        (root / "proc/stat").write_text(rows)

    monkeypatch.setattr(cpu_load.time, "sleep", pass_time)
    assert cpu_load.cores_taken((0, 1), len(looks), root) == taken


def test_the_busiest_processes_are_named(machine):
    look = round(TICKS_PER_SECOND * cpu_load.LOOK_SECONDS)
    before = {"proc/stat": stat((0, ZERO))}
    after = {}
    for pid, name, core, ticks in [
        *((11, "a (b) c", 0, look), (12, "elsewhere", 1, look), (13, "idle", 0, 0)),
        *((14, "half", 0, look // 2), (15, "some", 0, look // 5), (16, "little", 0, 1)),
        (os.getpid(), "this", 0, look),
    ]:
        before |= process(pid, name, 100, 50, core)
        after |= process(pid, name, 100 + ticks - ticks // 2, 50 + ticks // 2, core)
    machine(before, after)
    assert cpu_load.busiest((0,)) == [
        "a (b) c (pid 11) 100 %",
        "half (pid 14) 50 %",
        "some (pid 15) 20 %",
    ]


def test_a_process_that_comes_or_goes_is_left_out(machine, tmp_path, monkeypatch):
    machine({"proc/stat": stat((0, ZERO)), **process(11, "goes", 0, 0, 0)})

    def change(seconds):
        (tmp_path / "proc/11/stat").unlink()
        (tmp_path / "proc/11").rmdir()
        tree(tmp_path, process(12, "comes", 10, 0, 0))

    monkeypatch.setattr(cpu_load.time, "sleep", change)
    assert cpu_load.busiest((0,)) == []


def test_missing_figures_of_the_kernel_give_no_result(machine, tmp_path):
    root = machine({})
    assert cpu_load.busy_percent((0,), root) is None
    assert cpu_load.cores_taken((0,), root=root) == 0
    (tmp_path / "proc/stat").unlink()
    assert cpu_load.busy_percent((0,), root) is None
