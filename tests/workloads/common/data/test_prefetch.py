import gc
import threading
import time

import pytest

from workloads.common.data.prefetch import Prefetch


@pytest.fixture(autouse=True)
def record_threads():
    """Record the threads that earlier tests of this process may have left."""
    EARLIER_THREADS[:] = threading.enumerate()


EARLIER_THREADS: list[threading.Thread] = []


def workers() -> int:
    return sum(
        thread.name == "prefetch" and thread not in EARLIER_THREADS
        for thread in threading.enumerate()
    )


def gone(timeout: float = 120.0) -> bool:
    end = time.monotonic() + timeout
    while workers() and time.monotonic() < end:
        time.sleep(0.01)
    return workers() == 0


@pytest.mark.parametrize("depth", [1, 2, 7])
def test_items_are_in_order_and_the_thread_ends(depth):
    prefetch = Prefetch(iter(range(100)), depth)
    assert [list(prefetch), list(prefetch)] == [list(range(100)), []]
    assert gone()


def test_at_most_depth_items_are_prefetched():
    produced = []

    def source():
        for number in range(100):
            produced.append(number)
            yield number

    with Prefetch(source(), depth=2) as prefetch:
        assert next(prefetch) == 0
        time.sleep(0.1)
        # One item has been taken, two are ready, and one waits for space.
        assert len(produced) <= 4


def test_an_error_is_raised_in_place_of_its_item():
    def source():
        yield 1
        raise KeyError("broken")

    prefetch = Prefetch(source())
    assert next(prefetch) == 1
    with pytest.raises(KeyError, match="broken"):
        next(prefetch)
    assert list(prefetch) == []
    assert gone()


def test_closing_early_stops_the_thread_and_the_source():
    closed = threading.Event()

    def source():
        try:
            while True:
                yield 0
        finally:
            closed.set()

    prefetch = Prefetch(source(), depth=3)
    next(prefetch)
    prefetch.close()
    prefetch.close()
    assert closed.is_set()
    assert workers() == 0
    assert list(prefetch) == []


def test_a_garbage_collected_prefetch_leaves_no_thread():
    for _ in range(10):
        next(Prefetch(iter(lambda: 0, 1)))
    gc.collect()
    assert gone()


def test_depth_must_be_positive():
    with pytest.raises(ValueError, match="depth"):
        Prefetch(iter([]), 0)
