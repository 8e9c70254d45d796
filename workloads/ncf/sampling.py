"""Sampling of negatives: items that are not among the user's training positives.

Items are drawn uniformly with replacement. If a drawn item is a training positive of the user, the
item is rejected, and a new item is drawn. A drawn item depends only on the coordinates of the draw
(seed, epoch, draw number, attempt). ML-20M has 19.9 million positives, and its packed user × item
bitmap has 463 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from workloads.common.arrays import Bools, Int32s, Int64s, Integers, UInt8s
from workloads.common.randomness import CHUNK, bits, fold, integers, stream

NEGATIVES_PER_POSITIVE = 4
"""Number of training negatives per positive (reference run_and_time.sh, logged as
input_hp_num_neg).
"""
EVALUATION_NEGATIVES = 999
"""Number of evaluation negatives per user (v0.5 rules, logged as eval_hp_num_neg)."""

Items = Int32s
_BLOCK_BYTES = 1 << 20
"""Size in bytes of the unpacked bitmap rows that are filled at a time, with one byte per item. The
size is close to the size of an L2 cache.
"""


class Positives:
    """Bitmap of the training positives, with a vectorized membership test.

    The bitmap needs users_total × ⌈items_total / 8⌉ bytes.

    Args:
        users: Users (P,) of the training pairs, sorted.
        items: Items (P,) of the training pairs.
        users_total: Number of users.
        items_total: Number of items.
        threads: Number of threads that build the bitmap.

    Raises:
        ValueError: A pair is out of range, the users are not sorted (a damaged file), or a user has
            every item.
    """

    def __init__(
        self, users: Integers, items: Integers, users_total: int, items_total: int, threads: int = 1
    ) -> None:
        _check_range("train_user", users, users_total)
        _check_range("train_item", items, items_total)
        if (users[1:] < users[:-1]).any():
            raise ValueError(
                "train_user is not sorted: the file is damaged. Prepare the data again"
            )
        self.items_total = items_total
        self.row_bytes = -(-items_total // 8)
        self.bitmap = np.empty(users_total * self.row_bytes, np.uint8)
        rows = max(1, _BLOCK_BYTES // max(1, items_total))
        edges = np.arange(0, users_total + rows, rows).clip(max=users_total)
        cuts = np.searchsorted(users, edges)
        blocks = [
            (
                int(edges[i]),
                int(edges[i + 1]),
                users[cuts[i] : cuts[i + 1]],
                items[cuts[i] : cuts[i + 1]],
            )
            for i in range(len(edges) - 1)
            if edges[i] < edges[i + 1]
        ]
        run_parallel([partial(self._fill, blocks[thread::threads]) for thread in range(threads)])

    def _fill(self, blocks: Sequence[tuple[int, int, Integers, Integers]]) -> None:
        """Write the bitmap rows of users `first` … `stop` - 1 for each block.

        A block is the tuple (first, stop, users, items).
        """
        width = self.row_bytes * 8
        for first, stop, users, items in blocks:
            unpacked = np.zeros((stop - first) * width, np.uint8)
            unpacked[(users.astype(np.int64) - first) * width + items] = 1
            if len(users) and int(np.bincount(users - first).max()) >= self.items_total:
                self._require_a_negative(first, unpacked.reshape(stop - first, width))
            self.bitmap[first * self.row_bytes : stop * self.row_bytes] = np.packbits(
                unpacked, bitorder="little"
            )

    def _require_a_negative(self, first: int, unpacked: UInt8s) -> None:
        """Raise ValueError if a user has every item.

        Drawing a negative item for this user would never end.
        """
        full = np.flatnonzero(unpacked.sum(axis=1, dtype=np.int64) >= self.items_total)
        if full.size:
            raise ValueError(
                f"user {first + int(full[0])} has all {self.items_total} items: no negative can be"
                " drawn"
            )

    def contains(self, users: Integers, items: Integers) -> Bools:
        """Return whether each pair (users[i], items[i]) is a training positive, (n,)."""
        byte = users.astype(np.int64)
        np.multiply(byte, self.row_bytes, out=byte)
        wide = items.astype(np.int64, copy=False)
        np.add(byte, wide >> 3, out=byte)
        bit = (wide & 7).astype(np.uint8)
        return np.asarray((self.bitmap[byte] >> bit) & np.uint8(1)).view(np.bool_)


def _check_range(name: str, values: Integers, total: int) -> None:
    if values.size and (int(values.min()) < 0 or int(values.max()) >= total):
        raise ValueError(
            f"{name}: expected numbers from 0 to {total - 1}, the file is damaged. Prepare the data"
            " again"
        )


def training_key(seed: int, epoch: int) -> np.uint64:
    """Return the random key of an epoch's training negatives.

    The draw number is 4 · positive + k, with k in 0 … 3.
    """
    return stream(seed, "ncf training negatives", epoch)


def evaluation_key(seed: int) -> np.uint64:
    """Return the random key of a run's evaluation negatives.

    The draw number is 999 · user + k, with k in 0 … 998.
    """
    return stream(seed, "ncf evaluation negatives")


def draw(
    key: int | np.uint64, numbers: Int64s, users: Integers, positives: Positives, out: Items
) -> None:
    """Fill `out` (n,) with items that are not training positives of the users.

    `numbers` (n,) contains the draw numbers, and `users` (n,) contains the user of each draw.
    """
    keys = [fold(key, 0)]
    for first in range(0, numbers.size, CHUNK):
        rows = slice(first, min(first + CHUNK, numbers.size))
        part = out[rows]
        drawn = integers(bits(keys[0], numbers[rows]), positives.items_total)
        part[:] = drawn
        rejected = np.flatnonzero(positives.contains(users[rows], drawn))
        attempt = 1
        while rejected.size:
            if attempt == len(keys):
                keys.append(fold(key, attempt))
            again = integers(bits(keys[attempt], numbers[rows][rejected]), positives.items_total)
            part[rejected] = again
            rejected = rejected[positives.contains(users[rows][rejected], again)]
            attempt += 1


def evaluation_negatives(
    seed: int, users: Integers, positives: Positives, out: Items, threads: int = 1
) -> None:
    """Fill `out` (len(users), 999) with the negative items of each user.

    The items of a user are in ascending order, so that repeated items are adjacent.
    """
    key = evaluation_key(seed)
    slots = np.arange(EVALUATION_NEGATIVES, dtype=np.int64)
    step = max(1, CHUNK // EVALUATION_NEGATIVES)

    def work(thread: int) -> None:
        for first in range(thread * step, len(users), threads * step):
            block = users[first : first + step].astype(np.int64)
            numbers = (block[:, None] * EVALUATION_NEGATIVES + slots).reshape(-1)
            items = np.empty(numbers.size, np.int32)
            draw(key, numbers, np.repeat(block, EVALUATION_NEGATIVES), positives, items)
            out[first : first + step] = np.sort(items.reshape(-1, EVALUATION_NEGATIVES), axis=1)

    run_parallel([partial(work, thread) for thread in range(threads)])


def run_parallel(tasks: Sequence[Callable[[], None]]) -> None:
    """Call each task in a separate thread and raise the first error.

    The tasks run in parallel, because NumPy releases the global interpreter lock.
    """
    if len(tasks) == 1:
        tasks[0]()
        return
    with ThreadPoolExecutor(len(tasks)) as pool:
        for future in [pool.submit(task) for task in tasks]:
            future.result()
