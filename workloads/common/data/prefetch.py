"""Produces items on a background thread while the consumer computes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class _End:
    """Last item in the queue.

    The item means that the producer has finished, or has failed with `error`.
    """

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class Prefetch(Generic[T]):
    """Iterator over `items` that keeps up to `depth` items in a queue.

    If the producer raises an exception, the iterator raises this exception. Closing the iterator,
    or dropping the last reference to it, stops the thread and closes `items`.
    """

    def __init__(self, items: Iterator[T], depth: int = 2) -> None:
        if depth < 1:
            raise ValueError(f"depth: expected at least 1, got {depth}")
        self._queue: queue.Queue[T | _End] = queue.Queue(depth)
        self._stop = threading.Event()
        self._done = False
        self._thread = threading.Thread(
            target=_produce, args=(items, self._queue, self._stop), name="prefetch", daemon=True
        )
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._done:
            raise StopIteration
        item = self._queue.get()
        if not isinstance(item, _End):
            return item
        self._done = True
        self._thread.join()
        if item.error is not None:
            raise item.error
        raise StopIteration

    def close(self) -> None:
        """Stop the producer thread and wait until it has ended. Further calls have no effect."""
        self._done = True
        self._stop.set()
        while self._thread.is_alive():
            # The producer may be blocked in put(). A free slot in the queue unblocks the producer,
            # which then checks the stop event.
            try:
                self._queue.get(timeout=0.01)
            except queue.Empty:
                continue
        self._thread.join()

    def __enter__(self) -> Prefetch[T]:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        # This method also runs if __init__ has rejected its arguments. The method never waits, so
        # it cannot block the exit of Python.
        stop = getattr(self, "_stop", None)
        if stop is not None:
            stop.set()
            while not self._queue.empty():
                self._queue.get_nowait()


def _produce(items: Iterator[T], out: queue.Queue[T | _End], stop: threading.Event) -> None:
    """Put the items into the queue. The producer thread runs this function.

    The function has no reference to the `Prefetch` object, so that an abandoned object can be
    garbage-collected.
    """
    error: BaseException | None = None
    try:
        for item in items:
            if stop.is_set():
                break
            out.put(item)
            del item
            if stop.is_set():
                break
    except BaseException as caught:
        error = caught
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()
        if not stop.is_set():
            out.put(_End(error))
