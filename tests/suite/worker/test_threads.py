"""The number of threads of a device: user-defined, or reduced because its cores are in use."""

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


def thread_count(monkeypatch, taken, worker=None, **changes):
    """Return the number of threads of a device if foreign processes use `taken` cores.

    If `taken` is None, the cores must not be examined.
    """

    def look(cores):
        assert taken is not None, "looked at the cores"
        assert cores == tuple(range(len(cores)))
        return taken

    monkeypatch.setattr(threads, "cores_taken", look)
    settings = make_run(**{**DEMO, "threads_per_device": "auto", **changes}).settings
    return threads.resolve_thread_count(worker or worker_context_for(), settings).threads_per_device


@pytest.mark.parametrize(("taken", "left"), [(0, 4), (1, 3), (3, 1), (4, 1)])
def test_a_demo_uses_fewer_threads_if_other_processes_use_its_cores(monkeypatch, taken, left):
    assert thread_count(monkeypatch, taken) == left


@pytest.mark.parametrize(("taken", "left"), [(0, 2), (1, 1), (2, 1), (4, 1)])
def test_devices_of_one_process_wait_for_each_other(monkeypatch, taken, left):
    """Check two devices with two cores each: if one core is in use, both have one thread."""
    worker = worker_context_for(cores=4, replicas=2, cores_per_device=2)
    assert thread_count(monkeypatch, taken, worker, framework="mxnet") == left


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("profile", "reference"), ("profile", "synthetic"), ("device", "cuda"),
        ("framework", "tensorflow"), ("oversubscribe", True), ("update", "async"), ("nodes", 2),
    ],
)  # fmt: skip
def test_other_runs_keep_one_thread_for_each_core(monkeypatch, key, value):
    assert thread_count(monkeypatch, None, **{key: value}) == 4


def test_threads_are_not_reduced_because_of_the_runs_servers(monkeypatch):
    """Check that the cores are not examined while the run's servers start on any core."""
    worker = replace(worker_context_for(), server="127.0.0.1:4000")
    assert thread_count(monkeypatch, None, worker, framework="mxnet") == 4


def test_a_single_core_is_not_examined(monkeypatch):
    assert thread_count(monkeypatch, None, worker_context_for(cores=1, cores_per_device=1)) == 1


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow"])
def test_a_user_defined_number_is_kept(monkeypatch, framework):
    assert (
        thread_count(
            monkeypatch, None, threads_per_device="2", framework=framework, profile="reference"
        )
        == 2
    )
