"""Training and evaluation batches of NCF, computed on demand from the prepared arrays.

An epoch has 5 samples per training positive. Sample s belongs to positive s // 5. k = s % 5 is 0
for the positive sample (label 1) and 1 … 4 for its negative samples (label 0). In each epoch, a
random permutation orders the samples. Step t of an epoch uses positions [t·B, min((t + 1)·B, 5·P))
of the permutation. If the step has n samples, replica r of R uses samples [r·⌈n/R⌉, min((r +
1)·⌈n/R⌉, n)) of the step.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from workloads.api import Array, Batch, DatasetInfo, Settings, WorkerContext, build_options
from workloads.common.arrays import Int32s, mapped
from workloads.common.cores import process_cores
from workloads.common.data.prefetch import Prefetch
from workloads.common.randomness import CHUNK, Permutation, stream
from workloads.ncf.sampling import (
    EVALUATION_NEGATIVES,
    NEGATIVES_PER_POSITIVE,
    Positives,
    draw,
    evaluation_negatives,
    run_parallel,
    training_key,
)
from workloads.ncf.settings import NCFOptions
from workloads.ncf.sharding import SAMPLES_PER_POSITIVE, Sharding

BURST_SAMPLES = 1 << 18
"""Number of samples (4 MiB) that are generated at a time if batches are small.

Between steps, training evicts the sampler's data from the CPU caches. On one core, generating
batches of 8,192 samples separately took three times as long as generating `BURST_SAMPLES` samples
at a time.
"""
CPU_EVALUATION_USERS = 64
GPU_EVALUATION_USERS = (1 << 20) // (EVALUATION_NEGATIVES + 1)
"""Number of users per evaluation batch on a GPU. A batch has about a million scores, as in NVIDIA's
submission.

