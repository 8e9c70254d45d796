"""Parallel computation of independent tasks of a step, with one CPU thread per task.

PyTorch's intra-op threads synchronize after every operator, and a small step has a hundred
operators. If a different process uses one of the cores, each synchronization waits for the thread
on that core. Independent tasks synchronize only once, at their end.
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
        """Create the thread pool.

        If `count` is 1, no thread is started, and all tasks are computed in the caller's thread.
        """
        self.count = count
        self._pool: ThreadPoolExecutor | None = None

    def map(self, compute: Callable[[Item], Result], parts: Sequence[Item]) -> list[Result]:
        """Return the results of `compute` for all items of `parts`, in the same order.

        `compute` must enter thread-local contexts (inference mode, autocast), because the pool's
        threads do not inherit them. A single item is computed in the caller's thread with all
        cores, like every operator outside of the pool.
        """
        if self.count == 1 or len(parts) == 1:
            return [compute(part) for part in parts]
        if self._pool is None:
            # `set_num_threads` only applies to the thread that calls it.
            self._pool = ThreadPoolExecutor(self.count, "part", torch.set_num_threads, (1,))
        return list(self._pool.map(compute, parts))
