"""Produce items on a background thread while the consumer computes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class _End:
    """Last entry of the queue: the producer is done, or failed with `error`."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class Prefetch(Generic[T]):
    """An iterator over `items` that keeps up to `depth` of them ready.

    An error of the producer is raised where its item would have come. Closing (or dropping the last reference) stops
    the thread and closes `items`.
    """

    def __init__(self, items: Iterator[T], depth: int = 2) -> None:
        if depth < 1:
            raise ValueError(f"depth must be at least 1, not {depth}")
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
        """Stop the producer and wait for it; calling it again does nothing."""
        self._done = True
        self._stop.set()
        while self._thread.is_alive():
            # The producer may stand in put(): make room, then let it see the stop.
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
        # Also reached when __init__ refused its arguments; never waits, so that it cannot hang an exit.
        stop = getattr(self, "_stop", None)
        if stop is not None:
            stop.set()
            while not self._queue.empty():
                self._queue.get_nowait()


def _produce(items: Iterator[T], out: queue.Queue[T | _End], stop: threading.Event) -> None:
    """Body of the thread; it holds no reference to the Prefetch, so that an abandoned one can be collected."""
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
