"""Parallel computation of independent parts of a step on CPU cores, one thread per part.

PyTorch's threads synchronize after every operator, a hundred times in a small step. If another
process keeps a core busy, each synchronization waits for the thread on that core. Independent parts
synchronize only once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


class SideBySide:
    """Thread pool with one thread per core of the device."""

    def __init__(self, count: int) -> None:
        """Create the pool.

        With a `count` of 1, no thread is started, and parts are computed in the caller's thread.
        """
        self.count = count
        self._pool: ThreadPoolExecutor | None = None

    def map(self, compute: Callable[[Item], Result], parts: Sequence[Item]) -> list[Result]:
        """Return the results of all parts in order.

        `compute` must enter thread-local contexts (inference mode, autocast) itself. A single part
        is computed in the caller's thread with all cores, like every operator outside the pool.
        """
        if self.count == 1 or len(parts) == 1:
            return [compute(part) for part in parts]
        if self._pool is None:
            # `set_num_threads` only applies to the calling thread.
            self._pool = ThreadPoolExecutor(self.count, "part", torch.set_num_threads, (1,))
        return list(self._pool.map(compute, parts))
