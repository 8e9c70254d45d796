"""Trees of processes, of which one may belong to another user."""

import subprocess
import sys

import psutil
import pytest

from suite.launch import processes


def denied(*_, **__):
    raise psutil.AccessDenied


@pytest.fixture
def pair():
    both = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) for _ in range(2)]
    yield both
    for child in both:
        child.kill()
        child.wait()


def test_one_that_may_not_be_ended_leaves_nobody_else_running(pair, monkeypatch):
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.2)
    foreign, own = (psutil.Process(child.pid) for child in pair)
    foreign.terminate = foreign.kill = denied
    processes.end([foreign, own])
    assert [processes.alive(child.pid) for child in pair] == [True, False]


def test_a_tree_holds_what_may_be_seen_of_it(pair, monkeypatch):
    monkeypatch.setattr(psutil.Process, "children", denied)
    assert [process.pid for process in processes.tree(child.pid for child in pair)] == [child.pid for child in pair]


def test_one_that_may_not_be_looked_at_is_there(pair, monkeypatch):
    monkeypatch.setattr(psutil.Process, "status", denied)
    assert processes.alive(pair[0].pid)
