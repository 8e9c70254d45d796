"""How many threads a device gets: what was typed, or what others leave to a demo."""

from dataclasses import replace

import pytest

from suite.worker import threads
from tests.suite.two_hosts import make_run
from workloads.api import WorkerContext

DEMO = {
    "profile": "demo",
    "framework": "pytorch",
    "cores_per_device": 4,
    "nodes": 1,
    "oversubscribe": False,
}


def worker_context_for(cores=4, replicas=1, cores_per_device=4):
    return WorkerContext(
        0, 1, range(replicas), replicas, ("cpu",) * replicas, tuple(range(cores)), cores_per_device
    )


def threads_beside(monkeypatch, taken, worker=None, **changes):
    """Threads of a device where others use so many cores; None: nobody may look."""

    def look(cores):
        assert taken is not None, "looked at the cores"
        assert cores == tuple(range(len(cores)))
        return taken

    monkeypatch.setattr(threads, "cores_taken", look)
    settings = make_run(**{**DEMO, "threads_per_device": "auto", **changes}).settings
    return threads.resolve_thread_count(worker or worker_context_for(), settings).threads_per_device


@pytest.mark.parametrize(("taken", "left"), [(0, 4), (1, 3), (3, 1), (4, 1)])
def test_a_demo_uses_fewer_threads_if_other_processes_use_its_cores(monkeypatch, taken, left):
    assert threads_beside(monkeypatch, taken) == left


@pytest.mark.parametrize(("taken", "left"), [(0, 2), (1, 1), (2, 1), (4, 1)])
def test_devices_of_one_process_wait_for_each_other(monkeypatch, taken, left):
    """Two devices of two cores: with one core less both have one thread."""
    worker = worker_context_for(cores=4, replicas=2, cores_per_device=2)
    assert threads_beside(monkeypatch, taken, worker, framework="mxnet") == left


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("profile", "reference"), ("profile", "synthetic"), ("device", "cuda"), ("framework", "tensorflow"),
        ("oversubscribe", True), ("update", "async"), ("nodes", 2),
    ],
)  # fmt: skip
def test_others_keep_one_thread_for_each_core(monkeypatch, key, value):
    assert threads_beside(monkeypatch, None, **{key: value}) == 4


def test_servers_of_the_run_are_no_others(monkeypatch):
    """Nobody looks while they start, on any core."""
    worker = replace(worker_context_for(), server="127.0.0.1:4000")
    assert threads_beside(monkeypatch, None, worker, framework="mxnet") == 4


def test_a_single_core_needs_no_look(monkeypatch):
    assert threads_beside(monkeypatch, None, worker_context_for(cores=1, cores_per_device=1)) == 1


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow"])
def test_a_typed_number_stands(monkeypatch, framework):
    assert (
        threads_beside(
            monkeypatch, None, threads_per_device="2", framework=framework, profile="reference"
        )
        == 2
    )
