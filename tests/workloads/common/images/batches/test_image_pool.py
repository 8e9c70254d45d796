"""Pool of buffers and threads: reuse of memory, bounded prefetch, and order of errors."""

import gc
import threading

import numpy as np
import pytest

from workloads.common.images.batches.pool import IMAGES_PER_TASK, BatchesAhead, Buffers, ReaderPool


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[1:3],
        lambda a: a.reshape(-1)[2:],
        lambda a: a[1:][:, 1:].T,
        memoryview,
        lambda a: np.asarray(memoryview(a))[:1],
    ],
)
def test_memory_with_a_view_is_not_reused(view):
    buffers = Buffers(20)
    kept = view(buffers.take((4, 5)))
    gc.collect()
    second = buffers.take((4, 5))
    assert buffers.allocated == 2
    second[:] = 1
    del kept
    gc.collect()
    buffers.take((4, 5))
    assert buffers.allocated == 2


def test_arrays_of_different_shapes_reuse_the_memory():
    buffers = Buffers(2 * 3 * 5)
    landscape, portrait = buffers.take((2, 3, 5)), buffers.take((2, 5, 3))
    addresses = {landscape.ctypes.data, portrait.ctypes.data}
    assert (landscape.shape, portrait.shape) == ((2, 3, 5), (2, 5, 3))
    del landscape, portrait
    smaller, portrait = buffers.take((2, 2)), buffers.take((2, 5, 3))
    assert {smaller.ctypes.data, portrait.ctypes.data} == addresses
    assert smaller.size == 4
    assert buffers.allocated == 2
    with pytest.raises(AssertionError, match="31 bytes of 30"):
        buffers.take((31,))


def begun(pool, count, log, fail_at=None):
    for number in range(count):
        log.append(number)

        def work(reader, i, number=number):
            if number == fail_at:
                raise ValueError(f"item {number}")

        yield number, pool.start(work, 20)


def test_items_are_in_order_and_at_most_depth_are_prefetched():
    pool, log = ReaderPool(2), []
    ahead = BatchesAhead(begun(pool, 12, log), depth=3)
    for number, item in enumerate(ahead):
        assert item == number
        assert len(log) <= number + 1 + 3
    assert log == list(range(12))
    pool.close()


def test_an_error_is_raised_in_place_of_its_item():
    pool = ReaderPool(2)
    ahead = BatchesAhead(begun(pool, 9, [], fail_at=4), depth=3)
    assert [next(ahead) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="item 4"):
        next(ahead)
    ahead.close()
    pool.close()


def test_every_image_is_processed_once_by_a_reader_per_thread():
    pool, seen, lock = ReaderPool(3), [], threading.Lock()

    def work(reader, number):
        with lock:
            seen.append((number, id(reader), threading.get_ident()))

    for task in pool.start(work, 10 * IMAGES_PER_TASK + 3):
        task.result()
    pool.close()
    assert sorted(number for number, _, _ in seen) == list(range(10 * IMAGES_PER_TASK + 3))
    assert len({reader for _, reader, _ in seen}) == len({thread for _, _, thread in seen}) <= 3


def test_closing_ends_the_threads():
    before = threading.active_count()
    pool = ReaderPool(2)
    ahead = BatchesAhead(begun(pool, 1000, []), depth=3)
    next(ahead)
    ahead.close()
    assert list(ahead) == []
    pool.close()
    assert threading.active_count() == before
