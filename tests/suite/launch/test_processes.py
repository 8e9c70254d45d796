"""Process trees, one of which may belong to another user."""

import os
import signal
import subprocess

import psutil
import pytest

from suite.launch import processes
from tests.helpers import wait_until


@pytest.fixture
def pair():
    """Yield the ids of two processes with a child each."""
    both = [
        subprocess.Popen(["sh", "-c", "sleep 60 & echo; exec sleep 60"], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    for parent in both:
        parent.stdout.readline()
    yield [parent.pid for parent in both]
    processes.end_trees(parent.pid for parent in both)
    for parent in both:
        parent.wait()


def test_all_other_processes_are_ended_if_one_may_not_be_ended(pair, monkeypatch):
    foreign, permitted = pair
    children, kill = (
        [process.pid for parent in pair for process in processes.descendants(parent)],
        os.kill,
    )

    def denied(pid, number):
        if pid == foreign:
            raise PermissionError
        kill(pid, number)

    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.2)
    monkeypatch.setattr(os, "kill", denied)
    processes.end_trees(pair)
    assert len(children) == 2
    assert [processes.alive(pid) for pid in (foreign, permitted, *children)] == [
        True,
        False,
        False,
        False,
    ]


def test_a_later_process_with_the_same_id_is_not_ended(pair, monkeypatch):
    """Check a process id that the kernel has assigned again.

    Psutil compares the start time of the process: `is_running` is then False.
    """
    with monkeypatch.context() as patch:
        patch.setattr(psutil.Process, "is_running", lambda process: False)
        processes.end_trees(pair)
    assert all(map(processes.alive, pair))


def test_stopped_processes_are_recognized_by_their_state(pair):
    first, second = pair
    assert [processes.is_stopped(pid) for pid in pair] == [False, False]
    os.kill(first, signal.SIGSTOP)
    wait_until("the first is stopped", lambda: processes.is_stopped(first))
    assert processes.alive(first)
    assert not processes.is_stopped(second)
    os.kill(first, signal.SIGCONT)
    wait_until("the first runs again", lambda: not processes.is_stopped(first))
    assert not processes.is_stopped(2**22 + 1)  # no process has such an id
