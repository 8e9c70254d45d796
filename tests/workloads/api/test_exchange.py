"""Asynchronous updates: staleness, learning rates, and the counters of a server."""

from collections import Counter

import numpy as np
import pytest

from workloads.api import ParameterServerClient, metadata_size, record_update


class Server:
    """Server that counts the updates of workers and records their metadata."""

    def __init__(self, workers):
        self.counts = np.zeros(metadata_size(workers), np.float32)
        self.pushed = []

    def pull(self):
        return self.counts.copy()

    def push(self, metadata):
        self.pushed.append(metadata.tolist())
        record_update(self.counts, metadata)


def exchanges(workers, rate=lambda step: 0.5):
    server = Server(workers)
    return server, [
        ParameterServerClient(server, worker, workers, rate) for worker in range(workers)
    ]


def test_updates_of_a_single_worker_are_not_stale():
    _, (only,) = exchanges(1)
    for number in range(5):
        assert only.pull() == number
        only.push()
    assert only.pull() == 5
    assert only.staleness == Counter({0: 5})


def test_staleness_is_the_number_of_updates_between_pull_and_push():
    _, (first, second, third) = exchanges(3)
    for client in (first, second, third):
        client.pull()
    second.push()
    third.push()
    first.push()  # Two updates came between pull and push.
    for client in (first, second, third):
        assert client.pull() == 3
    assert [client.staleness for client in (first, second, third)] == [
        Counter({2: 1}),
        Counter({0: 1}),
        Counter({1: 1}),
    ]


def test_updates_between_push_and_the_next_pull_do_not_count():
    _, (first, second) = exchanges(2)
    first.pull()
    first.push()
    for _ in range(4):
        second.pull()
        second.push()
    assert first.pull() == 5
    assert first.staleness == Counter({0: 1})
    for _ in range(2):
        second.pull()
        assert second.staleness == Counter({0: 4}), "a second pull does not count again"


def test_a_step_has_an_update_per_worker():
    steps = []
    server, (first, second) = exchanges(2, lambda step: steps.append(step) or step + 0.25)
    for client in (first, first, second, first, second):
        client.pull()
        client.push()
    assert steps == [0, 0, 1, 1, 2]
    assert [metadata[:2] for metadata in server.pushed] == [
        [0.25, 0],
        [0.25, 0],
        [1.25, 1],
        [1.25, 0],
        [2.25, 1],
    ]


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_a_server_records_the_last_update_of_each_worker(workers):
    counts = np.zeros(metadata_size(workers), np.float32)
    for number in range(2 * workers):
        metadata = np.zeros_like(counts)
        metadata[:2] = 0.1, number % workers
        record_update(counts, metadata)
    assert counts.tolist() == [2 * workers, *range(workers + 1, 2 * workers + 1)]