The number of users was not tuned on a GPU.
"""


class NCFData:
    """Input pipeline over a prepared MovieLens data set.

    A training batch has these arrays, all (b,) with b = samples per replica including padding:

    - `user` int32, `item` int32, `label` float32, `weight` float32; all are 0 for padding.

    An evaluation batch has these arrays:

    - `user` int32 (u,);
    - `item` int32 (u, 1000): the test item in column 0, then the negatives in ascending order;
    - `valid` bool (u,): False if a user is padding.
    """

    def __init__(
        self, settings: Settings, dataset_info: DatasetInfo, worker: WorkerContext, seed: int
    ) -> None:
        self.dataset_info, self.worker, self.seed = dataset_info, worker, seed
        self.users, self.items = dataset_info.sizes["users"], dataset_info.sizes["items"]
        folder = Path(settings.data_dir)
        self.train_user = mapped(folder / "train_user.npy", "int32", dataset_info.train_samples)
        self.train_item = mapped(folder / "train_item.npy", "int32", dataset_info.train_samples)
        self.test_item = mapped(folder / "test_item.npy", "int32", self.users)
        self.samples_per_epoch = dataset_info.train_samples * SAMPLES_PER_POSITIVE
        self.sharding = Sharding(self.samples_per_epoch, settings.global_batch_size, worker)
        self.steps_per_epoch = self.sharding.steps_per_epoch
        self.users_per_batch = evaluation_users_per_batch(settings, self.users, worker.num_replicas)
        self.threads = build_options(NCFOptions, settings).data_threads or _threads(
            settings.device, worker
        )
        self.sample_on_device = sample_on_device(settings)
        self._positives: Positives | None = None
        self._evaluation: list[tuple[Int32s, Int32s]] | None = None
        self._running: weakref.WeakSet[Prefetch[list[Batch]]] = weakref.WeakSet()

    # -- training
    # ----------------------------------------------------------------------------------------------

    def train(self, first_step: int, stop_step: int) -> Iterator[list[Batch]]:
        """Yield the batches of steps first_step … stop_step - 1.

        The steps may span several epochs. A background thread generates the batches.
        """
        local_samples = self.sharding.padded(0) * len(self.worker.replica_ids)
        steps = max(1, BURST_SAMPLES // local_samples)
        prefetch = Prefetch(
            _in_bursts(self._steps(first_step, stop_step), steps), depth=max(2, steps)
        )
        self._running.add(prefetch)
        try:
            yield from prefetch
        finally:
            prefetch.close()

    def _steps(self, first_step: int, stop_step: int) -> Iterator[list[Batch]]:
        order: Permutation | None = None
        for step in range(first_step, stop_step):
            epoch = step // self.steps_per_epoch
            if order is None or step % self.steps_per_epoch == 0:
                order = self.order(epoch)
            yield [
                self._train_batch(step, replica, epoch, order)
                for replica in self.worker.replica_ids
            ]

    def order(self, epoch: int) -> Permutation:
        """Return the random order of an epoch's samples."""
        return Permutation(stream(self.seed, "ncf order", epoch), self.samples_per_epoch)

    def _train_batch(self, step: int, replica: int, epoch: int, order: Permutation) -> Batch:
        positions, padded = self.sharding.positions(step, replica), self.sharding.padded(step)
        real, total = len(positions), self.sharding.size(step)
        if self.sample_on_device:
            arrays = drawn_by_device(order, positions, training_key(self.seed, epoch))
            return Batch(
                arrays=arrays,
                weight_sum=float(real),
                global_weight_sum=float(total),
                global_samples=total,
            )
        arrays = {name: np.zeros(padded, np.int32) for name in ("user", "item")}
        arrays |= {name: np.zeros(padded, np.float32) for name in ("label", "weight")}
        arrays["weight"][:real] = 1
        key = training_key(self.seed, epoch)
        chunk = partial(self._fill, key, order, positions, arrays)
        run_parallel([partial(chunk, thread) for thread in range(self.threads)])
        return Batch(
            arrays=arrays,
            weight_sum=float(real),
            global_weight_sum=float(total),
            global_samples=total,
        )

    def _fill(
        self,
        key: np.uint64,
        order: Permutation,
        positions: range,
        arrays: dict[str, Array],
        thread: int,
    ) -> None:
        """Fill every `threads`-th chunk of a replica's samples, beginning with chunk `thread`."""
        positives = self.positives()
        for first in range(thread * CHUNK, len(positions), self.threads * CHUNK):
            stop = min(first + CHUNK, len(positions))
            sample = order(np.arange(positions[first], positions[stop - 1] + 1))
            positive = sample // SAMPLES_PER_POSITIVE
            k = sample - positive * SAMPLES_PER_POSITIVE
            user, item, label = (arrays[name][first:stop] for name in ("user", "item", "label"))
            user[:] = self.train_user[positive]
            label[:] = k == 0
            item[:] = self.train_item[positive]
            negative = np.flatnonzero(k)
            numbers = positive[negative] * NEGATIVES_PER_POSITIVE + (k[negative] - 1)
            drawn = np.empty(negative.size, np.int32)
            draw(key, numbers, user[negative], positives, drawn)
            item[negative] = drawn

    def positives(self) -> Positives:
        """Return the bitmap of training positives.

        The first call builds the bitmap with all CPU cores of the process.
        """
        if self._positives is None:
            self._positives = Positives(
                self.train_user, self.train_item, self.users, self.items, process_cores(self.worker)
            )
        return self._positives

    # -- evaluation
    # ----------------------------------------------------------------------------------------------

    def evaluation(self) -> Iterator[list[Batch]]:
        """Yield evaluation batches of `users_per_batch` users.

        User u belongs to replica u % num_replicas. Every replica has the same number of batches.
        The weight sum of a batch is the number of valid users in the batch. The first call draws
        the negative items.
        """
        tables = self._evaluation_tables()
        size, replicas = self.users_per_batch, self.worker.num_replicas
        for first in range(0, -(-self.users // replicas), size):
            counts = [
                max(0, min(size, len(range(r, self.users, replicas)) - first))
                for r in range(replicas)
            ]
            total = sum(counts)
            batches = []
            for (users, items), replica in zip(tables, self.worker.replica_ids, strict=True):
                count = counts[replica]
                if count == size:
                    user, item = users[first : first + size], items[first : first + size]
                # The last user is repeated as padding, so that every batch has the same shape.
                elif len(users):
                    rows = np.minimum(np.arange(first, first + size), len(users) - 1)
                    user, item = users[rows], items[rows]
                else:
                    user, item = (
                        np.zeros(size, np.int32),
                        np.zeros((size, EVALUATION_NEGATIVES + 1), np.int32),
                    )
                arrays = {"user": user, "item": item, "valid": np.arange(size) < count}
                batches.append(Batch(arrays, float(count), float(total), total))
            yield batches

    def _evaluation_tables(self) -> list[tuple[Int32s, Int32s]]:
        """Return the users (n,) and candidate items (n, 1000) of each local replica."""
        if self._evaluation is None:
            tables = []
            for replica in self.worker.replica_ids:
                users = np.arange(replica, self.users, self.worker.num_replicas, dtype=np.int32)
                items = np.empty((len(users), EVALUATION_NEGATIVES + 1), np.int32)
                items[:, 0] = self.test_item[users]
                evaluation_negatives(
                    self.seed, users, self.positives(), items[:, 1:], process_cores(self.worker)
                )
                tables.append((users, items))
            self._evaluation = tables
        return self._evaluation

    def close(self) -> None:
        """Stop the threads of unfinished `train` calls, and release the pipeline's memory."""
        for prefetch in list(self._running):
            prefetch.close()
        self._positives = None
        self._evaluation = None


def sample_on_device(settings: Settings) -> bool:
    """Return whether the trainer generates the training samples on the device.

    Raises:
        ValueError: The option is `on`, but the framework or the device does not support it.
    """
    option = build_options(NCFOptions, settings).sample_on_device
    supported = (settings.framework, settings.device) == ("pytorch", "cuda")
    if option == "on" and not supported:
        raise ValueError(
            "workload.sample_on_device=on: only PyTorch on GPUs draws samples on the device, not"
            f" {settings.framework} with device={settings.device}. Set"
            " workload.sample_on_device=auto"
        )
    return supported and option != "off"


def drawn_by_device(order: Permutation, positions: range, key: np.uint64) -> dict[str, Array]:
    """Return the arrays from which the device generates samples.

    `order` int32 (6, n) contains the tables of the permutation, padded with 0. `draw` int64 (3,)
    contains the first position, the number of positions, and the random key of the negative items.
    """
    tables = np.zeros((len(order.tables), max(map(len, order.tables))), np.int32)
    for row, table in zip(tables, order.tables, strict=True):
        row[: len(table)] = table
    return {
        "order": tables,
        "draw": np.array([positions.start * bool(positions), len(positions), key.view(np.int64)]),
    }


def _in_bursts(batches: Iterator[list[Batch]], steps: int) -> Iterator[list[Batch]]:
    """Yield the same batches, but generate `steps` batches at a time."""
    while burst := list(itertools.islice(batches, steps)):
        yield from burst


def evaluation_users_per_batch(settings: Settings, users: int, replicas: int) -> int:
    """Return the number of users per evaluation batch.

    The option of the same name sets the number. The maximum is the number of users per replica.
    """
    option = build_options(NCFOptions, settings).evaluation_users_per_batch
    count = (
        (CPU_EVALUATION_USERS if settings.device == "cpu" else GPU_EVALUATION_USERS)
        if option is None
        else option
    )
    if count < 1:
        raise ValueError(f"evaluation_users_per_batch: expected a positive integer, got {count}")
    return min(count, -(-users // replicas))


def _threads(device: str, worker: WorkerContext) -> int:
    """Return the number of threads that generate batches.

    The function returns 1 if a CPU trains. For GPUs, which consume far more samples per second, the
    function returns up to 8.
    """
    return 1 if device == "cpu" else min(8, process_cores(worker))
