"""Prefetches image batches with threads.

Each image is written directly to its slot in the batch. The memory use is limited to the batches in
progress and the batches that the consumer still references.
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from threading import Lock, local
from typing import Generic, TypeVar

import cv2
import numpy as np

from workloads.common.arrays import UInt8s
from workloads.common.images.jpeg import Reader

T = TypeVar("T")

IMAGES_PER_TASK = 8
"""Number of images that a task of the thread pool decodes in about 5 ms. With this task size, the
overhead is small, and all threads finish a batch at nearly the same time.
"""
BATCHES_AHEAD = 3
"""Number of prefetched batches, in progress or finished, in addition to the consumer's current
batch.
"""


class Buffers:
    """Pool of memory for uint8 arrays of up to `most_bytes` bytes.

    The memory of an array is reused as soon as the array is no longer referenced. Arrays of
    different shapes share the pool, for example batches of landscape and portrait images. Views of
    an array, and framework tensors that share its memory, keep the array alive. The pool therefore
    never overwrites memory that is still in use.
    """

    def __init__(self, most_bytes: int) -> None:
        self._bytes = most_bytes
        self._free: list[UInt8s] = []
        self.allocated = 0
        """Total number of buffers allocated so far."""

    def take(self, shape: tuple[int, ...]) -> UInt8s:
        """Return an array of `shape` with undefined content."""
        size = math.prod(shape)
        assert size <= self._bytes, f"{size} bytes of {self._bytes}"
        try:
            memory = self._free.pop()
        except IndexError:
            memory = np.empty(self._bytes, np.uint8)
            self.allocated += 1
        # NumPy lets views of a view refer directly to the base array. The array is therefore not a
        # view of `memory`, so that views of the array keep the array itself alive.
        array = np.frombuffer(memory.data[:size], np.uint8)
        weakref.finalize(array, self._free.append, memory).atexit = False
        return array.reshape(shape)


class ReaderPool:
    """Pool of threads. Each thread has a separate `Reader`."""

    def __init__(self, threads: int) -> None:
        cv2.setNumThreads(1)
        self.threads = threads
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="images")
        self._local = local()

    def start(
        self, work: Callable[[Reader, int], None], count: int, at_once: int = IMAGES_PER_TASK
    ) -> list[Future[None]]:
        """Start `work(reader, i)` for i in 0 … count - 1.

        Each task of the thread pool processes `at_once` values of i.
        """
        ranges = [range(first, min(first + at_once, count)) for first in range(0, count, at_once)]
        return [self._executor.submit(self._run, work, numbers) for numbers in ranges]

    def _run(self, work: Callable[[Reader, int], None], numbers: range) -> None:
        try:
            reader = self._local.reader
        except AttributeError:
            reader = self._local.reader = Reader()
        for number in numbers:
            work(reader, number)

    def close(self) -> None:
        """Cancel the tasks that have not started, and wait for the running tasks."""
        self._executor.shutdown(wait=True, cancel_futures=True)


class BatchesAhead(Generic[T]):
    """Iterator that prepares up to `depth` items before the consumer requests them.

    `begin` yields each item with the tasks that complete the item. If a task fails, the consumer
    receives the error of the first failed task.
    """

    def __init__(
        self, begin: Iterator[tuple[T, list[Future[None]]]], depth: int = BATCHES_AHEAD
    ) -> None:
        self._begin = begin
        self._depth = depth
        self._waiting: deque[tuple[T, list[Future[None]]]] = deque()
        self._lock = Lock()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        with self._lock:
            self._fill()
            if not self._waiting:
                raise StopIteration
            item, tasks = self._waiting.popleft()
            # The call wakes this thread only once per batch, not once per task.
            wait(tasks, return_when=FIRST_EXCEPTION)
            for task in tasks:
                task.result()
            # The queue is filled after the current item is removed, so that the current item does
            # not count towards `depth`.
            self._fill()
        return item

    def _fill(self) -> None:
        while len(self._waiting) < self._depth:
            following = next(self._begin, None)
            if following is None:
                return
            self._waiting.append(following)

    def finish(self) -> None:
        """Wait for all started tasks."""
        with self._lock:
            for _, tasks in self._waiting:
                wait(tasks)

    def close(self) -> None:
        """Cancel the tasks that have not started, and start no further items."""
        self._begin = iter(())
        with self._lock:
            for _, tasks in self._waiting:
                for task in tasks:
                    task.cancel()
            self._waiting.clear()
