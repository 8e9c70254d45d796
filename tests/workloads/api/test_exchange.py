"""Asynchronous updates: how stale each one is, at which rate it is made, and what a server counts."""

from collections import Counter

import numpy as np
import pytest

from workloads.api import ParameterServerClient, metadata_size, record_update


class Server:
    """Counts what workers push, and keeps the tails."""

    def __init__(self, workers):
        self.counts = np.zeros(metadata_size(workers), np.float32)
        self.pushed = []

    def pull(self):
        return self.counts.copy()

    def push(self, tail):
        self.pushed.append(tail.tolist())
        record_update(self.counts, tail)


def exchanges(workers, rate=lambda step: 0.5):
    server = Server(workers)
    return server, [
        ParameterServerClient(server, worker, workers, rate) for worker in range(workers)
    ]


def test_alone_nothing_is_stale():
    _, (only,) = exchanges(1)
    for number in range(5):
        assert only.pull() == number
        only.push()
    assert only.pull() == 5
    assert only.staleness == Counter({0: 5})


def test_updates_of_others_between_pull_and_push_are_counted():
    _, (first, second, third) = exchanges(3)
    for one in (first, second, third):
        one.pull()
    second.push()
    third.push()
    first.push()  # the third: two of others came between
    for one in (first, second, third):
        assert one.pull() == 3
    assert [one.staleness for one in (first, second, third)] == [
        Counter({2: 1}),
        Counter({0: 1}),
        Counter({1: 1}),
    ]


def test_updates_between_push_and_the_next_pull_make_nothing_stale():
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
        assert second.staleness == Counter({0: 4}), "a second pull counts nothing again"


def test_a_step_is_as_many_updates_as_there_are_workers():
    steps = []
    server, (first, second) = exchanges(2, lambda step: steps.append(step) or step + 0.25)
    for one in (first, first, second, first, second):
        one.pull()
        one.push()
    assert steps == [0, 0, 1, 1, 2]
    assert [tail[:2] for tail in server.pushed] == [
        [0.25, 0],
        [0.25, 0],
        [1.25, 1],
        [1.25, 0],
        [2.25, 1],
    ]


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_a_server_notes_whose_update_came_when(workers):
    counts = np.zeros(metadata_size(workers), np.float32)
    for number in range(2 * workers):
        tail = np.zeros_like(counts)
        tail[:2] = 0.1, number % workers
        record_update(counts, tail)
    assert counts.tolist() == [2 * workers, *range(workers + 1, 2 * workers + 1)]
