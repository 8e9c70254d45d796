"""Parts of a step computed side by side on CPU cores, each by one thread.

PyTorch's own threads meet after every operator: a hundred times in a small step. Where something else keeps one core
busy, each meeting waits for the thread that lost its core. Parts that need nothing of each other meet once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


class SideBySide:
    """As many threads as a device has cores."""

    def __init__(self, count: int) -> None:
        """`count` 1 starts no thread: parts are computed where they are given."""
        self.count = count
        self._pool: ThreadPoolExecutor | None = None

    def map(self, compute: Callable[[Item], Result], parts: Sequence[Item]) -> list[Result]:
        """The results of all parts, in order. What is thread-local (inference mode, autocast) `compute` enters itself.

        A part that is alone has the cores to itself, as every operator outside.
        """
        if self.count == 1 or len(parts) == 1:
            return [compute(part) for part in parts]
        if self._pool is None:
            # `set_num_threads` is of the calling thread alone.
            self._pool = ThreadPoolExecutor(self.count, "part", torch.set_num_threads, (1,))
        return list(self._pool.map(compute, parts))
